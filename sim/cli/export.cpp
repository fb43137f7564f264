// stepcast export: a scenario as the file that starts the job in a training framework.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>

#include "sim/cli/command.hpp"
#include "sim/cli/followed_notes.hpp"
#include "sim/cli/hand_over.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {

void add_target_option(CLI::App& command, const std::string& name, std::optional<Target>& target,
                       const std::string& what) {
  command
      .add_option_function<std::string>(
          name,
          [&target, name](const std::string& text) {
            target = from_word<Target>(text);
            if (!target)
              throw CLI::ValidationError{
                  name, fmt::format("'{}' is none of megatron, torchtitan, deepspeed, nemo, "
                                    "scenario",
                                    text)};
          },
          what)
      ->option_text("megatron|torchtitan|deepspeed|nemo|scenario");
}

void hand_over(const Scenario& scenario, Target target, const std::string& path) {
  const std::string folder =
      path.empty() ? std::string{} : std::filesystem::absolute(path).parent_path().string();
  const Exported exported = export_scenario(scenario, target, folder);
  for (const Note& note : exported.notes)
    print_note(fmt::format("note: {}: {}", note.key, note.what));
  if (path.empty()) {
    print_result(exported.text);
    if (!exported.flags.empty())
      print_note("note: name a FILE to have the flags for Megatron-DeepSpeed written beside it:\n" +
                 exported.flags);
    return;
  }
  write_text_file(path, exported.text);
  print_note(fmt::format("wrote {}", path));
  if (exported.flags.empty()) return;
  write_text_file(path + ".args", exported.flags);
  print_note(fmt::format("wrote {}.args", path));
}

void add_export(CLI::App& app, ChosenCommand& action) {
  struct Request {
    std::string scenario, file;
    std::optional<Target> target;
    std::vector<std::string> overrides;
  };
  const auto request = std::make_shared<Request>();
  CLI::App* command = app.add_subcommand(
      "export", "write a scenario as the file that starts the job in a training framework");
  command->add_option("SCENARIO", request->scenario, "scenario file")->required();
  add_target_option(*command, "--to", request->target, "what to write");
  command->get_option("--to")->required();
  command->add_option("FILE", request->file, "where to; default: the standard output");
  add_set_option(*command, request->overrides, "");
  command->footer(
      "Example: stepcast export scenarios/llama-3.1-70b-512-h100.yaml --to megatron args.sh");
  command->callback([request, &action] {
    action = [request] {
      const Scenario scenario = load_scenario(request->scenario, request->overrides);
      print_followed(scenario);
      hand_over(scenario, *request->target, request->file);
      return ExitCode::done;
    };
  });
}

}  // namespace sim
