// Operators that no backend executes are refused by name, before anything starts.
#include <string>

#include "real/engine/bound_program.hpp"
#include "sim/framework/framework.hpp"
#include "sim/model/transformer.hpp"
#include "tests/catch.hpp"
#include "tests/property/equivalence_cases.hpp"

namespace real::test {
namespace {

sim::TransformerShape plain_shape() {
  sim::TransformerShape shape;
  shape.name = "tiny";
  shape.layers = 2;
  shape.hidden = 16;
  shape.heads = shape.kv_heads = 2;
  shape.head_dim = 8;
  shape.feed_forward = 32;
  shape.vocabulary = 256;
  shape.max_sequence = 8;
  return shape;
}

using Problems = std::vector<std::string>;

Problems problems_of(const sim::Model& model, sim::DType compute = sim::DType::fp32) {
  sim::Plan plan;
  plan.layout.compute_dtype = compute;
  return engine_problems(plan, model);
}
Problems problems_of(const sim::TransformerShape& shape) {
  return problems_of(sim::build_transformer(shape));
}

}  // namespace

TEST_CASE("every model of the equivalence tests can be executed", "[engine_problems]") {
  for (const EquivalenceCase& one : listed_cases())
    CHECK(problems_of(equivalence_model(one.model)).empty());
  CHECK(problems_of(plain_shape()).empty());
}

TEST_CASE("dropout is executed wherever it is, if something is left", "[engine_problems]") {
  sim::TransformerShape shape = plain_shape();
  shape.projection_dropout = shape.mlp_dropout = 0.1;
  shape.embedding_dropout = shape.attention_dropout = 0.5;
  CHECK(problems_of(shape).empty());
  shape.mlp_dropout = 1;
  CHECK(problems_of(shape) ==
        Problems{"tiny: dropout of 1 leaves nothing to train; allowed: less than 1"});
}

TEST_CASE("a classifier is bidirectional, and its sequences are whole", "[engine_problems]") {
  sim::TransformerShape shape = plain_shape();
  shape.head = sim::Head::classifier;
  shape.classes = 2;
  CHECK(problems_of(shape) ==
        Problems{"operator attention: tiny is causal, so the first token, of which its head makes "
                 "the class, sees no other; allowed: attention bidirectional"});
  shape.mask = sim::AttentionMask::bidirectional;
  CHECK(problems_of(shape).empty());
  sim::Plan plan;
  plan.layout.compute_dtype = sim::DType::fp32;
  plan.layout.tensor_parallel = 2;
  CHECK(engine_problems(plan, sim::build_transformer(shape)).empty());
  plan.layout.sequence_parallel = true;
  CHECK(engine_problems(plan, sim::build_transformer(shape)) ==
        Problems{"layout.sequence_parallel: the head of tiny reads the first token of each "
                 "sequence, which one rank alone would hold; allowed: false"});
}

TEST_CASE("models that predict no next token are refused", "[engine_problems]") {
  sim::TransformerShape shape = plain_shape();
  SECTION("slopes") {
    shape.positions = sim::Positions::alibi;
    CHECK(problems_of(shape) == Problems{"operator attention of the layer block: the engine does "
                                         "not execute ALiBi's slopes"});
  }
  SECTION("a tied head with a bias") {
    shape.tied_head = shape.head_bias = true;
    CHECK(problems_of(shape) == Problems{"operator head of the head block: the engine does not "
                                         "execute a tied head with a bias"});
  }
  SECTION("tokens that see those behind them") {
    shape.mask = sim::AttentionMask::bidirectional;
    CHECK(problems_of(shape) == Problems{"operator attention: tiny is not causal, and the engine "
                                         "trains the next token"});
  }
  SECTION("no head") {
    shape.head = sim::Head::none;
    CHECK(problems_of(shape) == Problems{"tiny ends in no loss: there is nothing to train"});
  }
  SECTION("layers that differ") {
    shape.hybrid.layers.assign(static_cast<std::size_t>(shape.layers), {.width = 16});
    CHECK(problems_of(shape) ==
          Problems{"tiny: the engine does not execute layers that differ in what they are made of "
                   "(layer_pattern, layer_kinds)"});
  }
  SECTION("a gate of attention") {
    shape.attention_gate = true;
    CHECK(problems_of(shape) ==
          Problems{"operator attention_gate of the layer block: the engine does not execute its "
                   "function"});
  }
  SECTION("a pooler") {
    shape.head = sim::Head::pooler;
    const std::string why =
        " of the head block: the engine does not execute what is computed for one token of each "
        "sequence";
    CHECK(problems_of(shape) ==
          Problems{"operator pooler" + why, "operator pooler_activation" + why});
  }
  SECTION("pixels") {
    shape.image = {.size = 8, .patch = 4};
    shape.vocabulary = 0;
    shape.head = sim::Head::none;
    CHECK(problems_of(shape) ==
          Problems{"operator patch_embedding of the embedding block: the engine does not execute "
                   "its function",
                   "operator positions of the embedding block: the engine does not execute its "
                   "function"});
  }
}

TEST_CASE("mixtures whose shares are not even are refused, and what experts have besides",
          "[engine_problems][experts]") {
  sim::TransformerShape shape = plain_shape();
  shape.experts = {.count = 4, .per_token = 2, .feed_forward = 8};
  sim::Plan plan;
  plan.layout.compute_dtype = sim::DType::fp32;
  plan.layout.sequence_length = 8;
  const auto problems = [&] { return engine_problems(plan, sim::build_transformer(shape)); };
  CHECK(problems().empty());
  SECTION("the sequence") {
    plan.layout.sequence_length = 7;
    CHECK(problems() == Problems{"layout.sequence_length: the engine gives every expert as many "
                                 "tokens, but 7 tokens that choose 2 experts each do not spread "
                                 "evenly over 4"});
  }
  SECTION("a tensor rank's slice of it") {
    shape.heads = shape.kv_heads = 8;
    plan.layout.tensor_parallel = 8;
    plan.layout.sequence_parallel = true;
    CHECK(problems() == Problems{"layout.tensor_parallel: the engine gives every expert as many "
                                 "tokens, but 1 tokens that choose 2 experts each do not spread "
                                 "evenly over 4"});
    plan.layout.micro_batch = 2;
    CHECK(problems().empty());
  }
  SECTION("imbalance") {
    plan.layout.expert_imbalance = 1.25;
    CHECK(problems() == Problems{"layout.expert_imbalance is 1.25: the engine gives every expert "
                                 "as many tokens; allowed: 1"});
  }
  SECTION("dispatchers and capacities") {
    plan.layout.token_dispatcher = sim::TokenDispatcher::deepep;
    plan.layout.expert_capacity = 1.25;
    CHECK(problems() ==
          Problems{"layout.moe.capacity_factor is 1.25: the engine drops no token and pads no "
                   "expert where it gives all as many; allowed: 0, or training.routing softmax or "
                   "sigmoid",
                   "layout.moe.dispatcher is deepep: the engine sends a copy for each choice; "
                   "allowed: alltoall"});
  }
  SECTION("a distribution") {
    plan.layout.expert_load_cv = 0.5;
    CHECK(problems() ==
          Problems{"layout.moe.load: the engine gives every expert as many tokens; allowed: even, "
                   "or training.routing softmax or sigmoid, which choose by the scores of the "
                   "router"});
  }
  SECTION("by scores all that is executed, but places that are no whole number") {
    const auto by_scores = [&] {
      return engine_problems(plan, sim::build_transformer(shape), true);
    };
    plan.layout.sequence_length = 7;
    plan.layout.expert_imbalance = 2;
    plan.layout.expert_load_cv = 0.5;
    CHECK(by_scores().empty());
    plan.layout.expert_capacity = 1;
    CHECK(by_scores() ==
          Problems{"layout.moe.capacity_factor is 1: of 7 tokens that choose 2 of 4 experts each, "
                   "an expert takes 3.5 of a rank's; allowed: factors with which that is a whole "
                   "number, 1 or more"});
    plan.layout.expert_capacity = 2;
    CHECK(by_scores().empty());
  }
  SECTION("biases") {
    shape.mlp_bias = true;
    const Problems refused{"tiny: the engine does not execute biases of experts"};
    CHECK(problems() == refused);
    sim::Model megatron = sim::build_transformer(shape);
    run_with(sim::framework_of(sim::FrameworkName::megatron), megatron);
    CHECK(engine_problems(plan, megatron) == refused);
  }
}

TEST_CASE("lists of layers and diffusion transformers are refused", "[engine_problems]") {
  CHECK(problems_of(sim::test::equal_layers({})) ==
        Problems{sim::test::equal_layers({}).name +
                 " is a list of layers: the engine executes transformers"});
  sim::Model diffusion = sim::build_transformer(plain_shape());
  diffusion.is_diffusion = true;
  CHECK(problems_of(diffusion) ==
        Problems{diffusion.name + ": the engine executes no diffusion transformers"});
}

TEST_CASE("GEMMs in 4 bits are refused, and sizes that blocks do not divide", "[engine_problems]") {
  sim::Model model = sim::build_transformer(plain_shape());
  CHECK(problems_of(model, sim::DType::fp8).empty());
  const Problems narrow = problems_of(model, sim::DType::nvfp4);
  CHECK(narrow.size() == 1);
  CHECK_THAT(narrow.at(0), Catch::Matchers::StartsWith("layout.compute_dtype: the engine runs fp8 "
                                                       "GEMMs of dense layers; allowed with them"));
  model.execution.eight_bit = sim::EightBit::transformer_engine_blockwise;
  const Problems sizes = problems_of(model, sim::DType::fp8);
  CHECK(sizes.size() == 4);
  CHECK_THAT(sizes.at(3), Catch::Matchers::StartsWith("operator mlp_down: its GEMMs in 8 bits need "
                                                      "tokens, inputs and outputs of a rank that "
                                                      "are multiples of 128; they are "));
}

TEST_CASE("recomputation by operators is refused where parts of outputs are kept",
          "[engine_problems]") {
  sim::Model model = sim::build_transformer(plain_shape());
  sim::Plan plan;
  plan.layout.compute_dtype = sim::DType::fp32;
  plan.layout.recompute = sim::Recompute::operators;
  CHECK(engine_problems(plan, model).empty());
  model.execution.keeps_unread_outputs = true;
  CHECK(engine_problems(plan, model) ==
        Problems{"layout.recompute: by operators the engine keeps the outputs that a gradient "
                 "needs, each as a whole; allowed: recompute none, selective, full, or "
                 "framework.keeps_unread_outputs, keeps_gathered_inputs and copies_attention: "
                 "false"});
}

TEST_CASE("kernels that the engine has not are refused, not run as others", "[engine_problems]") {
  sim::Model model = sim::build_transformer(plain_shape());
  sim::Plan plan;
  plan.layout.compute_dtype = sim::DType::fp32;
  SECTION("logits that are gathered") {
    model.execution.gathers_logits = true;
  }
  SECTION("logits that are held beside their gradients") {
    model.execution.held_logits = 2;
  }
  CHECK(engine_problems(plan, model) ==
        Problems{"framework: the engine does not gather or hold logits, send whole tensors between "
                 "stages, recompute the head, or take the loss in chunks; allowed: parallel_output "
                 "true, sends_whole and recomputes_head false, held_logits up to 1, loss other "
                 "than chunked"});
}

}  // namespace real::test
