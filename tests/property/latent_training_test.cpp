// Latent attention: every layout trains the model that one rank trains (equivalence_test.cpp says
// how the two are compared), the gradient is the slope of the loss, and scores know of positions
// what their difference tells.
#include "real/host/kernels/kernels_latent.hpp"
#include "sim/base/random.hpp"
#include "tests/property/same_training.hpp"
#include "tests/property/slope.hpp"
#include "tests/property/support.hpp"

namespace real::test {
namespace {

struct LatentTraits {
  int query_rank = 0;
  bool experts = false;
};

sim::Model latent_model(const LatentTraits& traits) {
  std::string text =
      "name: tiny\nsource: made for a test\ntransformer:\n  layers: 2\n  hidden: 24\n  heads: 4\n"
      "  feed_forward: 40\n  vocabulary: 101\n  norm: rms\n  activation: swiglu\n"
      "  positions: rotary\n  biases: none\n  latent_attention:\n    key_value_rank: 12\n"
      "    plain_dim: 4\n    rotary_dim: 2\n    value_dim: 8\n";
  if (traits.query_rank > 0) text += "    query_rank: " + std::to_string(traits.query_rank) + "\n";
  if (traits.experts)
    text +=
        "  experts:\n    count: 4\n    per_token: 2\n    feed_forward: 20\n"
        "    shared_feed_forward: 12\n    first_layer: 1\n";
  return sim::load_model(sim::test::TemporaryFile{text}.path());
}

sim::Layout latent_layout() {
  sim::Layout from;
  from.sequence_length = 12;
  from.global_batch = 8;
  return one_rank_layout(from);
}

void check_latent(const char* name, const LatentTraits& traits, void (*change)(sim::Layout&)) {
  CAPTURE(name, traits.query_rank, traits.experts);
  sim::Layout layout = latent_layout();
  layout.micro_batch = 2;
  change(layout);
  const sim::Model model = latent_model(traits);
  const auto text = equivalence_text();
  const auto samples = open_samples(text->path(), model, 12);
  check_same_training(model, layout, latent_layout(), *samples);
}

TEST_CASE("every layout trains the latent attention that one rank trains", "[latent]") {
  for (const LatentTraits& traits :
       {LatentTraits{}, LatentTraits{.query_rank = 10}, LatentTraits{.query_rank = 12},
        LatentTraits{.query_rank = 10, .experts = true}}) {
    check_latent("micro-batches", traits, [](sim::Layout&) {});
    check_latent("dp 2 ZeRO-1", traits, [](sim::Layout& l) {
      l.data_parallel = 2;
      l.zero_stage = 1;
    });
    check_latent("pp 2 dp 2", traits,
                 [](sim::Layout& l) { l.pipeline_parallel = l.data_parallel = 2; });
    check_latent("full recomputation", traits,
                 [](sim::Layout& l) { l.recompute = sim::Recompute::full; });
    check_latent("attention again", traits, [](sim::Layout& l) {
      l.recompute = sim::Recompute::selective;
      l.recompute_modules = {sim::RecomputeModule::core_attn};
    });
  }
  check_latent("dp 2 ZeRO-3", {.query_rank = 10}, [](sim::Layout& l) {
    l.data_parallel = 2;
    l.zero_stage = 3;
  });
  check_latent("MLP again", {.query_rank = 10}, [](sim::Layout& l) {
    l.recompute = sim::Recompute::selective;
    l.recompute_modules = {sim::RecomputeModule::mlp};
  });
  check_latent("dp 2 ep 2", {.experts = true},
               [](sim::Layout& l) { l.data_parallel = l.expert_parallel = 2; });
}

// As that of a classifier (equivalence_test.cpp), every sequence the same.
TEST_CASE("the gradient of latent attention is the slope of the loss", "[latent]") {
  const sim::test::TemporaryFile text{"THE CAT SAT O", ".txt"};
  for (const int query_rank : {0, 10}) {
    const sim::Model model = latent_model({.query_rank = query_rank});
    const auto samples = open_samples(text.path(), model, 12);
    // Steps of size 1 first, so that attention is no mean any more.
    CAPTURE(query_rank);
    check_slope(train_on_host(model, latent_layout(), slope_training(1), *samples));
  }
}

// Su et al. 2021: a rotated query times a rotated key depends on how far apart they stand. Two
// tokens with one query and one key each: the scores (1, 0) and (5, 4) are equal; without the
// rotation, all would be.
TEST_CASE("scores of latent attention depend on the distance of tokens", "[latent]") {
  constexpr std::int64_t tokens = 6, heads = 2, plain = 3, rotary = 4, value = 2;
  const auto drawn = [](std::uint64_t stream, std::int64_t width) {
    std::vector<float> rows;
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::int64_t i = 0; i < width; ++i)
        rows.push_back(
            static_cast<float>(sim::uniform(17, stream, static_cast<std::uint64_t>(i)) - 0.5));
    return rows;
  };
  const kernels::LatentHeads shape{.tokens = {.tokens = tokens, .sequence = tokens},
                                   .heads = heads,
                                   .plain = plain,
                                   .rotary = rotary,
                                   .value = value};
  const auto queries = drawn(1, heads * shape.head()), made = drawn(2, heads * (plain + value));
  const auto keys = drawn(3, rotary);
  std::vector<float> qkv(static_cast<std::size_t>(tokens * shape.row()));
  host::host_latent().put_latent_heads(
      shape, {.queries = queries.data(), .made = made.data(), .rotary_keys = keys.data()},
      qkv.data(), nullptr);
  const auto score = [&](std::int64_t query, std::int64_t key, std::int64_t head) {
    double sum = 0;
    for (std::int64_t i = 0; i < shape.head(); ++i)
      sum +=
          static_cast<double>(
              qkv[static_cast<std::size_t>(query * shape.row() + head * shape.head() + i)]) *
          static_cast<double>(
              qkv[static_cast<std::size_t>(key * shape.row() + (heads + head) * shape.head() + i)]);
    return sum;
  };
  for (std::int64_t head = 0; head < heads; ++head) {
    CHECK(std::fabs(score(1, 0, head) - score(5, 4, head)) < 1e-6);
    CHECK(std::fabs(score(3, 0, head) - score(4, 1, head)) < 1e-6);
    CHECK(std::fabs(score(3, 0, head) - score(1, 0, head)) > 1e-3);
    // Keys of all heads have one part with positions, values are as they were made.
    for (std::int64_t i = 0; i < value; ++i)
      CHECK(qkv[static_cast<std::size_t>(2 * heads * shape.head() + head * value + i)] ==
            made[static_cast<std::size_t>(head * (plain + value) + plain + i)]);
  }
}

}  // namespace
}  // namespace real::test
