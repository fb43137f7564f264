#include "sim/economics/checkpoint.hpp"

#include <algorithm>
#include <cmath>

namespace sim {
namespace {

struct Held {
  double weights = 0, optimizer = 0;
};

Held held_by(const Program& program) {
  Held held;
  for (const Buffer& buffer : program.buffers) {
    if (!buffer.persistent) continue;
    if (buffer.category == BufferCategory::weights)
      held.weights += static_cast<double>(buffer.size.count());
    if (buffer.category == BufferCategory::optimizer)
      held.optimizer += static_cast<double>(buffer.size.count());
  }
  return held;
}

Bytes whole(double bytes) {
  return Bytes{std::llround(bytes)};
}

Seconds transfer(double bytes, Bandwidth rate) {
  return Seconds{bytes / rate.in_bytes_per_second()};
}

}  // namespace

CheckpointSize checkpoint_size(const Plan& plan, int gpus_per_node) {
  const Layout& layout = plan.layout;
  const double copies = layout.replicas();
  const double unsharded = copies / layout.shard_ranks();
  const double weight_copies = layout.zero_stage >= 3 ? unsharded : copies;
  const double optimizer_copies = layout.zero_stage >= 1 ? unsharded : copies;

  std::vector<Held> of_program;
  for (const Program& program : plan.programs)
    of_program.push_back(held_by(program));
  double total = 0, held = 0, most_of_gpu = 0, most_of_node = 0, most_held = 0;
  double node = 0, node_held = 0;
  for (std::size_t rank = 0; rank < plan.program_of_rank.size(); ++rank) {
    if (rank % static_cast<std::size_t>(gpus_per_node) == 0) node = node_held = 0;
    const Held& here = of_program[plan.program_of_rank[rank]];
    const double share = here.weights / weight_copies + here.optimizer / optimizer_copies;
    total += share;
    node += share;
    held += here.weights + here.optimizer;
    node_held += here.weights + here.optimizer;
    most_of_gpu = std::max(most_of_gpu, share);
    most_of_node = std::max(most_of_node, node);
    most_held = std::max(most_held, node_held);
  }
  return {.total = whole(total),
          .per_gpu = whole(most_of_gpu),
          .per_node = whole(most_of_node),
          .held = whole(held),
          .held_per_node = whole(most_held)};
}

CheckpointTimes checkpoint_times(const CheckpointSize& size, const CheckpointRules& rules) {
  const double scale = rules.bytes ? static_cast<double>(rules.bytes->count()) /
                                         static_cast<double>(size.total.count())
                                   : 1;
  const auto bytes = [&](Bytes count) { return scale * static_cast<double>(count.count()); };
  CheckpointTimes times;
  times.write = std::max(transfer(bytes(size.per_node), rules.node),
                         transfer(bytes(size.total), rules.storage));
  times.load = std::max(transfer(bytes(size.held_per_node), rules.node),
                        transfer(bytes(size.held), rules.storage));
  times.stall = rules.overhead +
                (rules.asynchronous ? transfer(bytes(size.per_gpu), rules.copy) : times.write);
  times.lag = rules.asynchronous ? times.write : Seconds{0};
  return times;
}

}  // namespace sim
