#include "sim/economics/budget_report.hpp"

#include <fmt/format.h>

#include "sim/base/quantity.hpp"

namespace sim {
namespace {

std::string never_ends(const RunForecast& run, const char* where) {
  return fmt::format(
      "{}the run makes no headway: {:.3g} h between stops, {:.3g} h of work between checkpoints "
      "and "
      "{:.3g} h to restart leave {:.2g}% of the time for work\n",
      where, run.mtbf.count() / 3600, run.model.segment().count() / 3600,
      run.model.failures.restart.count() / 3600, 100 * run.expected_goodput());
}

}  // namespace

bool BudgetAnswer::is_yes() const {
  return forecast.fits && forecast.rented.ends() && (!forecast.spot || forecast.spot->ends()) &&
         (!finish || finish->chosen >= 0);
}

std::string BudgetAnswer::why_not() const {
  std::string text;
  if (finish && finish->chosen < 0)
    text += fmt::format("cannot finish in {:g} days: {}\n", budget.finish_in->count() / 86400,
                        finish->why_not);
  if (!forecast.fits) return text + forecast.why_not;
  if (!forecast.rented.ends()) text += never_ends(forecast.rented, "");
  if (forecast.spot && !forecast.spot->ends()) text += never_ends(*forecast.spot, "on spot, ");
  return text;
}

BudgetAnswer answer_budget(const Scenario& scenario, const std::vector<std::string>& overrides,
                           const Control& control) {
  BudgetAnswer answer;
  answer.budget = load_budget(scenario, overrides);
  if (answer.budget.finish_in) {
    answer.finish = gpus_to_finish(scenario, overrides, answer.budget, control);
    if (answer.finish->chosen >= 0) {
      answer.forecast =
          answer.finish->looked_at[static_cast<std::size_t>(answer.finish->chosen)].forecast;
    }
  }
  if (!answer.finish || answer.finish->chosen < 0)
    answer.forecast = forecast_budget(scenario, answer.budget, control);
  if (answer.forecast.fits && answer.forecast.rented.ends())
    answer.helps = what_would_help(scenario, answer.budget, answer.forecast);
  return answer;
}

}  // namespace sim
