// Groups of ranks that train apart and meet, executed on host ranks: the same under any layout of a
// group, and with an outer optimizer that does nothing of its own.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/property/small_training.hpp"

namespace real::test {
namespace {

// Groups of one replica, 4 of them.
sim::Layout groups_of_one(int every) {
  sim::Layout layout = replicas_in_fp32(4);
  layout.local_steps = every;
  return layout;
}

sim::Layout pairs(int every, int zero_stage) {
  sim::Layout layout = groups_of_one(every);
  layout.local_ranks = 2;
  layout.zero_stage = zero_stage;
  return layout;
}

struct Lab : SmallModel {
  // To the end of a round of three: all groups have the same parameters.
  TrainedModel train(const sim::Layout& layout, int count = 9) const {
    return train_on_host(model, layout, training_of(count), corpus);
  }
};

void check_same(const TrainedModel& a, const TrainedModel& b) {
  CHECK(largest_relative(a.losses, b.losses) < 1e-5);
  CHECK(largest_difference(a.parameters, a.weights, b.weights, 1e-2).relative < 1e-3);
}

}  // namespace

TEST_CASE("a group trains the same under any layout", "[property]") {
  const Lab lab;
  for (const bool nesterov : {false, true}) {
    INFO((nesterov ? "nesterov" : "average"));
    const auto with = [&](sim::Layout layout) {
      if (nesterov) layout.outer = sim::OuterOptimizer::nesterov;
      return layout;
    };
    const TrainedModel first = lab.train(with(pairs(3, 1)));
    for (const int stage : {2, 3}) {
      INFO("ZeRO-" << stage);
      check_same(lab.train(with(pairs(3, stage))), first);
    }
    sim::Layout split = with(pairs(3, 1));
    split.tensor_parallel = 2;
    check_same(lab.train(split), first);
    sim::Layout staged = with(pairs(3, 1));
    staged.pipeline_parallel = 2;
    check_same(lab.train(staged), first);
    sim::Layout weights = with(pairs(3, 1));
    weights.master_weights = false;
    check_same(lab.train(weights), first);
  }
}

TEST_CASE("SGD of rate 1 without momentum is the mean", "[property]") {
  const Lab lab;
  sim::Layout layout = groups_of_one(3);
  const TrainedModel mean = lab.train(layout);
  layout.outer = sim::OuterOptimizer::nesterov;
  layout.outer_rate = 1;
  layout.outer_momentum = 0;
  check_same(lab.train(layout), mean);
}

// An update that a step leaves out becomes ready while messages come in.
TEST_CASE("a meeting over two steps changes nothing before its end", "[property]") {
  const Lab lab;
  sim::Layout layout = pairs(4, 1);
  layout.outer_overlap = 2;
  const TrainedModel first = lab.train(layout, 12);
  for (int i = 0; i < 4; ++i)
    CHECK(largest_relative(lab.train(layout, 12).losses, first.losses) == 0);
  layout.local_steps = 1000;
  const TrainedModel never = lab.train(layout, 12);
  // From step 4 to the end of step 5.
  for (std::size_t step = 0; step < 6; ++step)
    CHECK(first.losses[step] == never.losses[step]);
  CHECK(first.losses[6] != never.losses[6]);
}

TEST_CASE("an outer state on the host trains the same to the last bit", "[property]") {
  const Lab lab;
  for (const int overlap : {0, 1, 2}) {
    for (const bool masters : {true, false}) {
      CAPTURE(overlap, masters);
      sim::Layout layout = pairs(4, 1);
      layout.outer = sim::OuterOptimizer::nesterov;
      layout.outer_fragments = 2;
      layout.outer_overlap = overlap;
      layout.master_weights = masters;
      const TrainedModel plain = lab.train(layout, 12);
      layout.outer_on_host = true;
      const TrainedModel hosted = lab.train(layout, 12);
      CHECK(largest_relative(hosted.losses, plain.losses) == 0);
    }
  }
}

TEST_CASE("outer gradients in 8 and 4 bits train nearly as those in 32", "[property]") {
  const Lab lab;
  for (const int ranks : {1, 2}) {
    sim::Layout layout = ranks == 1 ? groups_of_one(3) : pairs(3, 1);
    layout.outer = sim::OuterOptimizer::nesterov;
    const TrainedModel plain = lab.train(layout, 18);
    const auto difference = [&](sim::OuterQuantization how, bool on_host) {
      layout.outer_quantization = how;
      layout.outer_on_host = on_host;
      return largest_relative(lab.train(layout, 18).losses, plain.losses);
    };
    CAPTURE(ranks);
    const double eight = difference(sim::OuterQuantization::int8, false);
    const double four = difference(sim::OuterQuantization::e3m0, false);
    CHECK(eight > 0);
    CHECK(eight < 0.03);
    CHECK(four > eight);
    CHECK(four < 0.1);
    CHECK(difference(sim::OuterQuantization::e3m0, true) == four);
  }
}

TEST_CASE("fragments that meet in the same step are one", "[property]") {
  const Lab lab;
  sim::Layout layout = groups_of_one(2);
  layout.outer_fragments = 2;
  const TrainedModel parts = lab.train(layout);
  CHECK(std::isfinite(parts.losses.back()));
  CHECK(parts.losses.back() < parts.losses.front());
  // Not what all of the model at once gives.
  layout.outer_fragments = 1;
  CHECK(largest_relative(parts.losses, lab.train(layout).losses) > 1e-6);
}

TEST_CASE("ranks that never meet go their own ways, those that do learn as one", "[property]") {
  const Lab lab;
  sim::Layout together = groups_of_one(1);
  const TrainedModel synchronous = lab.train(together, 24);
  const TrainedModel often = lab.train(groups_of_one(2), 24);
  const TrainedModel never = lab.train(groups_of_one(1000), 24);
  CHECK(largest_relative(often.losses, never.losses) > 1e-4);
  CHECK(often.losses.back() < often.losses.front());
  CHECK(std::fabs(often.losses.back() - synchronous.losses.back()) <
        0.15 * synchronous.losses.back());
  // The first step is the same for all.
  CHECK(often.losses.front() == Approx(synchronous.losses.front()).epsilon(1e-6));
}

TEST_CASE("a meeting beside training keeps a share of each rank's own parameters", "[property]") {
  const Lab lab;
  sim::Layout layout = groups_of_one(4);
  layout.outer = sim::OuterOptimizer::nesterov;
  for (const int overlap : {1, 2}) {
    layout.outer_overlap = overlap;
    const TrainedModel trained = lab.train(layout, 16);
    CHECK(std::isfinite(trained.losses.back()));
    CHECK(trained.losses.back() < trained.losses.front());
  }
}

}  // namespace real::test
