// Multi-token prediction (TransformerShape::mtp_layers).
#include <algorithm>
#include <set>
#include <string>

#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Model with_depths(const Model& model, std::int64_t depths, bool repeated = false) {
  TransformerShape shape = *model.shape;
  shape.mtp_layers = depths;
  shape.mtp_repeated = repeated;
  return build_transformer(shape);
}

std::int64_t held_by(const Program& program) {
  std::int64_t elements = 0;
  for (const ParameterBucket& bucket : program.parameter_buckets)
    elements += bucket.elements;
  return elements;
}

int losses_of(const Program& program) {
  int losses = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.kind[op] == OpKind::cross_entropy && program.action[op] == Action::backward)
      ++losses;
  return losses;
}

}  // namespace

TEST_CASE("a depth of prediction has a layer, a projection, norms and no head of its own",
          "[plan]") {
  for (const Model& base : {test::transformer(1), test::transformer(2), test::mixture(1)}) {
    INFO(base.name);
    const std::int64_t h = base.hidden;
    const std::int64_t each = base.layers.back().parameters() + 2 * h * h + 3 * h;
    CHECK(with_depths(base, 1).parameters() == base.parameters() + each);
    CHECK(with_depths(base, 2).parameters() == base.parameters() + 2 * each);
    // The layer once more, the projection, the head once more.
    const double flops = forward_flops(with_depths(base, 1), 128).count();
    const double more = forward_flops(base.layers.back(), base.attention, 128).count() +
                        2.0 * 128 * static_cast<double>(2 * h * h + h * base.vocabulary);
    CHECK(flops == Approx(forward_flops(base, 128).count() + more));
  }
}

TEST_CASE("depths that repeat a layer have its parameters once, and its work each", "[plan]") {
  for (const Model& base : {test::transformer(1), test::mixture(1)}) {
    INFO(base.name);
    const Model repeated = with_depths(base, 3, true);
    CHECK(repeated.parameters() == with_depths(base, 1).parameters());
    CHECK(forward_flops(repeated, 128) == forward_flops(with_depths(base, 3), 128));
    for (const int stages : {1, 2}) {
      for (const int tensor : {1, 2}) {
        for (const int zero : {0, 1, 3}) {
          CAPTURE(stages, tensor, zero);
          if (base.has_experts() && zero == 3) continue;
          Layout layout = test::layout_for(tensor, 2, stages, 4);
          layout.sequence_parallel = tensor > 1;
          layout.zero_stage = zero;
          const Plan plan = test::checked_plan(repeated, layout);
          CHECK(losses_of(plan.programs.back()) == 4 * 4);
          const Plan once = test::checked_plan(with_depths(base, 1), layout);
          CHECK(held_by(plan.programs.back()) == held_by(once.programs.back()));
        }
      }
    }
  }
}

TEST_CASE("a depth has the layers of its own pattern", "[plan]") {
  TransformerShape shape = *test::mixture(1).shape;
  shape.layers = 4;
  shape.hybrid.mamba = {.heads = 8, .head_dim = 16, .groups = 2, .state = 32};
  for (const char letter : std::string{"ME*E"})
    append_letter(shape.hybrid.layers, letter);
  shape.experts.first_layer = 0;
  shape.experts.every = 1;
  const Model base = build_transformer(shape);
  shape.mtp_layers = 2;
  for (const char letter : std::string{"*E"})
    append_letter(shape.mtp_kinds, letter);
  shape.mtp_sixteen_bits = true;
  const std::int64_t h = shape.hidden;
  const std::int64_t each =
      base.layers[2].parameters() + base.layers[3].parameters() + 2 * h * h + 3 * h;
  const Model model = build_transformer(shape);
  CHECK(model.parameters() == base.parameters() + 2 * each);
  for (const ModelOp& op : model.output.ops)
    CHECK(op.sixteen_bits == (is_linear_of_layer(op) && op.name.starts_with("mtp.")));
  test::checked_plan(model, test::layout_for(1, 2, 2, 4));
}

TEST_CASE("plans with multi-token prediction are sound", "[plan]") {
  for (const Model& base : {test::transformer(1), test::transformer(2), test::mixture(1)}) {
    for (const std::int64_t depths : {1, 2}) {
      const Model model = with_depths(base, depths);
      for (const int stages : {1, 2, 4}) {
        for (const int tensor : {1, 2}) {
          for (const int zero : {0, 1, 3}) {
            CAPTURE(base.name, depths, stages, tensor, zero);
            if (base.has_experts() && zero == 3) continue;
            Layout layout = test::layout_for(tensor, 2, stages, 4);
            layout.sequence_parallel = tensor > 1;
            layout.zero_stage = zero;
            const Plan plan = test::checked_plan(model, layout);
            CHECK(losses_of(plan.programs.back()) == 4 * (1 + depths));
          }
        }
      }
    }
  }
}

TEST_CASE("the last stage holds a copy of the embedding's table, once", "[plan]") {
  const Model untied = test::transformer(1), tied = test::transformer(2);
  for (const Model& base : {untied, tied}) {
    for (const std::int64_t depths : {1, 3}) {
      INFO(base.name << ", depths " << depths);
      const Model model = with_depths(base, depths);
      const std::int64_t table = model.hidden * model.vocabulary;
      const Plan one = test::checked_plan(model, test::layout_for(1, 2, 1, 4));
      CHECK(held_by(one.programs[0]) == model.parameters());
      const Plan two = test::checked_plan(model, test::layout_for(1, 2, 2, 4));
      CHECK(held_by(two.programs[0]) + held_by(two.programs[1]) == model.parameters() + table);
      const auto& actions = two.programs[1].action;
      CHECK(std::count(actions.begin(), actions.end(), Action::sum_tied_gradient) == 1);
    }
  }
}
