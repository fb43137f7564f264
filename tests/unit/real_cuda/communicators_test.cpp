// Communicators of drawn layouts: all schedules, all groups. Their making by a rendezvous that lets
// a rank go on when all members have come; the order of what they carry.
#include "real/cuda/nccl/communicators.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "real/cuda/cuda_backend.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedule/schedule_rules.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/random_layout.hpp"
#include "tests/unit/real_cuda/cases.hpp"

namespace {

using Order = std::array<std::uint64_t, 3>;

struct Rank {
  real::BoundProgram bound;
  std::vector<real::Communicator> communicators;
};

struct World {
  sim::Model model;
  sim::Plan plan;
  std::vector<Rank> ranks;
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
};

sim::Model drawn_model(std::uint64_t seed) {
  sim::TransformerShape shape = seed % 2 == 0 ? cuda_test::gpt_shape() : cuda_test::llama_shape();
  shape.layers = 8;
  if (seed % 4 == 1) shape.experts = {.count = 4, .per_token = 2, .feed_forward = 32};
  return sim::build_transformer(shape);
}

// A layout of at most `most` ranks that the backend runs.
bool draw(std::uint64_t seed, std::int64_t most, World& world) {
  world.model = drawn_model(seed);
  sim::Layout layout = sim::test::random_layout(seed);
  layout.sequence_length = 16;
  layout.compute_dtype = layout.activation_dtype = sim::DType::bf16;
  layout.eight_bit_parameters = false;
  layout.gradient_dtype = layout.reduce_dtype;
  layout.attention = sim::AttentionKernel::flash;
  if (world.model.has_experts()) {
    if (layout.data_parallel % 2 == 0) layout.expert_parallel = 2;
    if (layout.zero_stage > 1) layout.zero_stage = 1;
  }
  if (layout.world_size() > most || !sim::layout_problems(layout, world.model).empty())
    return false;
  world.plan = sim::make_plan(world.model, layout);
  if (!real::engine_problems(world.plan, world.model).empty() ||
      !real::cuda_problems(world.plan, world.model, {}).empty())
    return false;
  const auto ranks = static_cast<std::uint32_t>(layout.world_size());
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    Rank& one = world.ranks.emplace_back();
    one.bound = real::bind(world.plan, world.model, sim::RankId{rank});
    one.communicators = real::communicators_of(one.bound, {});
  }
  return true;
}

// Ranks that never get all of their communicators, if each waits for the members of its next one.
std::size_t stuck(const World& world) {
  std::vector<std::size_t> next(world.ranks.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    std::map<Order, std::vector<std::size_t>> waiting;
    for (std::size_t rank = 0; rank < next.size(); ++rank)
      if (next[rank] < world.ranks[rank].communicators.size())
        waiting[world.ranks[rank].communicators[next[rank]].order].push_back(rank);
    for (const auto& [order, ranks] : waiting) {
      const auto& first = world.ranks[ranks.front()].communicators[next[ranks.front()]];
      if (ranks.size() < first.members.size()) continue;
      moved = true;
      for (const std::size_t rank : ranks)
        ++next[rank];
    }
  }
  std::size_t left = 0;
  for (std::size_t rank = 0; rank < next.size(); ++rank)
    left += next[rank] < world.ranks[rank].communicators.size() ? 1 : 0;
  return left;
}

// Traffic of a rank through a communicator in a step, in order.
using Traffic = std::vector<std::string>;

std::string text_of(const sim::Collective& collective) {
  return std::string{sim::word(collective.kind)} + " " + std::to_string(collective.bytes.count()) +
         " " + std::string{sim::word(collective.dtype)};
}

// By group, stream and rank: collectives. By sender, receiver and direction: messages of each end.
struct Carried {
  std::map<std::pair<std::uint32_t, sim::Stream>, std::map<std::size_t, Traffic>> groups;
  std::map<Order, std::array<Traffic, 2>> messages;
};

Carried carried_by(const World& world) {
  Carried made;
  for (std::size_t rank = 0; rank < world.ranks.size(); ++rank) {
    const real::BoundProgram& bound = world.ranks[rank].bound;
    for (const real::BoundOp& op : bound.ops) {
      if (op.collective != nullptr) {
        const auto& group = bound.groups[static_cast<std::size_t>(op.collective->group)];
        if (group.index == sim::Plan::no_group || group.ranks.size() < 2) continue;
        made.groups[{group.index, op.stream}][rank].push_back(text_of(*op.collective));
      }
      if (op.transfer == nullptr) continue;
      const auto peer = static_cast<std::size_t>(op.transfer->peer);
      const std::uint64_t other = world.plan.peer_of[rank][peer].value;
      const bool sends = op.kind == sim::OpKind::send;
      const bool forward =
          op.stream == sim::Stream::forward_send || op.stream == sim::Stream::forward_recv;
      const Order key{sends ? rank : other, sends ? other : rank, forward ? 0U : 1U};
      made.messages[key][sends ? 0 : 1].push_back(std::to_string(op.transfer->bytes.count()));
    }
  }
  return made;
}

}  // namespace

TEST_CASE("every rank gets its communicators, and all members use them in one order",
          "[real_cuda][communicators]") {
  std::set<sim::Schedule> schedules;
  std::set<sim::GroupRole> roles;
  std::size_t most_ranks = 0, worlds = 0;
  for (std::uint64_t seed = 0; worlds < 80 && seed < 10'000; ++seed) {
    World world;
    if (!draw(seed, 64, world)) continue;
    ++worlds;
    CAPTURE(seed, sim::test::to_text(world.plan.layout));
    most_ranks = std::max(most_ranks, world.ranks.size());
    if (world.plan.layout.pipeline_parallel > 1) schedules.insert(world.plan.layout.schedule);
    CHECK(stuck(world) == 0);
    std::map<Order, std::vector<int>> members;
    for (const Rank& rank : world.ranks)
      for (const real::Communicator& one : rank.communicators) {
        if (one.kind == real::CommunicatorKind::group) roles.insert(one.role);
        CHECK(members.emplace(one.order, one.members).first->second == one.members);
      }
    const Carried carried = carried_by(world);
    for (const auto& [group, of_rank] : carried.groups) {
      CHECK(of_rank.size() == world.plan.groups[group.first].ranks.size());
      for (const auto& [rank, traffic] : of_rank)
        CHECK(traffic == of_rank.begin()->second);
    }
    for (const auto& [pair, ends] : carried.messages)
      CHECK(ends[0] == ends[1]);
  }
  CHECK(worlds == 80);
  CHECK(most_ranks >= 32);
  // All schedules, and the groups of tensor, data and expert parallelism.
  CHECK(schedules.size() == 9);
  for (const sim::GroupRole role : {sim::GroupRole::tensor, sim::GroupRole::data,
                                    sim::GroupRole::world, sim::GroupRole::expert})
    CHECK(roles.contains(role));
}

// On the fakes, which meet partners as NCCL does: many more messages than ranks.
TEST_CASE("eight ranks send 24 micro-batches through every schedule",
          "[real_cuda][communicators]") {
  const auto schedule =
      GENERATE(sim::Schedule::gpipe, sim::Schedule::one_f_one_b, sim::Schedule::interleaved,
               sim::Schedule::zb_h1, sim::Schedule::zb_v, sim::Schedule::v_half,
               sim::Schedule::v_min, sim::Schedule::interleaved_zb, sim::Schedule::dual_pipe_v);
  CAPTURE(sim::word(schedule));
  cuda_test::ToyRun run = cuda_test::base(true);
  sim::Layout& layout = run.layout;
  layout.schedule = schedule;
  layout.pipeline_parallel = 4;
  layout.tensor_parallel = 2;
  const sim::ScheduleRules& rules = sim::rules_of(schedule);
  layout.virtual_stages =
      rules.chunks == sim::RankChunks::loop ? std::max(rules.least_chunks, 2) : rules.least_chunks;
  layout.overlap_pipeline = rules.sends_beside;
  layout.micro_batch = 1;
  layout.global_batch = 24;
  run.shape.layers = 8;
  run.steps = 1;
  run.behaviour.seed = 3;
  cuda_test::check_equal(cuda_test::run_toy(run), cuda_test::reference_of(run), 1e-5);
}
