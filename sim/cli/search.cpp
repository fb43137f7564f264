// stepcast search: the best layouts for a model on a cluster. Its command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "sim/cli/hand_over.hpp"
#include "sim/cli/search_request.hpp"
#include "sim/search/workload.hpp"

namespace sim {
namespace {

void add_workload_options(CLI::App& command, CLI::Option* scenario, SearchRequest& request) {
  const auto instead = [&](CLI::Option* option, const char* text) {
    option->option_text(text)->excludes(scenario);
  };
  instead(command.add_option("--model", request.model, "a model, by name or file"), "MODEL");
  instead(command.add_option("--cluster", request.cluster, "a cluster, by name or file"),
          "CLUSTER");
  instead(command.add_option("--gpus", request.gpus, "how many of its GPUs")
              ->check(CLI::Range(1, 1 << 20)),
          "N");
  instead(command.add_option("--batch", request.batch, "sequences per step")
              ->check(CLI::PositiveNumber),
          "N");
  instead(command.add_option("--sequence", request.sequence, "tokens per sequence")
              ->check(CLI::PositiveNumber),
          "N");
}

}  // namespace

ScenarioSources sources_of(const SearchRequest& request) {
  if (!request.scenario.empty()) return ScenarioSources{request.scenario, request.overrides};
  return workload_sources({.model = request.model,
                           .cluster = request.cluster,
                           .gpus = request.gpus,
                           .global_batch = request.batch,
                           .sequence_length = request.sequence,
                           .overrides = request.overrides});
}

std::vector<std::string> arguments_of(const SearchRequest& request) {
  std::vector<std::string> arguments;
  const auto add = [&](const char* option, const std::string& value) {
    arguments.insert(arguments.end(), {option, value});
  };
  if (!request.model.empty()) add("--model", request.model);
  if (!request.cluster.empty()) add("--cluster", request.cluster);
  if (request.gpus > 0) add("--gpus", std::to_string(request.gpus));
  if (request.batch > 0) add("--batch", std::to_string(request.batch));
  if (request.sequence > 0) add("--sequence", std::to_string(request.sequence));
  for (const std::string& text : request.overrides)
    add("--set", text);
  return arguments;
}

CLI::Option* add_emit_options(CLI::App& command, std::optional<Target>& emit,
                              std::string& emit_to) {
  add_target_option(command, "--emit", emit,
                    "write the best layout as the file that starts the job");
  command.add_option("--emit-to", emit_to, "where to; default: the standard output")
      ->option_text("FILE")
      ->needs("--emit");
  return command.get_option("--emit");
}

CLI::App* add_search_command(CLI::App& app, const std::shared_ptr<SearchRequest>& request) {
  CLI::App* command = app.add_subcommand("search", "the best layouts for a model on a cluster");
  CLI::Option* scenario =
      command->add_option("SCENARIO", request->scenario,
                          "scenario file (YAML); its section `search` says what may vary");
  add_output_option(*command, request->output);
  add_workload_options(*command, scenario, *request);
  add_set_option(*command, request->overrides, ", e.g. --set search.tensor_parallel=8");
  add_key_option(*command, request->overrides,
                 {"--top", "search.top", "N", "how many layouts to show (10)"});
  add_work_options(*command, request->work);
  command->get_option("--shard")->excludes(
      add_emit_options(*command, request->emit, request->emit_to));
  command->add_flag("--no-progress", request->no_progress, "no line of progress on a terminal");
  command->footer(
      "Example: stepcast search --model llama-3.1-70b --cluster dgx-h100 --gpus 512 --batch 512 "
      "--sequence 8192");
  return command;
}

void add_search(CLI::App& app, ChosenCommand& action) {
  const auto request = std::make_shared<SearchRequest>();
  add_search_command(app, request)->callback([request, &action] {
    action = [request] { return run_search_request(*request); };
  });
}

}  // namespace sim
