#include <functional>
#include <string>

#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

std::string problems_of(const Layout& layout, const Model& model) {
  std::string text;
  for (const LayoutProblem& problem : layout_problems(layout, model)) {
    text += problem.key + ": " + problem.what + "\n";
  }
  return text;
}

struct Case {
  std::function<void(Layout&)> change;
  std::string expected;
};

}  // namespace

TEST_CASE("What a layout gets wrong is said with the key and what is allowed", "[plan][problems]") {
  const Model model = test::gpt({.layers = 8, .hidden = 64, .heads = 4});
  const std::vector<Case> cases{
      {[](Layout&) {}, ""},
      {[](Layout& l) { l.tensor_parallel = 3; },
       "tensor_parallel: tensor_parallel is 3, which does not divide 4 heads; allowed: 1, 2, 4\n"
       "tensor_parallel: tensor_parallel is 3, which does not divide 4 key/value heads; allowed: "
       "1, 2, 4\n"
       "tensor_parallel: tensor_parallel is 3, which does not divide 256 feed-forward features; "
       "allowed: 1, 2, 4\n"
       "tensor_parallel: tensor_parallel is 3, which does not divide the 64 features of "
       "projection\n"
       "tensor_parallel: tensor_parallel is 3, which does not divide the 256 features of mlp_up\n"
       "tensor_parallel: tensor_parallel is 3, which does not divide the 256 features of "
       "mlp_down\n"},
      {[](Layout& l) { l.tensor_parallel = 0; },
       "tensor_parallel: tensor_parallel is 0; allowed: 1 or more\n"},
      {[](Layout& l) { l.placement.pop_back(); },
       "placement: placement names pp 0 times; it must name tp, cp, dp and pp once each (cp only "
       "with context_parallel)\n"},
      {[](Layout& l) { l.data_parallel = 3; },
       "global_batch: global_batch is 8, no multiple of micro_batch x data_parallel = 1 x 3 = 3\n"},
      {[](Layout& l) { l.data_parallel = 1 << 30; },
       "data_parallel: tensor_parallel x context_parallel x pipeline_parallel x data_parallel is "
       "1073741824 ranks; allowed: up to 1048576\n"},
      {[](Layout& l) { l.sequence_parallel = true; },
       "sequence_parallel: sequence_parallel needs tensor_parallel of 2 or more; it is 1\n"},
      {[](Layout& l) {
         l.sequence_parallel = true;
         l.tensor_parallel = 4;
         l.sequence_length = 126;
       },
       "sequence_parallel: sequence_length is 126, which tensor_parallel = 4 does not divide; "
       "sequence_parallel splits the tokens\n"},
      {[](Layout& l) { l.virtual_stages = 2; },
       "virtual_stages: virtual_stages is 2, but schedule 1f1b has one model chunk per stage; "
       "allowed: 1, or schedule interleaved\n"},
      {[](Layout& l) { l.schedule = Schedule::interleaved; },
       "schedule: schedule interleaved needs pipeline_parallel of 2 or more; it is 1\n"},
      {[](Layout& l) {
         l.schedule = Schedule::interleaved;
         l.pipeline_parallel = 4;
         l.global_batch = 6;
       },
       "global_batch: 6 micro-batches (global_batch / micro_batch / data_parallel), no multiple "
       "of pipeline_parallel = 4, as schedule interleaved needs\n"},
      {[](Layout& l) {
         l.schedule = Schedule::v_half;
         l.overlap_pipeline = false;
       },
       "overlap_pipeline: overlap.pipeline is false, but under schedule v-half ranks that waited "
       "for their sends would wait for each other; allowed: true\n"
       "virtual_stages: virtual_stages is 1, but schedule v-half has two model chunks per stage; "
       "allowed: 2\n"
       "schedule: schedule v-half needs pipeline_parallel of 2 or more; it is 1\n"},
      {[](Layout& l) {
         l.schedule = Schedule::dual_pipe_v;
         l.pipeline_parallel = 2;
         l.virtual_stages = 2;
         l.global_batch = 3;
       },
       "global_batch: 3 micro-batches (global_batch / micro_batch / data_parallel); schedule "
       "dualpipe-v needs 4 or more\n"},
      {[](Layout& l) {
         l.schedule = Schedule::interleaved_zb;
         l.pipeline_parallel = 2;
       },
       "virtual_stages: virtual_stages is 1, but schedule interleaved-zb has several model chunks "
       "per stage; allowed: 2 or more\n"},
      {[](Layout& l) { l.pipeline_parallel = 3; },
       "pipeline_parallel: 8 layers do not divide over 3 model chunks (pipeline_parallel x "
       "virtual_stages); list layers_per_chunk, 3 entries\n"},
      {[](Layout& l) {
         l.pipeline_parallel = 2;
         l.layers_per_chunk = {4, 3, 1};
       },
       "layers_per_chunk: layers_per_chunk has 3 entries; pipeline_parallel x virtual_stages is "
       "2\n"},
      {[](Layout& l) {
         l.pipeline_parallel = 3;
         l.layers_per_chunk = {8, 0, 1};
       },
       "layers_per_chunk: entry 2 of layers_per_chunk is 0; allowed: 1 or more\n"
       "layers_per_chunk: layers_per_chunk sums to 9; test-gpt has 8 layers\n"},
      {[](Layout& l) { l.pipeline_runs = 2; },
       "pipeline_runs: pipeline_runs is 2, but there is no pipeline: pipeline_parallel is 1; "
       "allowed: 1\n"},
      {[](Layout& l) {
         l.pipeline_parallel = 2;
         l.pipeline_runs = 3;
       },
       "pipeline_runs: pipeline_runs is 3, which does not divide 8 micro-batches; allowed: 1, 2, "
       "4, 8\n"},
      {[](Layout& l) {
         l.pipeline_parallel = l.virtual_stages = 2;
         l.schedule = Schedule::interleaved;
         l.pipeline_runs = 8;
       },
       "global_batch: 1 micro-batches (global_batch / micro_batch / data_parallel / "
       "pipeline_runs), no multiple of pipeline_parallel = 2, as schedule interleaved needs\n"},
      {[](Layout& l) { l.zero_stage = 4; }, "zero_stage: zero_stage is 4; allowed: 0, 1, 2, 3\n"},
      {[](Layout& l) {
         l.data_parallel = 8;
         l.zero_stage = 3;
         l.shard_group = 3;
       },
       "shard_group: shard_group is 3, which does not divide data_parallel = 8; allowed: 1, 2, 4, "
       "8, or 0 for all\n"},
      {[](Layout& l) {
         l.zero_stage = 2;
         l.schedule = Schedule::zb_h1;
       },
       "zero_stage: zero_stage is 2, but schedule zb-h1 keeps full gradients; allowed: 0, 1, "
       "or 3 with framework.defer_gradient_sync\n"},
      {[](Layout& l) { l.recompute_every = 0; },
       "recompute_every: recompute_every is 0; allowed: 1 or more\n"},
      {[](Layout& l) { l.recompute_every = 2; },
       "recompute_every: recompute_every is 2, but recompute is none; allowed: 1, or recompute "
       "full\n"},
      {[](Layout& l) { l.bucket = Bytes{0}; }, "bucket: bucket is 0 bytes; allowed: 1 B or more\n"},
      {[](Layout& l) { l.gradient_dtype = DType::fp8; },
       "gradient_dtype: gradient_dtype is fp8; allowed: fp32, bf16, fp16 (a format that is "
       "stored)\n"},
      {[](Layout& l) { l.master_weights = false; },
       "master_weights: master_weights is false, but the weights are bf16 and the moments fp32; "
       "without fp32 copies an optimizer needs activation_dtype fp32, or moment_dtype bf16\n"},
      {[](Layout& l) { l.moment_dtype = DType::tf32; },
       "moment_dtype: moment_dtype is tf32; allowed: fp32, bf16, fp16\n"},
      {[](Layout& l) {
         l.moment_dtype = DType::fp8;
         l.optimizer = OptimizerKind::lion;
       },
       "moment_dtype: moment_dtype is fp8; allowed: fp32, bf16, fp16, and fp8 with adam in one "
       "pass (framework.optimizer fused), master_weights, without offload, compression and "
       "local_steps\n"},
  };
  for (const Case& tried : cases) {
    Layout layout = test::layout_for(1, 1, 1, 8);
    tried.change(layout);
    CHECK(problems_of(layout, model) == tried.expected);
  }
}

TEST_CASE("Products are cut as Transformer Engine or PyTorch's compiler cuts them",
          "[plan][problems]") {
  const auto problems = [](const auto& change) {
    Model model = test::transformer(1);
    Layout layout = test::layout_for(2, 1, 1, 8);
    layout.sequence_parallel = layout.overlap_tensor_products = true;
    change(model, layout);
    return problems_of(layout, model);
  };
  CHECK(problems([](Model&, Layout&) {}).empty());
  CHECK(problems([](Model& model, Layout&) { model.execution.symmetric_memory = true; }).empty());
  CHECK(problems([](Model& model, Layout& layout) {
          model.execution.symmetric_memory = true;
          layout.recompute = Recompute::operators;
        }).empty());
  CHECK(problems([](Model&, Layout& layout) { layout.sequence_parallel = false; }) ==
        "overlap: overlap.tensor_products needs sequence_parallel, which is false\n");
  CHECK(problems([](Model& model, Layout&) { model.execution.copies_tokens = true; }) ==
        "overlap: overlap.tensor_products is Transformer Engine's or AsyncTP; allowed with "
        "frameworks megatron and torchtitan\n");
  CHECK(problems([](Model& model, Layout&) {
          model.execution.symmetric_memory = true;
          for (ModelOp& op : model.layers[0].ops)
            if (op.name == "mlp_up") op.products = 2;
        }) ==
        "overlap: overlap.tensor_products cuts linears of one product, and mlp_up has 2 "
        "(joint_gate: false); torchtitan's own are apart by separate_products\n");
}

TEST_CASE("A list of layers has no tensor split and no tokens", "[plan][problems]") {
  Layout layout = test::layout_for(2, 1, 1, 1);
  layout.recompute = Recompute::selective;
  CHECK(problems_of(layout, test::layer_list(2, 10)) ==
        "tensor_parallel: tensor_parallel is 2, but test-list is a list of layers, which has no "
        "tensor split; allowed: 1\n"
        "sequence_length: sequence_length is 128, but test-list is a list of layers; allowed: 1\n"
        "recompute: recompute is selective, but test-list is a list of layers, which has no "
        "attention; allowed: none, full\n");
}

TEST_CASE("Sequences beyond the model's positions are refused", "[plan][problems]") {
  Model model = test::gpt({});
  model.max_sequence = 64;
  CHECK(problems_of(test::layout_for(1, 1, 1, 1), model) ==
        "sequence_length: sequence_length is 128, but test-gpt has positions for 64 tokens\n");
  model.shape.emplace().positions = Positions::rotary;
  CHECK(problems_of(test::layout_for(1, 1, 1, 1), model).empty());
  model.max_sequence = 0;
  model.fixed_sequence = 197;
  CHECK(problems_of(test::layout_for(1, 1, 1, 1), model) ==
        "sequence_length: sequence_length is 128, but test-gpt always has 197 tokens\n");
}

TEST_CASE("Absurd sizes are refused before anything is built", "[plan][problems]") {
  const Model model = test::gpt({});
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.sequence_length = std::int64_t{1} << 40;
  CHECK(problems_of(layout, model) ==
        "micro_batch: a micro-batch of 1 x 1099511627776 tokens has a tensor of more than 1e16 "
        "elements\n");
  layout = test::layout_for(1, 1, 1, 900'000);
  CHECK(problems_of(layout, model) ==
        "global_batch: about 180 million operators per rank (900000 micro-batches); allowed: up to "
        "20 million\n");
}

TEST_CASE("Programs that no machine holds are refused before they are planned",
          "[plan][problems]") {
  // About 17 million operators a stage, 4.4 thousand million in all: 740 GB.
  const Model model = test::gpt({.layers = 256});
  const std::string text = problems_of(test::layout_for(1, 1, 256, 300'000), model);
  CAPTURE(text);
  CHECK(text.starts_with("global_batch: about "));
  CHECK(text.find(" operators in 256 stages (300000 micro-batches), of ") != std::string::npos);
  CHECK(text.find("allowed here: up to ") != std::string::npos);
}

TEST_CASE("Context parallelism needs chunks of whole sequences and a flash kernel",
          "[plan][problems]") {
  const Model model = test::gpt({.layers = 8, .hidden = 64, .heads = 4});
  Model bidirectional = model;
  bidirectional.attention.causal = false;
  const std::vector<Case> cases{
      {[](Layout&) {}, ""},
      {[](Layout& l) { l.context_parallel = 0; },
       "context_parallel: context_parallel is 0; allowed: 1 or more\n"},
      {[](Layout& l) { l.sequence_length = 124; },
       "sequence_length: sequence_length is 124, no multiple of 2 x context_parallel = 8 (two "
       "chunks a rank, which balance a causal mask)\n"},
      {[](Layout& l) { l.attention = AttentionKernel::unfused; },
       "attention: attention is unfused, but context_parallel is 4; allowed: flash, flash-1, "
       "flash-2\n"},
      {[](Layout& l) {
         l.tensor_parallel = 4;
         l.sequence_parallel = true;
         l.sequence_length = 120;
       },
       "sequence_parallel: sequence_length / context_parallel is 30, which tensor_parallel = 4 "
       "does not divide; sequence_parallel splits the tokens\n"},
      {[](Layout& l) {
         l.zero_stage = 3;
         l.shard_group = 3;
       },
       "shard_group: shard_group is 3, which does not divide data_parallel x context_parallel = 8; "
       "allowed: 1, 2, 4, 8, or 0 for all\n"},
      {[](Layout& l) {
         l.placement = {Dimension::tensor, Dimension::data, Dimension::pipeline};
       },
       "placement: placement names cp 0 times; it must name tp, cp, dp and pp once each (cp only "
       "with context_parallel)\n"},
  };
  for (const Case& tried : cases) {
    Layout layout = test::layout_for(1, 2, 1, 8);
    layout.context_parallel = 4;
    tried.change(layout);
    CHECK(problems_of(layout, model) == tried.expected);
  }
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.context_parallel = 4;
  layout.sequence_length = 126;
  CHECK(problems_of(layout, bidirectional) ==
        "sequence_length: sequence_length is 126, no multiple of context_parallel = 4\n");
  layout.sequence_length = 1;
  CHECK(problems_of(layout, test::layer_list(2, 10)) ==
        "context_parallel: context_parallel is 4, but test-list is a list of layers, which has no "
        "sequence to split; allowed: 1\n");
}

TEST_CASE("An all-to-all over context ranks needs heads for all of them", "[plan][problems]") {
  Model model = test::gpt({.layers = 8, .hidden = 64, .heads = 8});
  const auto problems = [&](int tensor, int context, std::int64_t keys) {
    Layout layout = test::layout_for(tensor, 1, 1, 8);
    layout.context_parallel = context;
    layout.context_exchange = ContextExchange::all_to_all;
    model.attention.kv_heads = keys;
    return problems_of(layout, model);
  };
  CHECK(problems(2, 4, 8).empty());
  CHECK(problems(2, 2, 4).empty());
  CHECK(problems(2, 4, 4) ==
        "context_exchange: context_exchange is all_to_all, but tensor_parallel x context_parallel "
        "= 2 x 4 does not divide 8 heads and 4 key/value heads; allowed: context_parallel 1, 2, or "
        "context_exchange ring, all_gather\n");
  CHECK(problems(1, 16, 8) ==
        "context_exchange: context_exchange is all_to_all, but tensor_parallel x context_parallel "
        "= 1 x 16 does not divide 8 heads and 8 key/value heads; allowed: context_parallel 1, 2, "
        "4, 8, or context_exchange ring, all_gather\n");
  // With one context rank nothing is exchanged.
  CHECK(problems(1, 1, 8).empty());
  model.execution.context = ContextForm::compiled;
  CHECK(problems(1, 2, 8) ==
        "context_exchange: context_exchange is all_to_all, but PyTorch's context_parallel "
        "(compiled) has none; allowed: ring, all_gather\n");
}

TEST_CASE("A token that one context-parallel rank alone would hold is refused",
          "[plan][problems]") {
  Model model = test::gpt({});
  model.output.ops.front().once_per_sequence = true;
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.context_parallel = 2;
  CHECK(problems_of(layout, model) == "context_parallel: context_parallel is 2, but " +
                                          model.output.ops.front().name +
                                          " of test-gpt reads one token of each sequence, which "
                                          "one rank alone would hold; allowed: 1\n");
}
