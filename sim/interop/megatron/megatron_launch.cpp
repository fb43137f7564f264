// How many GPUs a job of Megatron-LM has, by its launcher or by the arguments that it printed.
#include "sim/interop/megatron/megatron_launch.hpp"

#include <fmt/format.h>

#include "sim/interop/settings.hpp"

namespace sim {
namespace {

constexpr std::int64_t most_gpus = 1 << 20;

// Said is what the file says, in words; the count is 0 where it says nothing.
struct Said {
  std::int64_t gpus = 0;
  std::string how;
};

Said said(const ObjectReader& root) {
  Whole per_node, nodes, all;
  read_setting(root, "--nproc-per-node", per_node);
  read_setting(root, "--nnodes", nodes);
  read_setting(root, "--world-size", all);
  for (const Whole* count : {&per_node, &nodes, &all})
    if (count->value_or(1) < 1)
      count->place->problem(fmt::format("{} is {}; allowed: 1 or more", count->name, **count));
  if (per_node && per_node.value_or(0) > 0 && per_node.value_or(0) <= most_gpus &&
      nodes.value_or(1) > 0 && nodes.value_or(1) <= most_gpus)
    return {*per_node * nodes.value_or(1),
            fmt::format("{} x {} of the launcher", nodes.value_or(1), *per_node)};
  if (all.value_or(0) > 0) return {*all, "the world size in the file"};
  return {};
}

}  // namespace

ImportRequest with_gpus_of_launcher(const ObjectReader& root, const ImportRequest& request,
                                    Imported& result) {
  ImportRequest known = request;
  const Said file = said(root);
  if (file.gpus < 1 || file.gpus > most_gpus) return known;
  if (request.gpus == 0) {
    known.gpus = static_cast<int>(file.gpus);
    result.notes.push_back({"gpus", fmt::format("{}: {}", file.gpus, file.how)});
  } else if (request.gpus != file.gpus) {
    result.notes.push_back(
        {"gpus", fmt::format("{} as asked for, not {}: {}", request.gpus, file.gpus, file.how)});
  }
  return known;
}

}  // namespace sim
