// stepcast budget: time and money of a whole training run.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "sim/cli/command.hpp"
#include "sim/cli/followed_notes.hpp"
#include "sim/cli/unvalidated_note.hpp"
#include "sim/economics/budget_report.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {
namespace {

struct BudgetRequest {
  std::string scenario;
  OutputFormat output = OutputFormat::table;
  std::string save;
  std::vector<std::string> overrides;
};

void save(const BudgetRequest& request, const Scenario& scenario, const Budget& budget) {
  const std::filesystem::path file = std::filesystem::absolute(request.save);
  write_text_file(request.save, resolved_scenario(scenario, budget, file.parent_path().string()));
  print_note(fmt::format("saved: {}: the same answer with `stepcast budget`", request.save));
}

ExitCode answer_request(const BudgetRequest& request) {
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

Command budget_command() {
  const auto request = std::make_shared<BudgetRequest>();
  std::vector<std::string>& overrides = request->overrides;
  return {
      .name = "budget",
      .help = "days, cost, energy and goodput of a whole training run",
      .options = {scenario_option(request->scenario),
                  output_option(request->output),
                  set_option(overrides, ", e.g. --set budget.tokens=15e12"),
                  anchor_option(overrides),
                  key_option(overrides, {"--tokens", "budget.tokens", "N", "tokens to train on"}),
                  key_option(overrides,
                             {"--finish-in", "budget.finish_in", "TIME",
                              "find the fewest GPUs that finish within this time, such as 60d"}),
                  key_option(overrides, {"--confidence", "budget.confidence", "P",
                                         "with this probability (0.95)"}),
                  key_option(overrides,
                             {"--seed", "budget.seed", "N", "seed of the runs that are played"}),
                  {.name = "--save",
                   .into = &request->save,
                   .form = "FILE",
                   .help = "write the scenario with every assumption in it, to run again",
                   .writes = Output::file}},
      .footer =
          "Example: stepcast budget scenarios/llama-3.1-405b-16384-h100.yaml --tokens 15.6e12 "
          "--set 'budget.price.gpu_hour=2.50 USD'",
      .run = [request] { return answer_request(*request); }};
}

}  // namespace sim
