// The forms of other frameworks than Megatron-LM (sim/framework) train the model that one rank
// trains in its (equivalence_test.cpp says how the two are compared).
#include "real/engine/bound_program.hpp"
#include "real/host/host_backend.hpp"
#include "sim/framework/framework.hpp"
#include "tests/property/same_training.hpp"

namespace real::test {
namespace {

void check_framework(const sim::Framework& framework, const ModelTraits& traits,
                     void (*change)(sim::Layout&)) {
  sim::Layout from;
  from.sequence_length = 12;
  from.global_batch = 8;
  const sim::Layout alone = one_rank_layout(from);
  sim::Layout layout = alone;
  layout.micro_batch = 1;
  layout.data_parallel = 2;
  change(layout);
  const sim::Model reference = equivalence_model(traits);
  sim::Model model = reference;
  sim::run_with(framework, model);
  const std::vector<std::string> problems = engine_problems(sim::make_plan(model, layout), model);
  CAPTURE(problems);
  REQUIRE(problems.empty());
  const auto text = equivalence_text();
  const auto samples = open_samples(text->path(), model, layout.sequence_length);
  check_same_steps(model, layout, reference, alone, *samples, five_steps(1e-3));
}

TEST_CASE("the forms of frameworks train the model that one rank trains", "[frameworks]") {
  const auto name = GENERATE(sim::FrameworkName::pytorch, sim::FrameworkName::transformers,
                             sim::FrameworkName::torchtitan, sim::FrameworkName::deepspeed,
                             sim::FrameworkName::megatron_deepspeed);
  const bool llama = GENERATE(false, true);
  const int zero = GENERATE(0, 1, 2, 3);
  CAPTURE(sim::word(name), llama, zero);
  const ModelTraits traits{.llama = llama, .grouped = llama, .layers = 2};
  switch (zero) {
    case 0:
      return check_framework(sim::framework_of(name), traits, [](sim::Layout&) {});
    case 1:
      return check_framework(sim::framework_of(name), traits, [](sim::Layout& l) {
        l.zero_stage = 1;
        l.tensor_parallel = 2;
      });
    case 2:
      return check_framework(sim::framework_of(name), traits, [](sim::Layout& l) {
        l.zero_stage = 2;
        l.tensor_parallel = 2;
        l.sequence_parallel = true;
      });
    default:
      return check_framework(sim::framework_of(name), traits, [](sim::Layout& l) {
        l.zero_stage = 3;
        l.micro_batch = 2;
        l.recompute = sim::Recompute::full;
      });
  }
}

TEST_CASE("their kernels meet pipelines, mixtures and split losses", "[frameworks]") {
  using sim::FrameworkName;
  const ModelTraits gpt{.tied = true}, llama{.llama = true, .grouped = true};
  const auto with_loss = [](sim::LossForm loss) {
    sim::Framework made;
    made.loss = loss;
    return made;
  };
  check_framework(sim::framework_of(FrameworkName::transformers), gpt, [](sim::Layout& l) {
    l.pipeline_parallel = 2;
    l.schedule = sim::Schedule::zb_h1;
  });
  sim::Framework separate;
  separate.joint_gate = false;
  check_framework(separate, {.llama = true, .layers = 2, .experts = 4, .shared = true},
                  [](sim::Layout& l) {
                    l.expert_parallel = 2;
                    l.zero_stage = 1;
                  });
  check_framework(with_loss(sim::LossForm::keeps_logits), gpt, [](sim::Layout& l) {
    l.tensor_parallel = 2;
    l.sequence_parallel = true;
  });
  check_framework(with_loss(sim::LossForm::in_place), llama, [](sim::Layout& l) {
    l.tensor_parallel = 2;
    l.pipeline_parallel = 2;
  });
  check_framework(with_loss(sim::LossForm::separate), llama,
                  [](sim::Layout& l) { l.tensor_parallel = 2; });
  sim::Framework copies;
  copies.execution.copies_attention = copies.execution.copies_flash_output = true;
  check_framework(copies, llama, [](sim::Layout& l) {
    l.micro_batch = 2;
    l.tensor_parallel = 2;
  });
  sim::Framework passes;
  passes.execution.scales_gradients = passes.execution.checks_gradients = true;
  passes.execution.ddp_buckets = true;
  check_framework(passes, {.llama = true, .layers = 2, .experts = 4}, [](sim::Layout& l) {
    l.data_parallel = 4;
    l.expert_parallel = 2;
    l.tensor_parallel = 2;
    l.sequence_parallel = true;
  });
}

}  // namespace
}  // namespace real::test
