// Most thread blocks of NCCL's communicators, by what they are for: `max_ctas` of the file that
// Megatron-LM's --nccl-communicator-config-path names (megatron/core/parallel_state.py).
#pragma once

#include <array>
#include <string_view>

#include "sim/program/op_work.hpp"

namespace sim {

struct BlockLimits {  // 0: as many as NCCL takes
  int tensor = 0, context = 0, expert = 0, data = 0, pipeline = 0;
  bool operator==(const BlockLimits&) const = default;
};

struct BlockLimitField {
  std::string_view name;
  int BlockLimits::*member;
};
inline constexpr std::array block_limit_fields{
    BlockLimitField{"tensor", &BlockLimits::tensor},
    BlockLimitField{"context", &BlockLimits::context},
    BlockLimitField{"expert", &BlockLimits::expert},
    BlockLimitField{"data", &BlockLimits::data},
    BlockLimitField{"pipeline", &BlockLimits::pipeline},
};
inline constexpr int most_nccl_blocks = 64;  // MAXCHANNELS

// Limit of the communicator of a group. Those of no use of their own have none.
constexpr int limit_of(const BlockLimits& limits, GroupRole group) {
  switch (group) {
    case GroupRole::tensor:
      return limits.tensor;
    case GroupRole::context:
    case GroupRole::context_heads:
    case GroupRole::context_ring:
      return limits.context;
    case GroupRole::expert:
    case GroupRole::expert_tensor:
      return limits.expert;
    case GroupRole::data:
    case GroupRole::shard:
    case GroupRole::replicate:
    case GroupRole::expert_data:
    case GroupRole::expert_shard:
    case GroupRole::expert_replicate:
      return limits.data;
    case GroupRole::tied_embedding:
    case GroupRole::world:
    case GroupRole::maxima:
    case GroupRole::local:
      break;
  }
  return 0;
}

}  // namespace sim
