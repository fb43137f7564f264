// Tensors that layers keep for their backward pass go to the host and come back before it
// (Layout::offload_activations).
#pragma once

#include <map>
#include <vector>

#include "sim/plan/block/frame.hpp"
#include "sim/plan/lowering/lowering_context.hpp"

namespace sim::lowering {

class HostActivations : StagePart {
 public:
  explicit HostActivations(LoweringContext& context);

  void behind_forward(const Frame& frame);
  void end_forward();
  // `block`: its index in the stage.
  void before_backward(std::uint32_t block, int microbatch);

 private:
  struct Moved {
    BufferId device{none}, host{none};
  };
  struct Kept {  // by a block of a micro-batch
    std::vector<Moved> tensors;
    OpId sent{none}, back{none};  // the last copy
  };
  struct HostBuffer {
    BufferId buffer{none};
    OpId read{none};  // by the last one that had it
  };
  struct Pending {
    std::size_t block = 0;
    OpLabel label;
    std::vector<BufferId> buffers;
  };
  bool goes(const StageBlock& block) const;
  std::vector<BufferId> kept_by(const Frame& frame) const;
  bool is_of_modules(const Frame& frame, std::size_t i) const;
  void send_pending();
  void bring(std::uint32_t block, int microbatch);
  std::size_t index_of(std::uint32_t block, int microbatch) const;
  BufferId host_buffer(Bytes bytes);

  std::vector<Kept> kept_;                                // by block and micro-batch
  std::map<std::int64_t, std::vector<HostBuffer>> free_;  // by size
  Pending pending_;
};

}  // namespace sim::lowering
