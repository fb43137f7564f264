// Training with compressed gradients and parameters, and with the optimizer on the host, executed
// on host ranks, against the same training without: equal where a scheme sends everything, close
// where it sends less.
#include <cmath>
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/property/small_training.hpp"

namespace real::test {
namespace {

using sim::GradientCompression;

constexpr int steps = 12;

sim::Layout four_replicas(int zero_stage) {
  sim::Layout layout = replicas_in_fp32(4);
  layout.zero_stage = zero_stage;
  return layout;
}

struct Lab : SmallModel {
  TrainedModel train(const sim::Layout& layout, int count = steps,
                     const TrainOptions& options = {}) const {
    return train_on_host(model, layout, training_of(count), corpus, options);
  }
};

}  // namespace

TEST_CASE("top_k and random_k of everything are plain training", "[property]") {
  const Lab lab;
  const TrainedModel plain = lab.train(four_replicas(0));
  for (const auto scheme : {GradientCompression::top_k, GradientCompression::random_k}) {
    INFO(word(scheme));
    sim::Layout layout = four_replicas(0);
    layout.compression = scheme;
    layout.compression_density = 1;
    const TrainedModel all = lab.train(layout);
    CHECK(largest_relative(all.losses, plain.losses) < 1e-5);
    CHECK(largest_difference(all.parameters, all.weights, plain.weights, 1e-2).relative < 1e-4);
  }
}

TEST_CASE("a share of the gradients, with the rest kept for later, trains too", "[property]") {
  const Lab lab;
  const TrainedModel plain = lab.train(four_replicas(0));
  const double fell = plain.losses.front() - plain.losses.back();
  for (const auto scheme : {GradientCompression::top_k, GradientCompression::random_k,
                            GradientCompression::power_sgd}) {
    INFO(word(scheme));
    sim::Layout layout = four_replicas(0);
    layout.compression = scheme;
    if (scheme == GradientCompression::power_sgd)
      layout.compression_rank = 2;
    else
      layout.compression_density = 0.25;
    const TrainedModel some = lab.train(layout);
    CHECK(some.losses.front() == Approx(plain.losses.front()));
    CHECK(largest_relative(some.losses, plain.losses) > 1e-6);  // it is not the same
    CHECK(some.losses.front() - some.losses.back() > 0.3 * fell);
  }
}

TEST_CASE("ZeRO++ trains as ZeRO-3 but for the rounding of its integers", "[property]") {
  const Lab lab;
  const TrainedModel plain = lab.train(four_replicas(3), 6);
  for (const bool two_levels : {false, true}) {
    for (const auto scheme :
         {GradientCompression::none, GradientCompression::int8, GradientCompression::int4}) {
      INFO(word(scheme) << (two_levels ? " over two levels" : ""));
      sim::Layout layout = four_replicas(3);
      layout.compression = scheme;
      layout.quantized_weights = layout.secondary_shard = two_levels;
      layout.node_ranks = two_levels ? 2 : 0;
      const TrainedModel quantized = lab.train(layout, 6);
      const double off = largest_relative(quantized.losses, plain.losses);
      CHECK(off < (scheme == GradientCompression::int4 ? 0.05 : 0.02));
      if (scheme == GradientCompression::none && !two_levels) CHECK(off == 0);
    }
  }
}

TEST_CASE("secondary shards alone change no number", "[property]") {
  const Lab lab;
  sim::Layout layout = four_replicas(3);
  const TrainedModel plain = lab.train(layout);
  layout.secondary_shard = true;
  layout.node_ranks = 2;
  CHECK(largest_relative(lab.train(layout).losses, plain.losses) == 0);
}

TEST_CASE("1-bit Adam goes on behind a warm-up", "[property]") {
  const Lab lab;
  const std::string folder = lab.text->path() + ".checkpoint";
  sim::Layout layout = four_replicas(0);
  (void)lab.train(layout, 20, {.algorithms = {}, .resume = {}, .save = folder});
  const TrainOptions goes_on{.algorithms = {}, .resume = folder, .save = {}};
  const TrainedModel plain = lab.train(layout, 32, goes_on);
  layout.compression = GradientCompression::one_bit;
  const TrainedModel signs = lab.train(layout, 32, goes_on);
  CHECK(signs.losses.size() == 12);
  CHECK(signs.losses.front() == Approx(plain.losses.front()));
  CHECK(largest_relative(signs.losses, plain.losses) < 0.05);
  // The second moments stay as they were.
  const TrainedModel before = lab.train(four_replicas(0), 20);
  CHECK(largest_difference(signs.parameters, signs.second_moments, before.second_moments, 1e-12)
            .relative == 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("LAMB trains the same on one rank, on replicas and on stages", "[property]") {
  const Lab lab;
  sim::Layout layout = four_replicas(0);
  layout.optimizer = sim::OptimizerKind::lamb;
  layout.data_parallel = 1;
  const TrainedModel alone = lab.train(layout);
  CHECK(alone.losses.back() < alone.losses.front());
  const auto check = [&](const sim::Layout& other) {
    const TrainedModel trained = lab.train(other);
    CHECK(largest_relative(trained.losses, alone.losses) < 1e-5);
    CHECK(largest_difference(trained.parameters, trained.weights, alone.weights, 1e-2).relative <
          1e-3);
  };
  sim::Layout other = layout;
  other.data_parallel = 4;
  check(other);
  other.bucket = sim::Bytes{1 << 20};
  other.master_weights = false;
  check(other);
  other = layout;
  other.pipeline_parallel = 2;  // of a tied table both stages have the norm
  check(other);
  // It is not Adam, and the scale of a matrix does not change how far it moves in its own measure.
  layout.optimizer = sim::OptimizerKind::adam;
  CHECK(largest_relative(lab.train(layout).losses, alone.losses) > 1e-3);
}

TEST_CASE("1-bit LAMB goes on behind a warm-up", "[property]") {
  const Lab lab;
  const std::string folder = lab.text->path() + ".lamb";
  sim::Layout layout = four_replicas(0);
  layout.optimizer = sim::OptimizerKind::lamb;
  (void)lab.train(layout, 20, {.algorithms = {}, .resume = {}, .save = folder});
  const TrainOptions goes_on{.algorithms = {}, .resume = folder, .save = {}};
  const TrainedModel plain = lab.train(layout, 32, goes_on);
  layout.compression = GradientCompression::one_bit_lamb;
  const TrainedModel signs = lab.train(layout, 32, goes_on);
  CHECK(signs.losses.size() == 12);
  CHECK(signs.losses.front() == Approx(plain.losses.front()));
  CHECK(largest_relative(signs.losses, plain.losses) > 1e-6);
  CHECK(largest_relative(signs.losses, plain.losses) < 0.05);
  sim::Layout before = four_replicas(0);
  before.optimizer = sim::OptimizerKind::lamb;
  CHECK(largest_difference(signs.parameters, signs.second_moments,
                           lab.train(before, 20).second_moments, 1e-12)
            .relative == 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("one rank compresses nothing", "[property]") {
  const Lab lab;
  sim::Layout layout = four_replicas(0);
  layout.data_parallel = 1;
  const TrainedModel plain = lab.train(layout);
  layout.compression = GradientCompression::top_k;
  CHECK(largest_relative(lab.train(layout).losses, plain.losses) == 0);
}

TEST_CASE("an optimizer on the host updates as one on the device does", "[property]") {
  const Lab lab;
  for (const int zero : {0, 1, 2, 3}) {
    for (const bool masters : {true, false}) {
      INFO("ZeRO-" << zero << (masters ? "" : " without masters"));
      sim::Layout layout = four_replicas(zero);
      layout.master_weights = masters;
      const TrainedModel plain = lab.train(layout, 5);
      layout.offload_optimizer = zero == 3 ? sim::OffloadTarget::nvme : sim::OffloadTarget::cpu;
      layout.offload_overlap = masters;
      const TrainedModel offloaded = lab.train(layout, 5);
      CHECK(largest_relative(offloaded.losses, plain.losses) == 0);
      CHECK(largest_difference(offloaded.parameters, offloaded.weights, plain.weights).relative ==
            0);
    }
  }
}

}  // namespace real::test
