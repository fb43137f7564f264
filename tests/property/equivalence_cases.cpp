#include "tests/property/equivalence_cases.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/schedule/schedule.hpp"
#include "tests/property/random_scenario.hpp"

namespace real::test {
namespace {

using sim::Recompute;
using sim::Schedule;

constexpr int vocabulary = 101;
constexpr std::int64_t sequence = 8;

// (Not inlined: GCC 12 then takes the default of Layout::placement for uninitialised.)
[[gnu::noinline]] sim::Layout base() {
  sim::Layout layout;
  layout.sequence_length = sequence;
  layout.global_batch = 8;
  layout.micro_batch = 1;
  layout.compute_dtype = layout.activation_dtype = sim::DType::fp32;
  layout.gradient_dtype = layout.reduce_dtype = sim::DType::fp32;
  // Several buckets even of these models.
  layout.first_bucket = sim::Bytes{4096};
  layout.bucket = sim::Bytes{16384};
  return layout;
}

struct Parallel {
  int tensor = 1, pipeline = 1, data = 1;
  int experts = 1, expert_tensor = 1;
};

sim::Layout with(const Parallel& parallel) {
  sim::Layout layout = base();
  layout.tensor_parallel = parallel.tensor;
  layout.pipeline_parallel = parallel.pipeline;
  layout.data_parallel = parallel.data;
  layout.expert_parallel = parallel.experts;
  return layout;
}

sim::Layout again(sim::Layout layout, std::vector<sim::RecomputeModule> modules) {
  layout.recompute = Recompute::selective;
  layout.recompute_modules = std::move(modules);
  return layout;
}

// A layout with one thing changed.
template <class Change>
sim::Layout changed(sim::Layout layout, Change change) {
  change(layout);
  return layout;
}

void add_data_parallel(std::vector<EquivalenceCase>& to) {
  to.push_back(
      {"accumulation on one rank", {}, changed(base(), [](auto& l) { l.micro_batch = 2; })});
  to.push_back({"dp 2", {}, with({.data = 2})});
  to.push_back({"dp 8, one micro-batch", {.tied = true}, with({.data = 8})});
  to.push_back({"dp 3 of 6 samples", {.llama = true}, changed(with({.data = 3}), [](auto& l) {
                  l.global_batch = 6;
                })});
  to.push_back({"dp 4, nothing overlapped", {}, changed(with({.data = 4}), [](auto& l) {
                  l.overlap_gradients = l.overlap_parameters = false;
                })});
  to.push_back({"dp 3 with 5, 2 and 1 micro-batches", {}, changed(with({.data = 3}), [](auto& l) {
                  l.replica_batches = {5, 2, 1};
                })});
  to.push_back({"ZeRO-1 tp 2 pp 2 dp 2 with 5 and 3 micro-batches",
                {.llama = true},
                changed(with({.tensor = 2, .pipeline = 2, .data = 2}), [](auto& l) {
                  l.replica_batches = {5, 3};
                  l.zero_stage = 1;
                })});
  for (int zero = 1; zero <= 3; ++zero) {
    to.push_back({fmt::format("ZeRO-{} dp 4", zero),
                  {.tied = zero != 2},
                  changed(with({.data = 4}), [&](auto& l) { l.zero_stage = zero; })});
    to.push_back({fmt::format("ZeRO-{} dp 8, one micro-batch", zero),
                  {.llama = true},
                  changed(with({.data = 8}), [&](auto& l) { l.zero_stage = zero; })});
    to.push_back({fmt::format("ZeRO-{} hybrid dp 4 in groups of 2", zero),
                  {.grouped = true},
                  changed(with({.data = 4}), [&](auto& l) {
                    l.zero_stage = zero;
                    l.shard_group = 2;
                  })});
  }
  to.push_back({"ZeRO-1, no overlap, no masters", {}, changed(with({.data = 4}), [](auto& l) {
                  l.zero_stage = 1;
                  l.overlap_parameters = l.overlap_gradients = l.master_weights = false;
                })});
  to.push_back({"ZeRO-3, kept gathered, prefetch 2",
                {.llama = true, .tied = true},
                changed(with({.data = 2}), [](auto& l) {
                  l.zero_stage = 3;
                  l.reshard_after_forward = false;
                  l.prefetch_layers = 2;
                })});
  to.push_back({"ZeRO-3 dp 5", {}, changed(with({.data = 5}), [](auto& l) {
                  l.zero_stage = 3;
                  l.global_batch = 10;
                })});
}

void add_tensor_parallel(std::vector<EquivalenceCase>& to) {
  for (const bool llama : {false, true}) {
    for (const bool slices : {false, true}) {
      to.push_back({fmt::format("tp 2{} {}", slices ? " sp" : "", llama ? "llama" : "gpt"),
                    {.llama = llama, .tied = llama, .grouped = llama},
                    changed(with({.tensor = 2}), [&](auto& l) { l.sequence_parallel = slices; })});
      to.push_back({fmt::format("tp 4{} {}", slices ? " sp" : "", llama ? "llama" : "gpt"),
                    {.llama = llama, .tied = !llama, .qk_norm = llama},
                    changed(with({.tensor = 4}), [&](auto& l) {
                      l.sequence_parallel = slices;
                      l.overlap_tensor_wgrad = llama;
                      l.micro_batch = 2;
                    })});
    }
  }
  to.push_back({"tp 2 dp 2 ZeRO-1",
                {.tied = true},
                changed(with({.tensor = 2, .data = 2}), [](auto& l) { l.zero_stage = 1; })});
  to.push_back(
      {"tp 2 sp dp 2 ZeRO-3", {.llama = true}, changed(with({.tensor = 2, .data = 2}), [](auto& l) {
         l.zero_stage = 3;
         l.sequence_parallel = true;
       })});
  to.push_back({"tp 2 sp post-norm", {.post_norm = true}, changed(with({.tensor = 2}), [](auto& l) {
                  l.sequence_parallel = true;
                })});
}

void add_pipelines(std::vector<EquivalenceCase>& to) {
  struct Kind {
    Schedule schedule;
    int chunks;
  };
  for (const Kind& kind :
       {Kind{Schedule::gpipe, 1}, Kind{Schedule::one_f_one_b, 1}, Kind{Schedule::interleaved, 2},
        Kind{Schedule::zb_h1, 1}, Kind{Schedule::zb_v, 2}, Kind{Schedule::v_half, 2},
        Kind{Schedule::v_min, 2}, Kind{Schedule::interleaved_zb, 2},
        Kind{Schedule::dual_pipe_v, 2}}) {
    for (const bool tied : {false, true}) {
      to.push_back({fmt::format("pp 2 {}{}", sim::word(kind.schedule), tied ? " tied" : ""),
                    {.llama = !tied, .tied = tied},
                    changed(with({.pipeline = 2}), [&](auto& l) {
                      l.schedule = kind.schedule;
                      l.virtual_stages = kind.chunks;
                      l.overlap_pipeline = tied || sim::rules_of(kind.schedule).sends_beside;
                    })});
    }
    to.push_back({fmt::format("pp 2 tp 2 sp dp 2 {} ZeRO-1", sim::word(kind.schedule)),
                  {.tied = true},
                  changed(with({.tensor = 2, .pipeline = 2, .data = 2}), [&](auto& l) {
                    l.schedule = kind.schedule;
                    l.virtual_stages = kind.chunks;
                    l.sequence_parallel = true;
                    l.zero_stage = 1;
                  })});
  }
  for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::interleaved, Schedule::zb_v}) {
    const bool one = schedule == Schedule::one_f_one_b;
    to.push_back({fmt::format("pp 2 dp 2 ZeRO-1 {} in 2 runs", sim::word(schedule)),
                  {.llama = true},
                  changed(with({.pipeline = 2, .data = 2}), [&](auto& l) {
                    l.schedule = schedule;
                    l.virtual_stages = one ? 1 : 2;
                    l.pipeline_runs = 2;
                    l.zero_stage = 1;
                  })});
  }
  to.push_back({"pp 2 dp 2 ZeRO-3 in 2 runs",
                {.tied = true},
                changed(with({.pipeline = 2, .data = 2}), [](auto& l) {
                  l.zero_stage = 3;
                  l.pipeline_runs = 2;
                })});
  to.push_back({"pp 4 tp 2", {.llama = true}, with({.tensor = 2, .pipeline = 4})});
  to.push_back({"pp 2 dp 2 ZeRO-2",
                {.tied = true},
                changed(with({.pipeline = 2, .data = 2}), [](auto& l) { l.zero_stage = 2; })});
  to.push_back({"pp 2 dp 2 ZeRO-3",
                {.llama = true, .tied = true},
                changed(with({.pipeline = 2, .data = 2}), [](auto& l) { l.zero_stage = 3; })});
  to.push_back({"pp 4 tp 2 dp 2, 16 ranks", {}, with({.tensor = 2, .pipeline = 4, .data = 2})});
}

void add_recomputation(std::vector<EquivalenceCase>& to) {
  to.push_back({"unfused attention", {}, changed(base(), [](auto& l) {
                  l.attention = sim::AttentionKernel::unfused;
                })});
  to.push_back({"selective recomputation", {}, changed(base(), [](auto& l) {
                  l.attention = sim::AttentionKernel::unfused;
                  l.recompute = Recompute::selective;
                })});
  to.push_back({"recomputation by operators, tp 2 sp dp 2 ZeRO-3",
                {.llama = true, .grouped = true, .qk_norm = true},
                changed(with({.tensor = 2, .data = 2}), [](auto& l) {
                  l.recompute = Recompute::operators;
                  l.sequence_parallel = true;
                  l.zero_stage = 3;
                })});
  to.push_back({"recomputation by operators, norms behind the branches",
                {.post_norm = true},
                changed(base(), [](auto& l) { l.recompute = Recompute::operators; })});
  to.push_back({"full recomputation, tp 2 sp",
                {.llama = true, .grouped = true},
                changed(with({.tensor = 2}), [](auto& l) {
                  l.recompute = Recompute::full;
                  l.sequence_parallel = true;
                })});
  to.push_back({"full recomputation that ends early, tp 2 sp",
                {.llama = true, .stops_recomputation = true},
                changed(with({.tensor = 2}), [](auto& l) {
                  l.recompute = Recompute::full;
                  l.sequence_parallel = true;
                })});
  to.push_back({"full recomputation of every second layer, pp 2",
                {},
                changed(with({.pipeline = 2}), [](auto& l) {
                  l.recompute = Recompute::full;
                  l.recompute_every = 2;
                })});
  using enum sim::RecomputeModule;
  to.push_back(
      {"MLP again, tp 2 sp",
       {.llama = true},
       again(changed(with({.tensor = 2}), [](auto& l) { l.sequence_parallel = true; }), {mlp})});
  to.push_back({"MLP and attention again, dropout, ZB-H1",
                {.dropout = 0.1},
                again(changed(with({.pipeline = 2}), [](auto& l) { l.schedule = Schedule::zb_h1; }),
                      {core_attn, mlp})});
  to.push_back(
      {"MLP and attention again, norms behind the branches, ZeRO-3",
       {.post_norm = true},
       again(changed(with({.data = 2}), [](auto& l) { l.zero_stage = 3; }), {mlp, core_attn})});
  to.push_back({"unfused attention again, pp 2",
                {},
                again(changed(with({.pipeline = 2}),
                              [](auto& l) { l.attention = sim::AttentionKernel::unfused; }),
                      {core_attn})});
  to.push_back(
      {"full recomputation, ZeRO-3", {.tied = true}, changed(with({.data = 2}), [](auto& l) {
         l.recompute = Recompute::full;
         l.zero_stage = 3;
       })});
}

}  // namespace

sim::Model equivalence_model(const ModelTraits& traits) {
  std::string text = fmt::format(
      "name: tiny\nsource: made for a test\ntransformer:\n  layers: {}\n  hidden: 24\n"
      "  heads: 4\n  head_dim: 6\n  kv_heads: {}\n  feed_forward: 40\n  vocabulary: {}\n"
      "  max_sequence: 12\n  norm_placement: {}\n  qk_norm: {}\n  tied_head: {}\n"
      "  head: {}\n  hidden_dropout: {}\n  attention_dropout: {}\n  embedding_dropout: {}\n",
      traits.layers, traits.grouped ? 2 : 4, vocabulary,
      traits.post_norm || traits.encoder ? "post" : "pre", traits.qk_norm, traits.tied,
      traits.encoder ? "classifier\n  classes: 3\n  attention: bidirectional\n"
                       "  embedding_norm: true"
                     : "language_model",
      traits.dropout, traits.dropout, traits.dropout);
  const std::string activation = *traits.activation != 0 ? traits.activation
                                 : traits.llama          ? "swiglu"
                                                         : "gelu";
  text += fmt::format("  norm: {}\n  positions: {}\n  activation: {}\n  biases: {}\n",
                      traits.llama ? "rms" : "layer", traits.llama ? "rotary" : "learned",
                      activation, traits.llama || traits.experts > 0 ? "none" : "all");
  if (traits.window > 0)
    text += fmt::format("  window: {}\n  full_attention: [1]\n", traits.window);
  if (traits.rotary_share < 1) text += fmt::format("  rotary_share: {}\n", traits.rotary_share);
  if (traits.experts > 0)
    text += fmt::format(
        "  experts:\n    count: {}\n    per_token: {}\n    feed_forward: 20\n"
        "    shared_feed_forward: {}\n    first_layer: {}\n",
        traits.experts, traits.per_token, traits.shared ? 12 : 0, traits.dense_first ? 1 : 0);
  sim::Model model = sim::load_model(sim::test::TemporaryFile{text}.path());
  model.execution.stops_recomputation = traits.stops_recomputation;
  return model;
}

// Not uniform, so that there is something to learn.
std::unique_ptr<sim::test::TemporaryFile> equivalence_text() {
  std::string text;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const double u = sim::uniform(11, 0, i);
    text += static_cast<char>(static_cast<int>(u * u * vocabulary));
  }
  return std::make_unique<sim::test::TemporaryFile>(text, ".txt");
}

std::unique_ptr<sim::test::TemporaryFile> equivalence_sentences() {
  std::string text = "zero\tw0\none\tw1\ntwo\tw2 w3\n";
  for (std::uint64_t i = 0; i < 60; ++i) {
    const auto label = static_cast<std::size_t>(3 * sim::uniform(12, 0, i));
    text += std::array{"zero\t", "one\t", "two\t"}.at(label);
    const auto words = 1 + static_cast<std::uint64_t>(7 * sim::uniform(12, 1, i));
    for (std::uint64_t j = 0; j < words; ++j)
      text += fmt::format("w{} ", static_cast<int>(90 * sim::uniform(12, 2, 8 * i + j)));
    text += '\n';
  }
  return std::make_unique<sim::test::TemporaryFile>(text, ".tsv");
}

sim::Layout one_rank_layout(const sim::Layout& layout) {
  sim::Layout alone = base();
  alone.sequence_length = layout.sequence_length;
  alone.global_batch = layout.global_batch;
  alone.micro_batch = layout.global_batch;
  return alone;
}

std::vector<EquivalenceCase> listed_cases() {
  std::vector<EquivalenceCase> cases;
  add_data_parallel(cases);
  add_tensor_parallel(cases);
  add_pipelines(cases);
  add_recomputation(cases);
  return cases;
}

std::vector<EquivalenceCase> listed_encoders() {
  std::vector<EquivalenceCase> cases;
  const auto add = [&](const char* name, const ModelTraits& model, const sim::Layout& layout) {
    cases.push_back({name, model, layout});
  };
  const ModelTraits plain{.layers = 2, .encoder = true};
  const ModelTraits drops{.layers = 2, .encoder = true, .dropout = 0.2};
  const ModelTraits llama{.llama = true, .layers = 2, .dropout = 0.2};
  for (const ModelTraits& model : {plain, drops, llama}) {
    add("micro-batches on one rank", model, changed(base(), [](auto& l) { l.micro_batch = 2; }));
    add("dp 2, nothing overlapped", model, changed(with({.data = 2}), [](auto& l) {
          l.overlap_gradients = l.overlap_parameters = false;
          l.micro_batch = 4;
        }));
    add("dp 4 in buckets", model, changed(with({.data = 4}), [](auto& l) { l.micro_batch = 2; }));
    add("ZeRO-3 dp 2", model, changed(with({.data = 2}), [](auto& l) { l.zero_stage = 3; }));
    add("tp 2", model, with({.tensor = 2}));
    add("pp 2 dp 2", model, with({.pipeline = 2, .data = 2}));
    add("unfused attention, dp 2", model, changed(with({.data = 2}), [](auto& l) {
          l.attention = sim::AttentionKernel::unfused;
          l.recompute = Recompute::selective;
        }));
    add("full recomputation, tp 2 dp 2", model,
        changed(with({.tensor = 2, .data = 2}), [](auto& l) { l.recompute = Recompute::full; }));
  }
  add("tp 2 sp", llama, changed(with({.tensor = 2}), [](auto& l) { l.sequence_parallel = true; }));
  return cases;
}

EquivalenceCase drawn_case(std::uint64_t seed) {
  sim::test::Dice dice{seed};
  EquivalenceCase one{.name = fmt::format("seed {}", seed), .model = {}, .layout = base()};
  sim::Layout& layout = one.layout;
  do {
    layout.tensor_parallel = dice.pick(std::array{1, 2, 4});
    layout.pipeline_parallel = dice.pick(std::array{1, 2, 4});
    layout.data_parallel = dice.pick(std::array{1, 2, 4});
  } while (layout.world_size() > 16 || layout.world_size() == 1);
  const bool stages = layout.pipeline_parallel > 1;
  one.model = {.llama = dice.coin(),
               .tied = dice.coin(),
               .grouped = layout.tensor_parallel <= 2 && dice.coin(),
               .qk_norm = dice.coin(),
               .post_norm = dice.below(4) == 0,
               .layers = 4};
  layout.schedule =
      stages
          ? dice.pick(std::array{Schedule::gpipe, Schedule::one_f_one_b, Schedule::zb_h1,
                                 Schedule::interleaved, Schedule::zb_v, Schedule::v_half,
                                 Schedule::v_min, Schedule::interleaved_zb, Schedule::dual_pipe_v})
          : Schedule::one_f_one_b;
  const sim::ScheduleRules& rules = sim::rules_of(layout.schedule);
  const bool beside = rules.sends_beside;
  layout.virtual_stages =
      layout.schedule == Schedule::interleaved ? 4 / layout.pipeline_parallel : rules.least_chunks;
  if (layout.virtual_stages * layout.pipeline_parallel > 4) one.model.layers = 8;
  const int most_zero = splits_backward(layout.schedule) ? 2 : 4;
  layout.zero_stage = layout.data_parallel > 1 ? dice.below(most_zero) : 0;
  if (layout.zero_stage > 0 && layout.data_parallel > 2 && dice.coin()) layout.shard_group = 2;
  layout.reshard_after_forward = dice.coin();
  layout.prefetch_layers = dice.below(3);
  layout.sequence_parallel = layout.tensor_parallel > 1 && dice.coin();
  const int least = rules.batches_per_stage * layout.pipeline_parallel;
  layout.global_batch = std::max(4, least) * layout.data_parallel;
  layout.recompute = dice.pick(
      std::array{Recompute::none, Recompute::selective, Recompute::operators, Recompute::full});
  if (dice.coin()) layout.attention = sim::AttentionKernel::unfused;
  layout.overlap_gradients = dice.coin();
  layout.overlap_parameters = dice.coin();
  layout.overlap_pipeline = dice.coin() || beside;
  layout.overlap_tensor_wgrad = dice.coin();
  layout.master_weights = dice.coin();
  layout.placement =
      dice.coin()
          ? std::vector{sim::Dimension::tensor, sim::Dimension::data, sim::Dimension::pipeline}
          : std::vector{sim::Dimension::pipeline, sim::Dimension::data, sim::Dimension::tensor};
  one.model.stops_recomputation = dice.coin();
  return one;
}

namespace {

const ModelTraits mixture{.llama = true, .experts = 4};

sim::Layout with_experts(const Parallel& parallel) {
  return changed(with(parallel), [&](auto& l) {
    l.expert_tensor_parallel = parallel.expert_tensor;
    l.sequence_parallel = parallel.tensor > 1;
  });
}

void add_expert_layouts(std::vector<EquivalenceCase>& to) {
  const auto add = [&](const char* name, const sim::Layout& layout) {
    to.push_back({name, mixture, layout});
  };
  add("one rank, micro-batches", with_experts({}));
  add("dp 2, all experts on each", with_experts({.data = 2}));
  add("ep 2", with_experts({.data = 2, .experts = 2}));
  add("ep 4", with_experts({.data = 4, .experts = 4}));
  add("ep 2 dp 4: two copies of the experts", with_experts({.data = 4, .experts = 2}));
  add("tp 2 ep 1 etp 2", with_experts({.tensor = 2, .expert_tensor = 2}));
  add("tp 2 ep 2 etp 1", with_experts({.tensor = 2, .data = 2, .experts = 2}));
  add("tp 2 ep 4 etp 1: over tensor ranks", with_experts({.tensor = 2, .data = 2, .experts = 4}));
  add("tp 2 ep 2 etp 2", with_experts({.tensor = 2, .data = 2, .experts = 2, .expert_tensor = 2}));
  add("tp 4 ep 2 etp 2, one sample",
      changed(with_experts({.tensor = 4, .experts = 2, .expert_tensor = 2}),
              [](auto& l) { l.global_batch = 2; }));
  add("pp 2", with_experts({.pipeline = 2}));
  add("pp 2 ep 2 zb-h1", changed(with_experts({.pipeline = 2, .data = 2, .experts = 2}),
                                 [](auto& l) { l.schedule = Schedule::zb_h1; }));
  add("pp 2 interleaved, tp 2 ep 2",
      changed(with_experts({.tensor = 2, .pipeline = 2, .data = 2, .experts = 2}), [](auto& l) {
        l.schedule = Schedule::interleaved;
        l.virtual_stages = 2;
      }));
  for (const bool overlap : {false, true})
    add("ZeRO-1 dp 4 ep 2", changed(with_experts({.data = 4, .experts = 2}), [&](auto& l) {
          l.zero_stage = 1;
          l.overlap_gradients = l.overlap_parameters = overlap;
        }));
  add("ZeRO-1 tp 2 dp 2 ep 4: no copies",
      changed(with_experts({.tensor = 2, .data = 2, .experts = 4}),
              [](auto& l) { l.zero_stage = 1; }));
  add("full recomputation, tp 2 ep 2",
      changed(with_experts({.tensor = 2, .data = 2, .experts = 2, .expert_tensor = 2}),
              [](auto& l) { l.recompute = Recompute::full; }));
}

// Exchanges beside kernels: of another micro-batch, or of the shared experts.
void add_overlapped_exchanges(std::vector<EquivalenceCase>& to) {
  ModelTraits deep = mixture;
  deep.shared = deep.dense_first = true;
  const auto merged = [](const Parallel& parallel, bool delay) {
    return changed(with_experts(parallel), [&](auto& l) {
      l.overlap_expert_exchange = true;
      l.delay_weight_gradients = delay;
      l.recompute = Recompute::none;
      if (l.pipeline_parallel == 1) return;
      l.schedule = Schedule::interleaved;
      l.virtual_stages = 2;
      l.overlap_pipeline = true;
    });
  };
  for (const bool delay : {false, true})
    for (const ModelTraits& model : {mixture, deep}) {
      to.push_back({"merged passes, ep 2", model, merged({.data = 2, .experts = 2}, delay)});
      to.push_back({"merged passes, tp 2 ep 2 pp 2", model,
                    merged({.tensor = 2, .pipeline = 2, .data = 2, .experts = 2}, delay)});
    }
  to.push_back({"shared experts beside the exchange, ep 2", deep,
                changed(with_experts({.data = 2, .experts = 2}),
                        [](auto& l) { l.overlap_shared_experts = true; })});
}

void add_expert_models(std::vector<EquivalenceCase>& to) {
  const auto add = [&](const char* name, const ModelTraits& model, const sim::Layout& layout) {
    to.push_back({name, model, layout});
  };
  ModelTraits deep = mixture;
  deep.shared = deep.dense_first = true;
  add("shared experts, dense first layer", deep, with_experts({.data = 2, .experts = 2}));
  add("shared experts, dense first layer, tp 2 pp 2", deep,
      with_experts({.tensor = 2, .pipeline = 2, .data = 2, .experts = 2, .expert_tensor = 2}));
  add("shared experts, recomputed", deep,
      changed(with_experts({.tensor = 2, .data = 2, .experts = 4}),
              [](auto& l) { l.recompute = Recompute::full; }));
  using enum sim::RecomputeModule;
  add("experts and norms again, shared experts", deep,
      again(with_experts({.tensor = 2, .data = 2, .experts = 4}), {moe, layernorm, mlp}));
  add("activations of experts, norms and shared experts again", deep,
      again(with_experts({.tensor = 2, .data = 2, .experts = 2, .expert_tensor = 2}),
            {moe_act, layernorm, shared_experts}));
  ModelTraits one = mixture;
  one.per_token = 1;
  one.experts = 8;
  add("one expert per token, ep 4", one, with_experts({.data = 4, .experts = 4}));
  add("one expert per token, ep 8, dp 8", one, with_experts({.data = 8, .experts = 8}));
  for (const char* activation : {"gelu", "relu", "squared_relu", "geglu"}) {
    ModelTraits other = mixture;
    other.activation = activation;
    add(activation, other,
        with_experts({.tensor = 2, .data = 2, .experts = 2, .expert_tensor = 2}));
  }
  ModelTraits post = mixture;
  post.post_norm = true;
  add("post-norm, ep 2", post, with_experts({.data = 2, .experts = 2}));
  post.shared = true;
  for (const bool full : {false, true})
    add("post-norm with shared experts, tp 2 ep 2", post,
        changed(with_experts({.tensor = 2, .data = 2, .experts = 2}),
                [&](auto& l) { l.recompute = full ? Recompute::full : Recompute::none; }));
  add("post-norm with shared experts, experts again", post,
      again(with_experts({.tensor = 2, .data = 2, .experts = 2}), {moe}));
}

}  // namespace

std::vector<EquivalenceCase> listed_mixtures() {
  std::vector<EquivalenceCase> cases;
  add_expert_layouts(cases);
  add_expert_models(cases);
  add_overlapped_exchanges(cases);
  return cases;
}

EquivalenceCase drawn_mixture(std::uint64_t seed) {
  EquivalenceCase one = drawn_case(seed);
  sim::test::Dice dice{seed + 1000};
  sim::Layout& layout = one.layout;
  layout.sequence_parallel = layout.tensor_parallel > 1;
  layout.zero_stage %= 2;
  layout.shard_group = 0;
  if (layout.recompute == Recompute::operators) layout.recompute = Recompute::full;
  const int ranks = layout.tensor_parallel * layout.data_parallel;
  layout.expert_parallel = dice.pick(std::array{1, 2, 4});
  layout.expert_tensor_parallel = dice.pick(std::array{1, 2, 4});
  while (ranks % (layout.expert_parallel * layout.expert_tensor_parallel) != 0) {
    if (layout.expert_tensor_parallel > 1) {
      layout.expert_tensor_parallel /= 2;
    } else {
      layout.expert_parallel /= 2;
    }
  }
  one.model.llama = dice.coin();
  one.model.experts = 4;
  one.model.per_token = layout.tensor_parallel < 4 ? dice.pick(std::array{1, 2, 4}) : 2;
  one.model.shared = dice.coin();
  one.model.dense_first = dice.coin();
  return one;
}

}  // namespace real::test
