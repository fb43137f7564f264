#include "sim/framework/framework.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/chain_rule.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;

TEST_CASE("Every operand holds what the chain rule asks for", "[plan][property]") {
  std::vector<Model> models;
  models.reserve(test::transformer_kinds);
  for (int kind = 0; kind < test::transformer_kinds; ++kind)
    models.push_back(test::transformer(kind));
  // The same by a compiler, with tensor parallelism of its own and recomputation that ends early.
  for (int kind = 0; kind < test::transformer_kinds; ++kind) {
    models.push_back(test::transformer(kind));
    test::run_compiled(models.back().execution);
    models.back().execution.stops_recomputation = true;
    models.back().execution.holds_units = models.back().execution.accumulates_whole = true;
    models.back().execution.keeps_gathered = kind % 3 == 0;
    if (kind % 2 == 1) models.back().execution.eight_bit = EightBit::torchao_rowwise;
  }
  int legal = 0, in_slices = 0, held = 0;
  for (std::uint64_t seed = 20000; seed < 27000; ++seed) {
    Layout layout = test::random_layout(seed);
    layout.context_parallel = 1;  // refused by the real engine
    if (seed % 3 == 0) {
      layout.activation_dtype = layout.compute_dtype = DType::fp32;
      layout.eight_bit_parameters = false;
    }
    const auto kind = static_cast<std::size_t>(seed % models.size());
    if (!layout_problems(layout, models[kind]).empty()) continue;
    ++legal;
    in_slices += models[kind].execution.symmetric_memory && layout.cuts_products() ? 1 : 0;
    held += holds_units(models[kind], layout) ? 1 : 0;
    CAPTURE(seed, kind, test::to_text(layout));
    const Plan plan = make_plan(models[kind], layout);
    for (const Program& program : plan.programs)
      test::Interpreter{models[kind], plan, program}.run();
  }
  CHECK(legal > 600);
  CHECK(in_slices > 40);
  CHECK(held > 40);
}
