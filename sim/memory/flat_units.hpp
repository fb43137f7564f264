// The memory of the parameters of PyTorch's first FSDP, in the replay of an allocator.
//
// Source: PyTorch 2.0, torch/distributed/fsdp, flat_param.py, _runtime_utils.py, _limiter_utils.py;
// Composer, composer/trainer/dist_strategy.py (backward_prefetch BACKWARD_POST, no
// forward_prefetch; no no_sync: every micro-batch is reduced). A unit is one flat parameter:
//
//  - its shard is fp32, which here is the optimizer's master, cloned from a part of the whole unit
//    when that has been made and put together, layer by layer and the root unit last. A copy in 16
//    bits (_mp_shard, in the stream pre_unshard) is gathered into the whole (_full_param_padded, in
//    the stream unshard), when the layer that needs it begins, and freed behind it. What no layer
//    holds is the root unit, which stays until its backward pass is done;
//  - gradients of its parameters come one by one and are put together behind the last (autograd of
//    torch.split), cast to the format that is reduced, and scattered into shards that are kept in
//    fp32 (_saved_grad_shard) until the next step, by the stream post_backward.
//
// A block that a stream has used besides the one that it was made for is free when that stream is
// done (recordStream). The host does not wait for that, but for the limiter of gathers: a third one
// waits until the first of two that were freed is out of use.
//
// Scope: streams beside compute keep up with it. No padding within a unit.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "sim/memory/block_pool.hpp"
#include "sim/program/program.hpp"

namespace sim {

class FlatUnits {
 public:
  FlatUnits(const Program& program, BlockPool& pool);

  // Buffers of the plan that this stands for.
  void leave_out(std::vector<bool>& buffers) const;
  // Where shards are the masters: before the first step they are cut out of whole parameters.
  bool has_masters() const { return active_ && program_.allocation.master_weights; }
  void make_masters();
  // Before an operator: gathers what it reads.
  void begin(OpId op);
  // Behind it: a reduction of gradients, or the optimizer.
  void end(OpId op);
  // True where the buffer is the gradient of a unit, of which the operator writes a part.
  bool write_gradient(OpId op, BufferId buffer);
  // True where the buffer is a gathered unit.
  bool release(BufferId buffer);
  // The host waits for the device.
  void wait();
  void end_step();

 private:
  using Blocks = BlockPool::Addresses;
  // Given back, and in use by another stream until the host has seen the end of a use of a gathered
  // unit later than the `behind`-th.
  struct Waiting {
    Blocks blocks;
    int behind = 0;
  };
  // The gradient of a site's parameters; those of a tied head begin where the table's do.
  struct Part {
    std::int64_t first = 0;
    Blocks blocks;
  };
  struct Unit {
    std::int64_t elements = 0, padded = 0;
    int shards = 1;
    Bytes whole{};
    std::int64_t gradient_element = 0;  // bytes
    std::uint32_t buckets = 0, reduced = 0, released = 0;
    std::vector<std::int64_t> parameters;  // elements
    Blocks master, gathered, shard_gradient;
    std::vector<Part> parts;
  };

  void find_units();
  void find_gradients();
  void gather(Unit& unit);
  void reshard(Unit& unit);
  void reduce(Unit& unit, OpId op);
  Blocks take(Bytes bytes, int stream);
  void give_later(Blocks blocks, int behind);
  void seen(int use);

  const Program& program_;
  BlockPool& pool_;
  bool active_ = false;
  std::vector<Unit> units_;                                       // the root unit first
  std::vector<std::uint32_t> unit_of_bucket_;                     // of the plan
  std::vector<std::uint32_t> unit_of_weight_, unit_of_gradient_;  // by buffer
  std::vector<bool> left_out_;
  std::deque<std::pair<Blocks, int>> freed_;  // gathered units, and which use it was
  std::vector<Waiting> waiting_;
  int uses_ = 0;  // of gathered units that have ended
  bool backward_ = false;
};

}  // namespace sim
