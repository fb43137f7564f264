#include "sim/timeline/ink.hpp"

namespace sim {

Ink ink_of(const Program& program, OpId op) {
  switch (program.stream[op.value]) {
    case Stream::compute:
      break;
    case Stream::tensor_comm:
      return Ink::tensor;
    case Stream::data_comm:
      return Ink::data;
    default:
      return Ink::pipeline;
  }
  switch (program.pass[op.value]) {
    case Pass::forward:
      return Ink::forward;
    case Pass::recompute:
      return Ink::recompute;
    case Pass::backward:
      return Ink::backward;
    case Pass::weight_backward:
      return Ink::weight_backward;
    default:
      return Ink::optimizer;
  }
}

}  // namespace sim
