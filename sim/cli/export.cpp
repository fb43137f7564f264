// stepcast export: a scenario as the file that starts the job in a training framework.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "sim/chakra/write_et.hpp"
#include "sim/cli/command.hpp"
#include "sim/cli/followed_notes.hpp"
#include "sim/cli/hand_over.hpp"
#include "sim/plan/plan.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {
namespace {

struct ExportRequest {
  std::string scenario, file;
  std::optional<Target> target;
  bool chakra = false;
  std::vector<std::string> overrides;
};

ExitCode export_et(const Scenario& scenario, const std::string& folder) {
  if (folder.empty())
    throw WrongUse{"--to chakra needs a FOLDER behind it: it writes a file of each rank"};
  const Plan plan = make_plan(scenario.model, scenario.layout);
  const std::string name = std::filesystem::path{scenario.path}.stem().string();
  const WrittenEt written = write_et(folder, name, plan, scenario.cluster, scenario.options);
  for (const std::string& note : written.notes)
    print_note("note: " + note);
  print_note(fmt::format("wrote {}/{}.0.et to .{}.et ({} nodes) and comm_groups.json", folder, name,
                         written.files - 1, written.nodes));
  return ExitCode::done;
}

// A framework's file, or execution traces.
WordValue export_target(ExportRequest& request) {
  std::vector<std::string> words = words_in_order<Target>();
  words.emplace_back("chakra");
  return {words, [&request](const std::string& word) {
            request.chakra = word == "chakra";
            request.target = from_word<Target>(word);
          }};
}

ExitCode export_file(const ExportRequest& request) {
  const Scenario scenario = load_scenario(request.scenario, request.overrides);
  print_followed(scenario);
  if (request.chakra) return export_et(scenario, request.file);
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
  return {.name = "export",
          .help = "write a scenario as the file that starts the job in a training framework",
          .options = {{.name = "SCENARIO",
                       .into = &request->scenario,
                       .help = "scenario file",
                       .required = true},
                      {.name = "--to",
                       .into = export_target(*request),
                       .form = "megatron|torchtitan|deepspeed|nemo|scenario|chakra",
                       .help = "what to write",
                       .required = true},
                      {.name = "FILE",
                       .into = &request->file,
                       .help = "where to, a folder of chakra; default: the standard output",
                       .writes = Output::file},
                      set_option(request->overrides, "")},
          .footer =
              "Example: stepcast export scenarios/llama-3.1-70b-512-h100.yaml --to megatron "
              "args.sh",
          .run = [request] { return export_file(*request); }};
}

}  // namespace sim
