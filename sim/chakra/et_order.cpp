#include "sim/chakra/et_order.hpp"

#include <fmt/format.h>

#include <queue>
#include <tuple>
#include <unordered_map>

#include "sim/base/input_error.hpp"

namespace sim {
namespace {

using Waiting = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>;  // start, id, index

std::unordered_map<std::uint64_t, std::uint32_t> index_of_ids(const EtFile& file) {
  std::unordered_map<std::uint64_t, std::uint32_t> index;
  index.reserve(file.nodes.size());
  for (std::uint32_t i = 0; i < file.nodes.size(); ++i)
    if (!index.emplace(file.nodes[i].id, i).second)
      throw InputError{SourcePosition{file.path, 0, 0},
                       fmt::format("two nodes have the id {}", file.nodes[i].id)};
  return index;
}

}  // namespace

EtOrder order_of(const EtFile& file) {
  const auto index = index_of_ids(file);
  const std::size_t count = file.nodes.size();
  EtOrder order;
  order.dependencies.resize(count);
  std::vector<std::vector<std::uint32_t>> followers(count);
  std::vector<std::uint32_t> open(count, 0);
  for (std::uint32_t i = 0; i < count; ++i)
    for (const std::uint64_t id : file.nodes[i].dependencies) {
      const auto found = index.find(id);
      if (found == index.end()) {
        ++order.missing;
        continue;
      }
      order.dependencies[i].push_back(found->second);
      followers[found->second].push_back(i);
      ++open[i];
    }
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> ready;
  const auto add = [&](std::uint32_t i) {
    ready.emplace(file.nodes[i].start_micros, file.nodes[i].id, i);
  };
  for (std::uint32_t i = 0; i < count; ++i)
    if (open[i] == 0) add(i);
  order.nodes.reserve(count);
  while (!ready.empty()) {
    const std::uint32_t next = std::get<2>(ready.top());
    ready.pop();
    order.nodes.push_back(next);
    for (const std::uint32_t follower : followers[next])
      if (--open[follower] == 0) add(follower);
  }
  if (order.nodes.size() == count) return order;
  for (std::uint32_t i = 0; i < count; ++i)
    if (open[i] > 0)
      throw InputError{
          SourcePosition{file.path, 0, 0},
          fmt::format("{} nodes depend on each other in a circle, one of them {} "
                      "('{}')",
                      count - order.nodes.size(), file.nodes[i].id, file.nodes[i].name)};
  return order;
}

}  // namespace sim
