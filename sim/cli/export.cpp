// stepcast export: a scenario as the file that starts the job in a training framework.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "sim/cli/command.hpp"
#include "sim/cli/followed_notes.hpp"
#include "sim/cli/hand_over.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {
namespace {

struct ExportRequest {
  std::string scenario, file;
  std::optional<Target> target;
  std::vector<std::string> overrides;
};

ExitCode export_file(const ExportRequest& request) {
  const Scenario scenario = load_scenario(request.scenario, request.overrides);
  print_followed(scenario);
  hand_over(scenario, *request.target, request.file);
  return ExitCode::done;
}

}  // namespace

Option target_option(const char* name, std::optional<Target>& target, const char* help) {
  return {.name = name,
          .into = word_value<Target>(target),
          .form = "megatron|torchtitan|deepspeed|nemo|scenario",
          .help = help};
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

Command export_command() {
  const auto request = std::make_shared<ExportRequest>();
  Option to = target_option("--to", request->target, "what to write");
  to.required = true;
  return {.name = "export",
          .help = "write a scenario as the file that starts the job in a training framework",
          .options = {{.name = "SCENARIO",
                       .into = &request->scenario,
                       .help = "scenario file",
                       .required = true},
                      to,
                      {.name = "FILE",
                       .into = &request->file,
                       .help = "where to; default: the standard output",
                       .writes = Output::file},
                      set_option(request->overrides, "")},
          .footer =
              "Example: stepcast export scenarios/llama-3.1-70b-512-h100.yaml --to megatron "
              "args.sh",
          .run = [request] { return export_file(*request); }};
}

}  // namespace sim
