// Checks from outside: figures that the field knows by heart, each with its source, recomputed
// through the same functions that a user's scenario goes through.
#include <algorithm>
#include <map>

#include "sim/memory/memory.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "sim/report/report.hpp"
#include "sim/schedule/closed_form.hpp"
#include "tests/catch.hpp"
#include "tests/property/support.hpp"

namespace {

using namespace sim;
using namespace sim::test;

// --- ZeRO -------------------------------------------------------------------------------------

// Weights, gradients and optimizer state of a rank in GB (1e9 bytes). Many small layers and small
// buckets, so that what is gathered or being reduced at the peak does not blur the figure.
double model_state_gb(std::int64_t parameters, int ranks, int zero_stage) {
  const int layers = 5000;
  const Model model = equal_layers({.layers = layers, .parameters = parameters / layers});
  Layout layout = sample_layout(ranks, 1, 1);
  layout.zero_stage = zero_stage;
  layout.bucket = Bytes{1LL << 20};
  REQUIRE(layout_problems(layout, model).empty());
  const Plan plan = make_plan(model, layout);
  const MemoryUse use = memory_use(plan.program(RankId{0}));
  Bytes states{};
  for (const auto category :
       {BufferCategory::weights, BufferCategory::gradients, BufferCategory::optimizer})
    states += use.peak_of[static_cast<std::size_t>(category)];
  return static_cast<double>(states.count()) / 1e9;
}

// Rajbhandari et al. 2020, ZeRO (arXiv:1910.02054), figure 1: a model of 7.5 B parameters, 64-way
// data parallel, K = 12: 16 x 7.5 = 120 GB; 4 + 12/64: 31.4; 2 + 14/64: 16.6; 16/64: 1.9.
TEST_CASE("ZeRO: a model of 7.5 B parameters on 64 ranks", "[textbook]") {
  REQUIRE_THAT(model_state_gb(7'500'000'000, 64, 0), WithinAbs(120, 0.05));
  REQUIRE_THAT(model_state_gb(7'500'000'000, 64, 1), WithinAbs(31.4, 0.05));
  REQUIRE_THAT(model_state_gb(7'500'000'000, 64, 2), WithinAbs(16.6, 0.05));
  REQUIRE_THAT(model_state_gb(7'500'000'000, 64, 3), WithinAbs(1.9, 0.05));
}

// The same formula for 7 B parameters on 8 ranks: 16 x 7 = 112 GB, and 112 / 8 = 14 GB sharded.
TEST_CASE("ZeRO: a model of 7 B parameters on 8 ranks", "[textbook]") {
  REQUIRE_THAT(model_state_gb(7'000'000'000, 8, 0), WithinAbs(112, 0.05));
  REQUIRE_THAT(model_state_gb(7'000'000'000, 8, 3), WithinAbs(14, 0.05));
}

// --- Collectives ------------------------------------------------------------------------------

// Patarasuk & Yuan 2009: a ring all-reduce moves 2 (p - 1) / p n bytes through each rank. Gradients
// of 1 B parameters in 16 bit are 2 GB; 2 x 2 GB over 12.5 GB/s is 0.32 s for many ranks.
TEST_CASE("a ring all-reduce of 2 GB over 100 Gb/s takes 0.32 s for many ranks", "[textbook]") {
  const int ranks = GENERATE(8, 64, 256);
  CAPTURE(ranks);
  const Cluster cluster = flat_cluster({.nodes = ranks, .nic_gbps = 100});
  std::vector<GpuId> members;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(ranks); ++i)
    members.push_back({i});
  const Collective request{.kind = CollectiveKind::all_reduce,
                           .group = GroupRole::data,
                           .dtype = DType::bf16,
                           .bytes = Bytes{2'000'000'000}};
  const CollectiveCost cost =
      collective_cost(cluster, group_shape(cluster, members), request,
                      {.algorithm = Algorithm::ring, .protocol = Protocol::simple});
  const double share = static_cast<double>(ranks - 1) / ranks;
  REQUIRE_THAT(to_seconds(cost.transfer), WithinRel(0.32 * share, 1e-3));
  REQUIRE_THAT(to_seconds(cost.latency + cost.transfer), WithinRel(0.32 * share, 0.03));
}

// --- Pipeline bubbles -------------------------------------------------------------------------

bool of_pipeline(Pass pass) {
  return pass == Pass::forward || pass == Pass::recompute || pass == Pass::backward ||
         pass == Pass::weight_backward;
}

// Share of the time between the first forward and the last backward kernel of the whole pipeline
// that the ranks do not compute, on average.
double simulated_bubble(const Model& model, const Layout& layout) {
  REQUIRE(layout_problems(layout, model).empty());
  const Plan plan = make_plan(model, layout);
  const Cluster cluster = flat_cluster({.nodes = plan.world_size()});
  SimulationOptions options;
  options.free_pipeline = true;
  options.graphs = true;
  options.fold = false;
  options.record_all = true;
  const Simulation simulation = simulate(plan, cluster, options);
  TimePoint first = TimePoint::max(), last = TimePoint::min();
  Duration busy{};
  for (const RankTrack& track : simulation.timeline.tracks) {
    const Program& program = plan.program(track.rank);
    for (const Span& span : track.spans) {
      const std::uint32_t op = span.op.value;
      if (program.stream[op] != Stream::compute || !of_pipeline(program.pass[op])) continue;
      first = std::min(first, span.begin);
      last = std::max(last, span.end);
      busy += span.end - span.begin;
    }
  }
  const double ranks = static_cast<double>(simulation.timeline.tracks.size());
  return 1 - to_seconds(busy) / (ranks * to_seconds(last - first));
}

// Huang et al. 2019, GPipe, section 2.3: (K - 1) / (M + K - 1); 4 stages and 32 micro-batches give
// 3 / 35. 1F1B orders the same work otherwise and has the same bubble (Narayanan et al. 2019).
TEST_CASE("GPipe and 1F1B: the bubble of 4 stages and 32 micro-batches is 3/35", "[textbook]") {
  const Schedule schedule = GENERATE(Schedule::gpipe, Schedule::one_f_one_b);
  CAPTURE(word(schedule));
  const Model model = equal_layers({.layers = 4, .forward_gflop = 500});
  Layout layout = sample_layout(1, 4, 32);
  layout.schedule = schedule;
  REQUIRE_THAT(simulated_bubble(model, layout), WithinRel(3.0 / 35, 1e-6));
  REQUIRE_THAT(bubble_closed_form(layout).share, WithinRel(3.0 / 35, 1e-12));
}

TEST_CASE("the simulated bubble of equal stages and free transfers is the closed form",
          "[textbook]") {
  const Schedule schedule = GENERATE(Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved);
  const int stages = GENERATE(2, 3, 8);
  const int rounds = GENERATE(1, 2, 5);
  const int chunks = schedule == Schedule::interleaved ? GENERATE(2, 3) : 1;
  // Interleaving needs a multiple of the stages.
  const int micro_batches =
      schedule == Schedule::interleaved ? rounds * stages : rounds * stages + 1;
  const bool overlap = GENERATE(true, false);
  CAPTURE(word(schedule), stages, micro_batches, chunks, overlap);
  const Model model = equal_layers({.layers = stages * chunks, .forward_gflop = 500});
  Layout layout = sample_layout(1, stages, micro_batches);
  layout.schedule = schedule;
  layout.virtual_stages = chunks;
  layout.overlap_pipeline = overlap;
  // Narayanan et al. 2021, section 2.2: (P - 1) / (v m) of the ideal time.
  const double of_ideal =
      static_cast<double>(stages - 1) / static_cast<double>(chunks * micro_batches);
  REQUIRE_THAT(simulated_bubble(model, layout), WithinRel(of_ideal / (1 + of_ideal), 1e-6));
}

// --- Activations ------------------------------------------------------------------------------

struct ActivationCase {
  int tensor = 1;
  bool sequence_parallel = false;
  Recompute recompute = Recompute::none;
  AttentionKernel attention = AttentionKernel::unfused;
};

constexpr std::int64_t s = 1024, h = 2048, a = 16;

Model classic_gpt(int layers) {
  TransformerShape shape;
  shape.name = "classic";
  shape.family = "megatron";
  shape.layers = layers;
  shape.hidden = h;
  shape.heads = shape.kv_heads = a;
  shape.head_dim = h / a;
  shape.feed_forward = 4 * h;
  shape.vocabulary = 8192;
  shape.max_sequence = s;
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = true;
  shape.projection_dropout = shape.mlp_dropout = shape.attention_dropout = 0.1;
  return build_transformer(shape);
}

// activation_bytes_per_layer() is what one more layer adds to the peak of activations.
double activation_bytes_per_layer(const ActivationCase& chosen, int micro_batch) {
  std::array<double, 2> peak{};
  const int fewer = 4, more = 12;
  for (const int layers : {fewer, more}) {
    Layout layout;
    layout.tensor_parallel = chosen.tensor;
    layout.sequence_parallel = chosen.sequence_parallel;
    layout.recompute = chosen.recompute;
    layout.attention = chosen.attention;
    layout.sequence_length = s;
    layout.micro_batch = layout.global_batch = micro_batch;
    const Model model = classic_gpt(layers);
    REQUIRE(layout_problems(layout, model).empty());
    const Plan plan = make_plan(model, layout);
    const MemoryUse use = memory_use(plan.program(RankId{0}));
    peak[layers == fewer ? 0 : 1] = static_cast<double>(
        use.peak_of[static_cast<std::size_t>(BufferCategory::activations)].count());
  }
  return (peak[1] - peak[0]) / (more - fewer);
}

// Korthikanti et al. 2022 (arXiv:2205.05198), equations 1 to 6: bytes per layer in 16 bit, with
// b sequences per micro-batch.
TEST_CASE("activations of a layer are Korthikanti's formulas", "[textbook]") {
  const int b = GENERATE(1, 3);
  const int t = GENERATE(1, 2, 8);
  CAPTURE(b, t);
  const double sbh = static_cast<double>(s * b * h);
  const double scores = 5.0 * a * s / h;
  SECTION("tensor parallel: sbh (10 + 24/t + 5as/(ht))") {
    REQUIRE_THAT(activation_bytes_per_layer({.tensor = t}, b),
                 WithinRel(sbh * (10 + 24.0 / t + scores / t), 1e-9));
  }
  SECTION("with sequence parallelism: sbh/t (34 + 5as/h)") {
    if (t == 1) return;  // there is nothing to split
    REQUIRE_THAT(activation_bytes_per_layer({.tensor = t, .sequence_parallel = true}, b),
                 WithinRel(sbh / t * (34 + scores), 1e-9));
  }
  SECTION("selective recomputation drops the scores: sbh (10 + 24/t)") {
    REQUIRE_THAT(activation_bytes_per_layer({.tensor = t, .recompute = Recompute::selective}, b),
                 WithinRel(sbh * (10 + 24.0 / t), 1e-9));
  }
  SECTION("both: 34 sbh/t") {
    if (t == 1) return;
    REQUIRE_THAT(
        activation_bytes_per_layer(
            {.tensor = t, .sequence_parallel = true, .recompute = Recompute::selective}, b),
        WithinRel(sbh / t * 34, 1e-9));
  }
  SECTION("full recomputation keeps the input: 2 sbh") {
    REQUIRE_THAT(activation_bytes_per_layer({.tensor = t, .recompute = Recompute::full}, b),
                 WithinRel(sbh * 2, 1e-9));
  }
}

// Dao et al. 2022, FlashAttention, section 3.1: no s x s matrix is kept, the log-sum-exp of each
// row is: 4 bytes for each of s b a / t rows.
TEST_CASE("flash attention keeps a number per row instead of the scores", "[textbook]") {
  const int t = GENERATE(1, 4);
  CAPTURE(t);
  const double sbh = static_cast<double>(s * h);
  const double rows = 4.0 * static_cast<double>(s * a) / t;
  REQUIRE_THAT(activation_bytes_per_layer({.tensor = t, .attention = AttentionKernel::flash}, 1),
               WithinRel(sbh * (10 + 24.0 / t) + rows, 1e-9));
}

// --- The host ---------------------------------------------------------------------------------

// A node of one H100 whose host's memory has `gb_per_s`.
Cluster with_host(double gb_per_s) {
  std::string text = switch_node_yaml(1, 100);
  text += "host: {memory: 1 TB, bandwidth: " + std::to_string(gb_per_s) + " GB/s, source: made}\n";
  const TemporaryFile file{text};
  return Cluster::load(file.path());
}

double step_of(const Model& model, const Layout& layout, const Cluster& cluster) {
  REQUIRE(layout_problems(layout, model).empty());
  SimulationOptions options;
  options.graphs = true;
  options.device_spread = 0;
  return to_seconds(
      simulate(make_plan(model, layout), cluster, options).timeline.end.time_since_epoch());
}

// Ren et al. 2021, section 5.2: the update runs beside the next step, so that a step takes the
// longer of both, and what moves gradients and weights over PCIe.
TEST_CASE("a delayed update hides the shorter of compute and update", "[textbook]") {
  const double gb_per_s = GENERATE(5., 50., 2000.);
  CAPTURE(gb_per_s);
  constexpr std::int64_t parameters = 20'000'000;
  const Model model = equal_layers({.layers = 40, .parameters = parameters, .forward_gflop = 2000});
  Layout layout = sample_layout(1, 1, 4);
  const Cluster cluster = with_host(gb_per_s);
  layout.offload_optimizer = OffloadTarget::cpu;
  const double prompt = step_of(model, layout, cluster);
  layout.offload_delay = true;
  const double delayed = step_of(model, layout, cluster);
  // 2 bytes out, 2 bytes back at 48 GB/s; an update reads a gradient, reads and writes 12 bytes of
  // states, and writes a weight.
  const double copy = 40. * parameters * 2 / 48e9;
  const double update = 40. * parameters * (2 + 24 + 2) / (gb_per_s * 1e9);
  const double compute = prompt - update - 2 * copy;
  REQUIRE(compute > 0);
  REQUIRE_THAT(delayed, WithinRel(std::max(compute, update) + copy, 0.03));
}

// A copy over PCIe of what a layer keeps is hidden, unless it takes longer than the compute.
TEST_CASE("activations on the host cost what they take longer than the compute", "[textbook]") {
  const std::int64_t elements = GENERATE(100'000'000, 1'000'000'000);
  CAPTURE(elements);
  constexpr int layers = 20;
  const Model model = equal_layers(
      {.layers = layers, .parameters = 1000, .forward_gflop = 5000, .elements = elements});
  Layout layout = sample_layout(1, 1, 1);
  const Cluster cluster = with_host(100);
  const double here = step_of(model, layout, cluster);
  layout.offload_activations = OffloadTarget::cpu;
  const double there = step_of(model, layout, cluster);
  // The elements have 16 bits each; forward is a third of the time, backward the rest.
  const double copy = 2. * static_cast<double>(elements) / 48e9;
  const double forward = here / 3 / layers, backward = 2 * forward;
  const double exposed =
      (layers - 1) * (std::max(0., copy - forward) + std::max(0., copy - backward));
  REQUIRE_THAT(there - here, WithinAbs(exposed, 0.15 * exposed + 0.02 * here + 2 * copy));
  if (copy > backward) REQUIRE(there > 1.5 * here);
  if (copy < forward) REQUIRE(there < 1.02 * here + copy);
}

}  // namespace
