// The kinds of rows in files of measurements: which kernel of the model a name stands for.
#pragma once

#include <string_view>

#include "sim/cost/kernel_cost.hpp"
#include "sim/program/program.hpp"

namespace sim {

struct MeasuredKind {
  std::string_view name;
  OpKind kind;
  DType dtype;
  AttentionPart part;
  bool eager;  // issued one by one from the host
  ProductScales scales = ProductScales::tensors;
  Load load = Load::loop;  // step: of a device that had been busy for seconds
  Grouping grouping = Grouping::none;
  double cast = 0;  // bytes for each element of A, by a pass before that was timed with it
  AttentionKernel attention = AttentionKernel::flash;
  bool fits = true;  // false: compared with the forecast alone
};

// The kind of that name; null: no kernel of the model.
const MeasuredKind* find_measured_kind(std::string_view name);

}  // namespace sim
