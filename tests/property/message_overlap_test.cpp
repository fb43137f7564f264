// Messages of a pipeline that overlap with compute cost its kernels no more than the SMs and the
// memory bandwidth that they hold.
#include <algorithm>

#include "sim/engine/cost_table.hpp"
#include "sim/model/transformer.hpp"
#include "tests/catch.hpp"
#include "tests/property/random_scenario.hpp"
#include "tests/property/support.hpp"

namespace {

using namespace sim;
using namespace sim::test;

constexpr double nic_gbps = 400;
// A rank sends and receives in two directions at once, and a message has up to 4 blocks (NCCL's
// channels for one peer: sim/collective/direct.cpp).
constexpr int messages_at_once = 4, blocks_of_message = 4;
// A message reads and writes each byte once on either side.
constexpr double message_memory = messages_at_once * 2 * nic_gbps / 8 * 1e9;

Model random_model(Dice& dice, int layers) {
  TransformerShape shape;
  shape.name = "random";
  shape.family = "llama";
  shape.layers = layers;
  shape.head_dim = 128;
  shape.heads = shape.kv_heads = 8 * (1 + dice.below(5));
  shape.hidden = shape.heads * shape.head_dim;
  shape.feed_forward = 256 * (8 + dice.below(48));
  shape.vocabulary = 1024 * (8 + dice.below(24));
  shape.max_sequence = 4096;
  return build_transformer(shape);
}

Layout random_layout(Dice& dice) {
  Layout layout;
  layout.pipeline_parallel = dice.coin() ? 2 : 4;
  layout.schedule =
      dice.pick(std::array{Schedule::one_f_one_b, Schedule::gpipe, Schedule::interleaved});
  layout.virtual_stages = layout.schedule == Schedule::interleaved ? 2 : 1;
  layout.sequence_length = 256 * (1 + dice.below(16));
  layout.micro_batch = 1;
  layout.global_batch = layout.pipeline_parallel * (1 + dice.below(2));
  return layout;
}

// The most seconds that a kernel takes beside the messages. It runs at the share of the SMs, and of
// the memory bandwidth, that is left. A persistent one does not give way: its blocks that find
// their SM held run at the latest behind the others, and take no longer than these
// (sim/engine/RULES.md).
double most_seconds(const KernelCost& cost, const Device& device) {
  const double alone = to_seconds(cost.time);
  const double needed = cost.sm_share * device.sms;
  const double left = device.sms - messages_at_once * blocks_of_message;
  const double memory = cost.memory.in_bytes_per_second() + message_memory;
  const double slow = std::max(1.0, memory / device.memory_bandwidth.in_bytes_per_second());
  if (needed <= left) return alone * slow;
  if (cost.persistent && !cost.abreast) return alone * slow + alone;
  return alone * std::max(slow, needed / left);
}

struct Counts {
  int kernels = 0, slower = 0;
};

// Checks every kernel of a step.
Counts check_kernels(const Model& model, const Layout& layout, const SimulationOptions& options) {
  const Cluster cluster = flat_cluster({.nodes = layout.pipeline_parallel, .nic_gbps = nic_gbps});
  const Plan plan = make_plan(model, layout);
  const Simulation result = simulate(plan, cluster, options);
  const KernelPricing pricing{cluster, options, plan.world_size()};
  Counts counts;
  for (const RankTrack& track : result.timeline.tracks) {
    const Program& program = plan.program(track.rank);
    const std::vector<KernelCost> costs = pricing.costs_of(program);
    for (const Span& span : track.spans) {
      if (program.stream[span.op.value] != Stream::compute) continue;
      const KernelCost& cost = costs[program.work[span.op.value]];
      const double lasts = to_seconds(span.end - span.begin);
      CAPTURE(program.name(span.op));
      // Times are whole picoseconds, rounded wherever a share changes.
      constexpr double rounding = 1e-10;
      REQUIRE(lasts <= most_seconds(cost, cluster.device()) + rounding);
      ++counts.kernels;
      if (lasts > to_seconds(cost.time) + rounding) ++counts.slower;
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("a message that overlaps costs no kernel more than what the message holds", "[laws]") {
  int slower = 0, slower_without = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Dice dice{7'100'000 + seed};
    Layout layout = random_layout(dice);
    const Model model = random_model(dice, layout.chunks() * (1 + dice.below(2)));
    SimulationOptions options;
    options.fold = false;
    options.record_all = true;
    options.graphs = dice.coin();
    options.persistent = dice.coin();
    CAPTURE(seed, word(layout.schedule), layout.sequence_length, model.shape->hidden);
    layout.overlap_pipeline = true;
    REQUIRE(layout_problems(layout, model).empty());
    slower += check_kernels(model, layout, options).slower;
    layout.overlap_pipeline = false;
    slower_without += check_kernels(model, layout, options).slower;
  }
  // The law is not empty: messages that overlap do cost kernels something, the others hardly.
  CHECK(slower > 1000);
  CHECK(slower_without < slower);
}
