#include "real/jobs/nccl_use.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "sim/collective/communicator_memory.hpp"
#include "sim/collective/nccl_tuning.hpp"

namespace real {

NcclUse nccl_use(std::span<const Communicator> communicators, const sim::Cluster& cluster) {
  NcclUse use;
  std::map<sim::Stream, int> widest;
  for (const Communicator& one : communicators) {
    std::vector<sim::GpuId> gpus;
    for (const int rank : one.members)
      gpus.push_back({static_cast<std::uint32_t>(rank)});
    const sim::NcclGroup group = sim::nccl_group(cluster, sim::group_shape(cluster, gpus));
    ++use.communicators;
    use.buffers += sim::communicator_memory(group);
    int& blocks = widest[one.stream];
    blocks =
        std::max(blocks, group.nvls ? std::max(group.blocks, group.nvls_channels) : group.blocks);
  }
  for (const auto& [stream, blocks] : widest)
    use.blocks += blocks;
  return use;
}

}  // namespace real
