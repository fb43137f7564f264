// Features of a layer together: modules that run again, shared experts beside the exchange, merged
// passes, multi-token prediction, dispatchers. Either a combination is refused, or its plan is
// sound.
#include <algorithm>

#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Model with_depth(const Model& model) {
  TransformerShape shape = *model.shape;
  shape.mtp_layers = 1;
  return build_transformer(shape);
}

// The layout of a mixture of experts over two expert-parallel ranks; `passes`: 0 as they are, 1
// shared experts beside the exchange, 2 merged.
Layout layout_of(int stages, int passes) {
  Layout layout = test::layout_for(1, 2, stages, 4);
  layout.expert_parallel = 2;
  if (stages > 1) {
    layout.schedule = Schedule::interleaved;
    layout.virtual_stages = 2;
  }
  layout.overlap_shared_experts = passes == 1;
  layout.overlap_expert_exchange = passes == 2;
  return layout;
}

}  // namespace

TEST_CASE("combinations of what layers with experts have are sound or refused", "[plan]") {
  int sound = 0, all = 0;
  for (const Model& base : {test::mixture(0), test::mixture(1)}) {
    for (const Model& model : {base, with_depth(base)}) {
      for (const int stages : {1, 2}) {
        for (const int passes : {0, 1, 2}) {
          for (const auto& module : words_of(RecomputeModule{})) {
            for (const TokenDispatcher dispatcher :
                 {TokenDispatcher::alltoall, TokenDispatcher::deepep}) {
              Layout layout = layout_of(stages, passes);
              layout.recompute = Recompute::selective;
              layout.recompute_modules = {module.value};
              layout.token_dispatcher = dispatcher;
              CAPTURE(model.name, model.shape->mtp_layers, stages, passes, module.text,
                      word(dispatcher));
              ++all;
              if (!layout_problems(layout, model).empty()) continue;
              ++sound;
              CHECK_NOTHROW(check_plan(make_plan(model, layout)));
            }
          }
        }
      }
    }
  }
  CHECK(sound > all / 4);
}
