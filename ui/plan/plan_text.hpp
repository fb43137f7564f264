// What a plan says in the window: the sentence that answers, the rows of its tables, the facts of a
// point.
#pragma once

#include <QString>
#include <utility>
#include <vector>

#include "sim/capacity/capacity.hpp"
#include "ui/plan/plan_table.hpp"

namespace ui {

// The answer that was asked for first; none: no number of GPUs keeps the wish.
std::optional<std::size_t> main_answer(const sim::CapacityPlan& plan);
// "64 × dgx-h100 are the fewest GPUs in time: 20.14 (17.33 to 23.4) days, ...", as rich text.
QString sentence_of(const sim::CapacityPlan& plan);

std::vector<PlanColumn> answer_columns();
std::vector<PlanRow> answer_rows(const sim::CapacityPlan& plan);
std::vector<PlanColumn> number_columns();
std::vector<PlanRow> number_rows(const sim::CapacityPlan& plan);

std::vector<std::pair<QString, QString>> point_facts(const sim::CapacityPlan& plan,
                                                     std::size_t point);

}  // namespace ui
