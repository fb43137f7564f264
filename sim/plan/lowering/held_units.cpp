// ZeRO-3 under torch.distributed.pipelining (Execution::holds_units).
//
// Source: PyTorch, torch/distributed/pipelining/stage.py, backward_maybe_with_nosync and
// perform_reduce_grad (pull requests 134052, 144535 and 165106). No backward pass of FSDP reshards
// or reduces: a unit is gathered once per step, or with reshard_after_forward once per micro-batch,
// and its gradients stay whole. FSDP adds them up in the format in which they are reduced, when a
// unit's backward pass is over (torch/distributed/fsdp/_fully_shard, _fsdp_param_group.py,
// post_backward; _fsdp_param.py, to_accumulated_grad_if_needed and
// accumulate_unsharded_grad_if_needed). All of them are reduced behind the last backward pass of
// the rank and its message, unit by unit, each of which is resharded then.
#include "sim/plan/lowering/stage_lowering.hpp"

namespace sim::lowering {

bool StageLowering::is_first_microbatch(const Frame& frame) const {
  const Chunk& chunk = chunks_[static_cast<std::size_t>(frame.block->chunk)];
  return frame.label.microbatch == chunk.first_gradients;
}

void StageLowering::add_held_gradients(const Frame& frame) {
  for (const ApartGradient& held : held_gradients_)
    add_to_sum(frame, held);
  held_gradients_.clear();
}

}  // namespace sim::lowering
