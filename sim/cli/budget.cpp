// stepcast budget: time and money of a whole training run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "sim/cli/command.hpp"
#include "sim/cli/followed_notes.hpp"
#include "sim/cli/unvalidated_note.hpp"
#include "sim/economics/answer.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {
namespace {

struct Request {
  std::string scenario;
  OutputFormat output = OutputFormat::table;
  std::string save;
  std::vector<std::string> overrides;
};

void save(const Request& request, const Scenario& scenario, const Budget& budget) {
  const std::filesystem::path file = std::filesystem::absolute(request.save);
  write_text_file(request.save, resolved_scenario(scenario, budget, file.parent_path().string()));
  print_note(fmt::format("saved: {}: the same answer with `stepcast budget`", request.save));
}

ExitCode answer_request(const Request& request) {
  const Scenario scenario = load_scenario(request.scenario, request.overrides);
  print_followed(scenario);
  const BudgetAnswer answer = answer_budget(scenario, request.overrides);
  if (!request.save.empty()) save(request, scenario, answer.budget);
  const auto table = [](const BudgetAnswer& one) {
    return budget_table(one, {.color = color_wanted()});
  };
  note_unvalidated(scenario.cluster);
  print_result(in_format(request.output, answer, table, budget_json, budget_csv, budget_markdown));
  if (answer.is_yes()) return ExitCode::done;
  print_note(answer.why_not());
  return ExitCode::does_not_fit;
}

}  // namespace

void add_budget(CLI::App& app, ChosenCommand& action) {
  const auto request = std::make_shared<Request>();
  CLI::App* command =
      app.add_subcommand("budget", "days, cost, energy and goodput of a whole training run");
  command->add_option("SCENARIO", request->scenario, "scenario file (YAML)")->required();
  add_output_option(*command, request->output);
  std::vector<std::string>& overrides = request->overrides;
  add_set_option(*command, overrides, ", e.g. --set budget.tokens=15e12");
  add_key_option(*command, overrides, {"--tokens", "budget.tokens", "N", "tokens to train on"});
  add_key_option(*command, overrides,
                 {"--finish-in", "budget.finish_in", "TIME",
                  "find the fewest GPUs that finish within this time, such as 60d"});
  add_key_option(*command, overrides,
                 {"--confidence", "budget.confidence", "P", "with this probability (0.95)"});
  add_key_option(*command, overrides,
                 {"--seed", "budget.seed", "N", "seed of the runs that are played"});
  command
      ->add_option("--save", request->save,
                   "write the scenario with every assumption in it, to run again")
      ->option_text("FILE");
  command->footer(
      "Example: stepcast budget scenarios/llama-3.1-405b-16384-h100.yaml --tokens 15.6e12 "
      "--set 'budget.price.gpu_hour=2.50 USD'");
  command->callback(
      [request, &action] { action = [request] { return answer_request(*request); }; });
}

}  // namespace sim
