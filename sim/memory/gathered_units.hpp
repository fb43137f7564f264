// The memory of FSDP2's parameters, in the replay of an allocator.
//
// Source: PyTorch, torch/distributed/fsdp/_fully_shard (2.6), _fsdp_param_group.py and
// _fsdp_collectives.py. A unit is gathered into a buffer of a stream of its own and copied out of
// it into its parameters, each a tensor (init_all_gather_outputs); forward the buffer is freed
// before the next unit is copied out, backward at once. The unit that holds what no layer does
// (torchtitan, parallelize_llama.py: embedding, last norm and head) is gathered at the start of the
// forward pass and stays until the end of the backward pass. Shards of the parameters are fp32,
// which here are the optimizer's masters; those of the gradients are fp32, made by the stream that
// reduces them, and freed before the next step, or once they are on their way to the host
// (foreach_reduce). Without masters both have the format of the parameters.
#pragma once

#include <vector>

#include "sim/memory/block_pool.hpp"
#include "sim/program/program.hpp"

namespace sim {

class GatheredUnits {
 public:
  GatheredUnits(const Program& program, BlockPool& pool);

  // Buffers of the plan that this stands for.
  void leave_out(std::vector<bool>& buffers) const;
  // True where all that the operator writes is this one's.
  bool replay(OpId op);
  // True where the buffer is the gradient of a unit, of which the operator writes a parameter's.
  bool write_gradient(OpId op, BufferId buffer);
  // True where the buffer is a gathered unit, its gradient, or the shard of that.
  bool release(BufferId buffer);
  void end_step();

 private:
  using Blocks = BlockPool::Addresses;

  void find_parts();
  void gather(std::uint32_t unit);
  void copy_out(std::uint32_t unit);
  void copy_parts(std::uint32_t unit);
  void take(Blocks& blocks, Bytes bytes, int stream);  // where there are none
  void add(Blocks& blocks, Bytes bytes, int stream);
  Bytes whole(std::uint32_t unit) const {
    return program_.buffers[program_.parameter_buckets[unit].weight.value].size;
  }

  const Program& program_;
  BlockPool& pool_;
  std::vector<std::uint32_t> unit_of_buffer_;                    // that is gathered
  std::vector<std::uint32_t> unit_of_gradient_, unit_of_shard_;  // of a gradient
  std::vector<std::vector<Bytes>> parts_;                        // tensors of each unit
  std::vector<bool> in_root_;                                    // by unit
  std::vector<Blocks> gathered_;     // buffers of gathers; those of the root at its first unit
  std::vector<Blocks> copied_;       // parameters
  std::vector<Blocks> gradients_;    // of parameters, until they are reduced
  std::vector<std::uint32_t> made_;  // sites whose gradient is among them
  std::vector<Blocks> reduced_;      // shards of gradients
  Blocks deferred_;                  // the buffer of the gather before
  std::uint32_t root_ = UINT32_MAX;
  bool forward_ = true;
};

}  // namespace sim
