// Parameter servers on host ranks: what they train is what a reduction trains, or one worker alone.
#include <cmath>
#include <numeric>

#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/property/small_training.hpp"

namespace real::test {
namespace {

sim::Layout workers(int count, sim::Servers servers) {
  sim::Layout layout = replicas_in_fp32(count);
  layout.servers = servers;
  return layout;
}

// Workers of two GPUs, which reduce among themselves first.
sim::Layout pairs(int count, sim::Servers servers) {
  sim::Layout layout = workers(count, servers);
  layout.zero_stage = 1;
  layout.shard_group = 2;
  return layout;
}

struct Lab : SmallModel {
  TrainedModel train(const sim::Layout& layout, int count = 6, double clip = 0) const {
    sim::Training training = training_of(count);
    training.clip = clip;
    return train_on_host(model, layout, training, corpus);
  }
};

void check_same(const TrainedModel& a, const TrainedModel& b) {
  REQUIRE(a.losses.size() == b.losses.size());
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    CHECK(a.losses[i] == Approx(b.losses[i]).epsilon(1e-5));
  CHECK(largest_difference(a.parameters, a.weights, b.weights, 1e-2).relative < 1e-3);
}

// Four ranks of `make`: they learn as those that wait do, every update of a bucket is counted once,
// and with a staleness of 1 there are `most` values of it.
void check_learns(sim::Layout (*make)(int, sim::Servers), std::size_t most) {
  const Lab lab;
  const TrainedModel together = lab.train(workers(4, sim::Servers::synchronous), 30);
  const double fall = together.losses.front() - together.losses.back();
  for (const sim::Servers servers : {sim::Servers::asynchronous, sim::Servers::bounded}) {
    INFO(word(servers));
    sim::Layout layout = make(4, servers);
    if (servers == sim::Servers::bounded) layout.staleness = 1;
    const TrainedModel trained = lab.train(layout, 30);
    CHECK(trained.losses.front() - trained.losses.back() > 0.3 * fall);
    const sim::Plan plan = sim::make_plan(lab.model, layout);
    const auto buckets = static_cast<std::int64_t>(plan.programs[0].parameter_buckets.size());
    const std::vector<std::int64_t>& counts = trained.staleness.counts();
    CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == 4 * 30 * buckets);
    if (servers == sim::Servers::bounded) CHECK(counts.size() <= most);
  }
}

}  // namespace

TEST_CASE("synchronous servers train as a reduction does, clipping included", "[property]") {
  const Lab lab;
  for (const double clip : {0.0, 0.1}) {
    INFO("clip " << clip);
    check_same(lab.train(workers(4, sim::Servers::synchronous), 6, clip),
               lab.train(workers(4, sim::Servers::none), 6, clip));
  }
}

TEST_CASE("workers of two GPUs train as a reduction does, in parts or whole", "[property]") {
  const Lab lab;
  const TrainedModel plain = lab.train(workers(4, sim::Servers::none), 6, 0.1);
  for (const bool overlap : {true, false}) {
    for (const bool cut : {false, true}) {
      CAPTURE(overlap, cut);
      sim::Layout layout = pairs(4, sim::Servers::synchronous);
      layout.overlap_parameters = overlap;
      if (cut) layout.server_partition = sim::Bytes{3000};
      check_same(lab.train(layout, 6, 0.1), plain);
    }
  }
  sim::Layout parts = workers(4, sim::Servers::synchronous);
  parts.server_partition = sim::Bytes{3000};
  check_same(lab.train(parts, 6, 0.1), plain);
}

TEST_CASE("one worker of several GPUs trains as they do without servers", "[property]") {
  const Lab lab;
  const TrainedModel plain = lab.train(workers(2, sim::Servers::none));
  for (const sim::Servers servers :
       {sim::Servers::synchronous, sim::Servers::asynchronous, sim::Servers::bounded}) {
    for (const bool cut : {false, true}) {
      CAPTURE(word(servers), cut);
      sim::Layout layout = pairs(2, servers);
      if (cut) layout.server_partition = sim::Bytes{3000};
      const TrainedModel served = lab.train(layout);
      check_same(served, plain);
      if (servers != sim::Servers::synchronous) CHECK(served.staleness.most() == 0);
    }
  }
}

TEST_CASE("asynchronous workers of two GPUs learn, and are as stale as workers are", "[property]") {
  check_learns(pairs, 4 + 1);  // one other worker
}

TEST_CASE("servers of one worker train as the worker alone", "[property]") {
  const Lab lab;
  const TrainedModel plain = lab.train(workers(1, sim::Servers::none));
  for (const sim::Servers servers : {sim::Servers::asynchronous, sim::Servers::bounded}) {
    INFO(word(servers));
    const TrainedModel served = lab.train(workers(1, servers));
    check_same(served, plain);
    REQUIRE(served.staleness.counts().size() == 1);  // never another's update
  }
}

TEST_CASE("asynchronous workers learn, and every update of a bucket is counted once",
          "[property]") {
  // Another worker is a step behind at first and two ahead at last: four of its updates.
  check_learns(workers, 4 * 3 + 1);
}

}  // namespace real::test
