#include "sim/memory/memory.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/schedule/schedule.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;

namespace {

bool same(const Program& a, const Program& b) {
  const auto labels = [](const Program& program) {
    std::vector<std::uint64_t> flat;
    for (const OpLabel& label : program.label) {
      flat.push_back(label.name);
      flat.push_back(static_cast<std::uint64_t>(label.layer + 1) << 32 |
                     static_cast<std::uint32_t>(label.microbatch));
    }
    return flat;
  };
  return a.kind == b.kind && a.stream == b.stream && a.pass == b.pass && a.work == b.work &&
         a.first_dependency == b.first_dependency && a.dependency == b.dependency &&
         a.first_buffer_use == b.first_buffer_use && a.kernels == b.kernels &&
         a.collectives == b.collectives && a.transfers == b.transfers && a.names == b.names &&
         labels(a) == labels(b);
}

std::int64_t persistent_elements(const Program& program, BufferCategory category, int bytes) {
  std::int64_t sum = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.persistent && buffer.category == category) sum += buffer.size.count() / bytes;
  }
  return sum;
}

std::int64_t owned_elements(const Program& program, const Layout& layout) {
  if (!layout.offloads()) return persistent_elements(program, BufferCategory::optimizer, 12);
  std::int64_t sum = 0;
  for (const ParameterBucket& bucket : program.parameter_buckets)
    sum += program.buffers[bucket.host_states.value].host.count() / 12;
  return sum;
}

// Gradient elements that leave a rank for reduction over data-parallel ranks, as they are or
// compressed.
std::int64_t reduced_elements(const Program& program, const Layout& layout) {
  std::int64_t bytes = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.action[i] == Action::decompress)
      bytes += program.parameter_buckets[program.subject[i]].padded * bytes_of(layout.reduce_dtype);
    if (program.action[i] == Action::exchange_compressed) continue;
    if (program.kind[i] != OpKind::collective || program.pass[i] != Pass::gradient_sync) continue;
    const Collective& collective = program.collectives[program.work[i]];
    if (collective.group != GroupRole::data && collective.group != GroupRole::shard) continue;
    bytes += collective.bytes.count();
  }
  return bytes / bytes_of(layout.reduce_dtype);
}

}  // namespace

TEST_CASE("Random legal layouts give sound plans", "[plan][property]") {
  const Model model = test::gpt({.layers = 8, .hidden = 32, .vocabulary = 300, .tied = true});
  const Model untied = test::gpt({.layers = 8, .hidden = 32, .vocabulary = 512});
  Model held = untied;
  held.execution.holds_units = held.execution.accumulates_whole = true;
  int legal = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    const Layout layout = test::random_layout(seed);
    const Model& chosen = seed % 3 == 0 ? held : seed % 3 == 1 ? model : untied;
    if (!layout_problems(layout, chosen).empty()) continue;
    ++legal;
    CAPTURE(seed, test::to_text(layout));
    const Plan plan = make_plan(chosen, layout);
    REQUIRE_NOTHROW(check_plan(plan));
    const Plan again = make_plan(chosen, layout);
    const int shards = layout.zero_stage > 0 ? layout.shard_ranks() : 1;
    for (std::size_t i = 0; i < plan.programs.size(); ++i) {
      const Program& program = plan.programs[i];
      REQUIRE(same(program, again.programs[i]));
      REQUIRE(memory_use(program).peak.count() > 0);
      if (layout.replicas() == 1) continue;
      // Every gradient is reduced once per step, or once per run of the pipeline that ends with
      // it, or once per micro-batch where full gradients do not outlive one. Shards are padded to
      // equal size, by less than a rank count per bucket.
      const bool each = layout.zero_stage >= 2 && shards > 1 && !holds_units(chosen, layout);
      const bool runs = layout.zero_stage == 3 && shards > 1 && holds_units(chosen, layout);
      const std::int64_t times = each ? layout.micro_batches() : runs ? layout.pipeline_runs : 1;
      const std::int64_t owned = owned_elements(program, layout);
      REQUIRE(reduced_elements(program, layout) == times * owned * shards);
    }
  }
  CHECK(legal > 300);
}

TEST_CASE("Plans of every kind of transformer can be executed", "[plan][property]") {
  // check_plan(): every operator finds its operands, and nobody writes what another uses.
  std::vector<Model> models;
  models.reserve(test::transformer_kinds);
  for (int kind = 0; kind < test::transformer_kinds; ++kind)
    models.push_back(test::transformer(kind));
  int legal = 0;
  for (std::uint64_t seed = 5000; seed < 7000; ++seed) {
    const Layout layout = test::random_layout(seed);
    const auto kind = static_cast<std::size_t>(seed % models.size());
    if (!layout_problems(layout, models[kind]).empty()) continue;
    ++legal;
    CAPTURE(seed, kind, test::to_text(layout));
    REQUIRE_NOTHROW(check_plan(make_plan(models[kind], layout)));
    if (layout.context_parallel == 1) continue;
    Model pytorch = models[kind];
    pytorch.execution.context = seed % 2 == 0 ? ContextForm::eager : ContextForm::compiled;
    REQUIRE_NOTHROW(check_plan(make_plan(pytorch, layout)));
  }
  CHECK(legal > 400);
}

TEST_CASE("Weights of all ranks add up to the model", "[plan][property]") {
  // Vocabulary 512 = 128 x 4: nothing is padded. Norms, projection and MLP output biases are whole
  // on every tensor rank: 4 h + h + h per layer, and the final norm.
  const std::int64_t h = 32;
  const Model model = test::gpt({.layers = 8, .hidden = h, .vocabulary = 512});
  const int t = GENERATE(1, 2, 4);
  const int stages = GENERATE(1, 2, 4);
  const Plan plan = make_plan(model, test::layout_for(t, 1, stages, 4));
  std::int64_t held = 0;
  for (const Program& program : plan.programs) {
    held += t * persistent_elements(program, BufferCategory::weights, 2);
  }
  CHECK(held == model.parameters() + (t - 1) * (8 * 6 * h + 2 * h));
}
