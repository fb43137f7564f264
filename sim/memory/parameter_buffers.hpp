// The memory of parameters, gradients and the optimizer's state under Megatron-LM's
// DistributedDataParallel, in the replay of an allocator.
//
// Source: NVIDIA/Megatron-LM at d98e8a64. Modules make a tensor for each parameter. Then there is
// one buffer for the gradients of all of them, and before it, with the distributed optimizer, one
// for the parameters, which move into it and leave their first places behind; experts have buffers
// of their own (core/distributed/param_and_grad_buffer.py, _ParamAndGradBuffer;
// distributed_data_parallel.py, _allocate_buffers_for_parameters). The optimizer has fp32 masters
// of its own for each parameter, or for the part of it that the rank owns (core/optimizer/
// distrib_optimizer.py, _build_model_and_main_param_groups; optimizer.py,
// Float16OptimizerWithFloat16Params), and two moments for each that its first step makes.
// The part is that of the first rank.
#pragma once

#include <vector>

#include "sim/memory/block_pool.hpp"
#include "sim/program/program.hpp"

namespace sim {

class ParameterBuffers {
 public:
  ParameterBuffers(const Program& program, BlockPool& pool);

  // Buffers of the plan that this stands for.
  void leave_out(std::vector<bool>& buffers) const;
  void make();          // before the first step
  void make_moments();  // at its end

 private:
  // A parameter, or the owned part of one.
  struct Piece {
    std::uint32_t bucket = 0;
    std::int64_t elements = 0;
  };

  void find_pieces();
  void add_pieces(const Site& site);
  bool is_whole(const ParameterBucket& bucket) const;
  Bytes size_of(BufferId buffer) const;
  Bytes sum_of(BufferId ParameterBucket::*part, bool of_experts) const;
  void make_parameters();
  void make_masters();
  void take(Bytes bytes, BlockPool::Addresses* blocks = nullptr);

  const Program& program_;
  BlockPool& pool_;
  bool active_ = false;
  std::vector<Piece> pieces_;
};

}  // namespace sim
