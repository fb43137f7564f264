// The answer of `stepcast budget`, and its forms.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/economics/deadline.hpp"
#include "sim/economics/forecast.hpp"
#include "sim/economics/help.hpp"

namespace sim {

struct BudgetAnswer {
  Budget budget;
  BudgetForecast forecast;             // with the chosen number of GPUs, where one was sought
  std::optional<FinishAnswer> finish;  // budget.finish_in
  std::vector<Help> helps;             // best first
  // Memory suffices, the run ends, and in time if that was asked.
  bool is_yes() const;
  std::string why_not() const;  // where it is no
};

// Throws InputError; Stopped.
BudgetAnswer answer_budget(const Scenario& scenario, const std::vector<std::string>& overrides,
                           const Control& control = {});

std::string budget_table(const BudgetAnswer& answer, TextStyle style = {});
std::string budget_json(const BudgetAnswer& answer);  // README.md lists the keys
std::string budget_csv(const BudgetAnswer& answer);
std::string budget_markdown(const BudgetAnswer& answer);

}  // namespace sim
