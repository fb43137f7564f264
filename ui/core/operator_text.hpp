// An operator in words: for the tool tip, the details pane and screen readers.
#pragma once

#include <QString>
#include <utility>
#include <vector>

#include "ui/core/result.hpp"
#include "ui/core/selection.hpp"

namespace ui {

// "mlp.down backward".
QString operator_name(const sim::Program& program, sim::OpId op);
// ", layer 41, micro-batch 3", as far as the operator belongs to any.
QString operator_place(const sim::Program& program, sim::OpId op);

// "mlp.down backward, layer 41, micro-batch 3: 1.204 ms".
QString operator_line(const Result& result, const OperatorAt& at);

// Name and value, each with its unit, in the order of the details pane.
std::vector<std::pair<QString, QString>> operator_facts(const Result& result, const OperatorAt& at);

// Why it began no earlier, and where that leads; nothing: it is the first.
struct CauseOf {
  QString text;
  OperatorAt at;
};
std::optional<CauseOf> cause_of(const Result& result, const OperatorAt& at);

}  // namespace ui
