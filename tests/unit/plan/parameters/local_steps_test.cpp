// Ranks that train apart and meet (Layout::local_steps).
#include <algorithm>
#include <set>

#include "sim/plan/meeting.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Layout apart(int ranks, int every = 10) {
  Layout layout = test::layout_for(1, 4, 1, 2);
  layout.local_steps = every;
  layout.local_ranks = ranks;
  layout.zero_stage = ranks > 1 ? 1 : 0;
  return layout;
}

Plan checked(const Layout& layout) {
  return test::checked_plan(test::transformer(0), layout);
}

int count(const Program& program, Action action) {
  return static_cast<int>(std::count(program.action.begin(), program.action.end(), action));
}

// Ranks of the groups of an action's collectives.
std::set<std::size_t> sizes_of_groups(const Plan& plan, Action action) {
  std::set<std::size_t> sizes;
  const Program& program = plan.programs[0];
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.action[op] != action) continue;
    const auto role = static_cast<std::size_t>(program.collectives[program.work[op]].group);
    sizes.insert(plan.groups[plan.group_of[0][role]].ranks.size());
  }
  return sizes;
}

std::int64_t sent(const Program& program, Action action) {
  std::int64_t bytes = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.action[op] == action) bytes += program.collectives[program.work[op]].bytes.count();
  return bytes;
}

}  // namespace

TEST_CASE("gradients are reduced within a group, parameters averaged between groups", "[plan]") {
  const Plan alone = checked(apart(1));
  CHECK(count(alone.programs[0], Action::reduce) == 0);
  CHECK(count(alone.programs[0], Action::sum_gradient_norm) == 0);
  CHECK(sizes_of_groups(alone, Action::average_outer) == std::set<std::size_t>{4});

  for (const int stage : {1, 2, 3}) {
    Layout layout = apart(2);
    layout.zero_stage = stage;
    const Plan pairs = checked(layout);
    CHECK(sizes_of_groups(pairs, Action::reduce) == std::set<std::size_t>{2});
    CHECK(sizes_of_groups(pairs, Action::average_outer) == std::set<std::size_t>{2});
    CHECK(sizes_of_groups(pairs, Action::sum_gradient_norm) == std::set<std::size_t>{2});
    // Half of the parameters each.
    const auto bytes = [](const Plan& plan) {
      return static_cast<double>(sent(plan.programs[0], Action::average_outer));
    };
    CHECK(bytes(pairs) == Approx(0.5 * bytes(alone)).epsilon(0.01));
  }
}

TEST_CASE("groups of several stages and tensor ranks", "[plan]") {
  Layout layout = test::layout_for(2, 4, 2, 4);
  layout.zero_stage = 1;
  layout.local_steps = 8;
  layout.local_ranks = 2;
  const Plan plan = checked(layout);
  CHECK(sizes_of_groups(plan, Action::sum_gradient_norm) == std::set<std::size_t>{8});
  std::vector<int> groups(static_cast<std::size_t>(plan.world_size()));
  for (const Group& group : plan.groups)
    if (group.role == GroupRole::local)
      for (const RankId rank : group.ranks)
        ++groups[rank.value];
  CHECK(std::all_of(groups.begin(), groups.end(), [](int n) { return n == 1; }));
}

TEST_CASE("fragments meet in turn, each once a round", "[plan]") {
  Layout layout = apart(1, 10);
  layout.outer_fragments = 3;
  for (const int overlap : {0, 1, 3}) {
    layout.outer_overlap = overlap;
    std::vector<int> begun(3), ended(3);
    for (int step = 10; step < 20; ++step) {
      if (const auto fragment = meeting_that_begins(layout, step))
        ++begun[static_cast<std::size_t>(*fragment)];
      if (const auto fragment = meeting_that_ends(layout, step))
        ++ended[static_cast<std::size_t>(*fragment)];
    }
    CHECK(begun == std::vector<int>{1, 1, 1});
    CHECK(ended == std::vector<int>{1, 1, 1});
  }
  layout.outer_overlap = 0;
  CHECK(meeting_that_begins(layout, 9) == 0);  // at the end of the tenth step
  layout.outer_overlap = 3;
  CHECK_FALSE(meeting_that_begins(layout, 0));  // nobody has come any way yet
  CHECK(meeting_that_begins(layout, 10) == 0);
  CHECK(meeting_that_ends(layout, 12) == 0);
}

TEST_CASE("every bucket is of a fragment, every fragment has some", "[plan]") {
  Layout layout = apart(1);
  layout.outer_fragments = 3;
  const Program program = checked(layout).programs[0];
  std::set<int> fragments;
  for (const ParameterBucket& bucket : program.parameter_buckets)
    fragments.insert(bucket.fragment);
  CHECK(fragments == std::set<int>{0, 1, 2});
}

TEST_CASE("a step has the operators of its own meeting", "[plan]") {
  Layout layout = apart(2);
  layout.outer = OuterOptimizer::nesterov;
  layout.outer_fragments = 2;
  const Plan plan = checked(layout);
  const Plan without = plan_of_steps(plan, 1, std::nullopt);
  CHECK(count(without.programs[0], Action::average_outer) == 0);
  CHECK(count(without.programs[0], Action::adam) == 1);
  const int all = count(plan.programs[0], Action::average_outer);
  const int first = count(plan_of_steps(plan, 1, 0).programs[0], Action::average_outer);
  const int second = count(plan_of_steps(plan, 1, 1).programs[0], Action::average_outer);
  CHECK(first > 0);
  CHECK(second > 0);
  CHECK(first + second == all);

  layout.outer_overlap = 3;
  const Plan window = plan_of_steps(checked(layout), 3, 0);
  CHECK(count(window.programs[0], Action::adam) == 3);
  const Program& program = window.programs[0];
  const auto place = [&](Action action) {
    return std::find(program.action.begin(), program.action.end(), action) - program.action.begin();
  };
  CHECK(place(Action::average_outer) < place(Action::adam));
  CHECK(place(Action::apply_outer) > place(Action::adam));
}

TEST_CASE("quantised outer gradients go in pieces to every group and come back as means",
          "[plan]") {
  for (const OuterQuantization how : {OuterQuantization::int8, OuterQuantization::e3m0}) {
    for (const int ranks : {1, 2}) {
      for (const int overlap : {0, 3}) {
        CAPTURE(word(how), ranks, overlap);
        Layout layout = apart(ranks);
        layout.outer = OuterOptimizer::nesterov;
        layout.outer_quantization = how;
        layout.outer_overlap = overlap;
        const Plan plan = checked(layout);
        const Program& program = plan.programs[0];
        const auto buckets = static_cast<int>(program.parameter_buckets.size());
        CHECK(count(program, Action::average_outer) == 0);
        CHECK(count(program, Action::exchange_outer) == 2 * buckets);
        CHECK(count(program, Action::mean_outer) == buckets);
        CHECK(sizes_of_groups(plan, Action::exchange_outer) ==
              std::set<std::size_t>{static_cast<std::size_t>(4 / ranks)});
        std::int64_t owned = 0;
        for (const ParameterBucket& bucket : program.parameter_buckets)
          owned += bucket.padded / bucket.shards;
        // Out and back, 8 or 4 bits each and a scale of 4 bytes for 2,048 numbers, in whole words.
        const double bits = how == OuterQuantization::int8 ? 8 : 4;
        const auto all = static_cast<double>(sent(program, Action::exchange_outer));
        CHECK(all >= 2 * static_cast<double>(owned) * bits / 8);
        CHECK(all <= 2 * (static_cast<double>(owned) * (bits / 8 + 4.0 / 2048) + 48 * buckets));
      }
    }
  }
}

TEST_CASE("an outer state on the host is there, and not on the device", "[plan]") {
  for (const int overlap : {0, 3}) {
    CAPTURE(overlap);
    Layout layout = apart(2);
    layout.outer = OuterOptimizer::nesterov;
    layout.outer_overlap = overlap;
    const Program device = checked(layout).programs[0];
    layout.outer_on_host = true;
    const Plan plan = checked(layout);
    const Program& host = plan.programs[0];
    std::int64_t owned = 0, there = 0, copied = 0;
    for (const ParameterBucket& bucket : host.parameter_buckets) {
      owned += bucket.padded / bucket.shards;
      there += host.buffers[bucket.outer.value].host.count();
      CHECK(host.buffers[bucket.outer.value].size == Bytes{});
    }
    CHECK(there == 8 * owned);
    for (std::uint32_t op = 0; op < host.size(); ++op)
      if (host.kind[op] == OpKind::host_copy) copied += host.kernels[host.work[op]].bytes.count();
    CHECK(copied == (4 + 8 + 8) * owned);
    const auto persistent = [](const Program& program) {
      std::int64_t bytes = 0;
      for (const Buffer& buffer : program.buffers)
        if (buffer.persistent) bytes += buffer.size.count();
      return bytes;
    };
    CHECK(persistent(device) - persistent(host) == 8 * owned);
    const Program between = plan_of_steps(plan, 1, std::nullopt).programs[0];
    CHECK(std::count(between.kind.begin(), between.kind.end(), OpKind::host_copy) == 0);
  }
}

TEST_CASE("what local steps do not go with", "[plan]") {
  const Model model = test::transformer(0);
  const auto refused = [&](const Layout& layout) {
    const auto problems = layout_problems(layout, model);
    return problems.empty() ? std::string{} : problems.front().key;
  };
  Layout layout = apart(1);
  layout.local_ranks = 3;
  CHECK(refused(layout) == "local_steps.ranks");
  layout = apart(2);
  layout.zero_stage = 0;
  CHECK(refused(layout) == "zero_stage");
  layout = apart(1);
  layout.outer_fragments = 11;
  CHECK(refused(layout) == "local_steps.fragments");
  layout = apart(1);
  layout.outer_overlap = 11;
  CHECK(refused(layout) == "local_steps.overlap");
  layout = apart(1);
  layout.compression = GradientCompression::top_k;
  CHECK(refused(layout) == "compression.gradients");
  layout = apart(1);
  layout.outer_quantization = OuterQuantization::e3m0;
  CHECK(refused(layout) == "local_steps.quantization");
  layout.outer = OuterOptimizer::nesterov;
  layout.outer_dtype = DType::bf16;
  CHECK(refused(layout) == "local_steps.wire");
  layout = apart(1);
  layout.outer_on_host = true;
  CHECK(refused(layout) == "local_steps.on_host");
  layout = apart(1);
  layout.local_steps = 1;
  layout.outer = OuterOptimizer::nesterov;
  CHECK(refused(layout) == "local_steps.every");
}
