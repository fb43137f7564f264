#include "sim/topology/nvlink_balance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace sim {
namespace {

// The number of links that most GPUs have; of several such numbers the largest.
int usual_links(std::span<const NvlinkCount> gpus) {
  std::map<int, int> counts;
  for (const NvlinkCount& gpu : gpus)
    ++counts[gpu.links];
  int usual = 0, most = 0;
  for (const auto& [links, count] : counts)
    if (count >= most) usual = links, most = count;
  return usual;
}

std::string amount(int links, NvlinkShape shape) {
  const char* const name = shape == NvlinkShape::xgmi ? "xGMI link" : "NVLink";
  if (links == 0) return fmt::format("no {}", name);
  return fmt::format("{} {}{}", links, name, links == 1 ? "" : "s");
}

}  // namespace

void settle_nvlinks(std::span<const NvlinkCount> gpus, NvlinkShape shape, bool accept,
                    std::vector<std::string>& warnings) {
  const int usual = usual_links(gpus);
  std::vector<std::string> odd;
  const NvlinkCount* first = nullptr;
  for (const NvlinkCount& gpu : gpus) {
    if (gpu.links == usual) continue;
    if (first == nullptr) first = &gpu;
    if (odd.size() < 8) odd.push_back(fmt::format("{} has {}", gpu.gpu, amount(gpu.links, shape)));
  }
  if (first == nullptr) return;
  const auto same = std::count_if(gpus.begin(), gpus.end(),
                                  [&](const NvlinkCount& gpu) { return gpu.links == usual; });
  const std::string what = fmt::format("{}; {} of {} GPUs have {}", fmt::join(odd, ", "), same,
                                       gpus.size(), usual == 0 ? "none" : fmt::format("{}", usual));
  const bool missing = usual == 0 || std::any_of(gpus.begin(), gpus.end(),
                                                 [](const auto& gpu) { return gpu.links == 0; });
  if (!accept && (missing || shape == NvlinkShape::nvswitch))
    throw InputError(first->at,
                     fmt::format("{}: mend the text if the machine is whole; to forecast it as it "
                                 "is: --accept-uneven of import, `nvlink: {{uneven: true}}` of a "
                                 "cluster file's node",
                                 what));
  warnings.push_back(what + ": the node is taken as it is");
}

}  // namespace sim
