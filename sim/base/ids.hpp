// Strong integer ids. A RankId cannot index a table of links.
#pragma once

#include <compare>
#include <cstdint>

namespace sim {

template <class Tag>
struct Id {
  std::uint32_t value = 0;
  constexpr auto operator<=>(const Id&) const = default;
};
using RankId = Id<struct RankTag>;  // a process of the job: 0 .. world size - 1
using GpuId = Id<struct GpuTag>;    // a device of the cluster: node * GPUs per node + local index
using OpId = Id<struct OpTag>;      // an operator within one Program
using BufferId = Id<struct BufferTag>;  // a buffer within one Program
using LinkId = Id<struct LinkTag>;      // one direction of a link of the cluster
using GroupId = Id<struct GroupTag>;    // a communicator of the Plan

}  // namespace sim
