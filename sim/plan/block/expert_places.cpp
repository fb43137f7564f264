#include "sim/plan/block/expert_places.hpp"

namespace sim::lowering {

ExpertPlaces expert_places(const ShardedBlock& block) {
  ExpertPlaces at;
  at.end = block.ops.size();
  std::size_t first_sum = at.end;
  for (std::size_t i = block.ops.size(); i-- > 0;) {
    const ModelOp& op = *block.ops[i].op;
    if (op.residual_of >= 0) first_sum = i;
    if (op.kind == ModelOpKind::dispatch) at.dispatch = i;
    if (op.kind == ModelOpKind::combine) at.combine = i;
  }
  at.exchanges = at.combine > at.dispatch;
  if (!at.exchanges) {
    at.dispatch = at.combine = first_sum < at.end ? first_sum + 1 : at.end;
    return at;
  }
  for (std::size_t i = at.combine + 1; i < at.end; ++i) {
    const ModelOp& op = *block.ops[i].op;
    if (op.starts_from >= 0) at.shared = i;
    if (at.shared > 0 && at.shared_sum == 0 && op.kind == ModelOpKind::linear) at.shared_down = i;
    if (at.shared > 0 && at.shared_sum == 0 && op.residual_of == static_cast<int>(at.shared))
      at.shared_sum = i;
  }
  return at;
}

}  // namespace sim::lowering
