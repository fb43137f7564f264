// Formats by module: what is cast, kept and multiplied in which format.
#include "sim/model/transformer.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

using Modules = std::vector<LinearModule>;

Model mxfp8(Model model) {
  model.execution.eight_bit = EightBit::transformer_engine_mxfp8;
  return model;
}

Layout layout_in(DType compute, int tensor = 1) {
  Layout layout = test::layout_for(tensor, 2, 1, 2);
  layout.sequence_parallel = tensor > 1;
  layout.compute_dtype = compute;
  layout.zero_stage = 1;
  return layout;
}

const ShardedOp& named(const ShardedModel& sharded, std::string_view name) {
  for (const ShardedBlock& block : sharded.blocks)
    for (const ShardedOp& op : block.ops)
      if (op.op->name == name) return op;
  FAIL(std::string{name});
  return sharded.blocks.front().ops.front();
}

Bytes weights_of(const Model& model, const Layout& layout) {
  const Plan plan = test::checked_plan(model, layout);
  Bytes sum{};
  for (const Buffer& buffer : plan.programs.front().buffers)
    if (buffer.category == BufferCategory::weights) sum += buffer.size;
  return sum;
}

std::string problem(const Model& model, const Layout& layout) {
  const std::vector<LayoutProblem> problems = layout_problems(layout, model);
  return problems.size() == 1 ? problems.front().key + ": " + problems.front().what
                              : std::to_string(problems.size()) + " problems";
}

}  // namespace

TEST_CASE("modules in 16 bits are not cast, and have no copy of their weights", "[plan]") {
  const Model model = mxfp8(test::transformer(1));
  const Layout all = layout_in(DType::fp8);
  Layout some = all;
  some.bf16_modules = {LinearModule::qkv, LinearModule::mlp_down};
  const ShardedModel cast = shard(model, all), mixed = shard(model, some);
  for (const char* name : {"qkv", "mlp_down"}) {
    CAPTURE(name);
    const ShardedOp &before = named(cast, name), &after = named(mixed, name);
    CHECK(before.forward->dtype == DType::fp8);
    CHECK(after.forward->dtype == DType::bf16);
    CHECK(after.weight_gradient->dtype == DType::bf16);
    CHECK_FALSE(after.encode_input);
    CHECK_FALSE(after.encode_weight);
    CHECK(after.encoded_elements == 0);
    // Kept in 16 bits, where it was one byte and 1/32 for its scale.
    CHECK(static_cast<double>(before.saved.count()) ==
          Approx(static_cast<double>(after.saved.count()) * (1 + 1.0 / 32) / 2));
  }
  CHECK(named(mixed, "mlp_up").forward->dtype == DType::fp8);
  // Two orders of a byte each, and their scales.
  std::int64_t elements = 0;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      if (op.name == "qkv" || op.name == "mlp_down") elements += op.weights;
  CHECK((weights_of(model, all) - weights_of(model, some)).count() == elements * 2 * 33 / 32);
}

TEST_CASE("modules in 8 bits beside NVFP4 are cast as MXFP8 is", "[plan]") {
  const Model model = mxfp8(test::transformer(1));
  Layout layout = layout_in(DType::nvfp4, 2);
  layout.fp8_modules = {LinearModule::mlp_down};
  const ShardedModel mixed = shard(model, layout);
  const ShardedModel eight = shard(model, layout_in(DType::fp8, 2));
  const ShardedOp &here = named(mixed, "mlp_down"), &there = named(eight, "mlp_down");
  CHECK(here.forward->dtype == DType::fp8);
  CHECK(here.forward->scales == ProductScales::micro);
  CHECK(here.encode_input->bytes == there.encode_input->bytes);
  CHECK(here.encode_weight->bytes == there.encode_weight->bytes);
  CHECK(here.saved == there.saved);
  CHECK(named(mixed, "qkv").forward->dtype == DType::nvfp4);
  // With parameters of 4 bits those of the module are in 16, with two copies beside.
  layout.eight_bit_parameters = true;
  Layout none = layout;
  none.fp8_modules.clear();
  std::int64_t elements = 0;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      if (op.name == "mlp_down") elements += op.weights / 2;  // of two tensor ranks
  // In place of both orders of half a byte, with a byte of scale for 16 elements in each.
  CHECK((weights_of(model, layout) - weights_of(model, none)).count() ==
        elements * 2 + elements * 2 * 33 / 32 - elements * 18 / 16);
}

TEST_CASE("the head in MXFP8 casts its weight once, for all that use it", "[plan]") {
  for (const int tensor : {1, 2}) {
    CAPTURE(tensor);
    TransformerShape shape = *test::transformer(1).shape;
    shape.tied_head = false;
    shape.mtp_layers = 1;
    const Model model = mxfp8(build_transformer(shape));
    const Layout plain = layout_in(DType::fp8, tensor);
    Layout layout = plain;
    layout.fp8_modules = {LinearModule::head};
    const ShardedModel sharded = shard(model, layout), before = shard(model, plain);
    const ShardedOp& head = named(sharded, "head");
    CHECK(named(before, "head").forward->dtype == DType::bf16);
    CHECK(head.forward->dtype == DType::fp8);
    CHECK(head.encode_weight);
    CHECK_FALSE(named(sharded, "mtp.head").encode_weight);
    CHECK(named(sharded, "mtp.head").forward->dtype == DType::fp8);
    // A rank casts the input of its own tokens, and gathers 8 bits.
    CHECK(head.encode_input->bytes.count() * tensor ==
          named(shard(model,
                      [&] {
                        Layout whole = layout_in(DType::fp8);
                        whole.fp8_modules = {LinearModule::head};
                        return whole;
                      }()),
                "head")
              .encode_input->bytes.count());
    const std::int64_t copy = head.encoded_elements * 2 * 33 / 32;
    CHECK((weights_of(model, layout) - weights_of(model, plain)).count() == copy);
  }
}

TEST_CASE("formats by module that are none are refused by name", "[plan]") {
  const Model model = mxfp8(test::transformer(1));
  Layout layout = layout_in(DType::bf16);
  layout.bf16_modules = {LinearModule::qkv};
  CHECK(problem(model, layout) ==
        "bf16_modules: bf16_modules is given with bf16 products; allowed with: fp8, nvfp4");
  layout.compute_dtype = DType::fp8;
  CHECK(problem(model, layout) == "0 problems");
  layout.bf16_modules = {LinearModule::mamba_in};
  CHECK(problem(model, layout) ==
        "bf16_modules: bf16_modules has mamba_in, which test-transformer has not; allowed: qkv, "
        "attention_projection, mlp_up, mlp_down, head");
  layout.bf16_modules = {LinearModule::head};
  CHECK(problem(model, layout) ==
        "bf16_modules: bf16_modules has head, which is in 16 bits where fp8_modules does not name "
        "it");
  layout.bf16_modules.clear();
  layout.fp8_modules = {LinearModule::qkv};
  CHECK(problem(model, layout) ==
        "fp8_modules: fp8_modules has qkv, and compute_dtype is fp8; allowed: the head alone");
  layout.compute_dtype = DType::nvfp4;
  Model delayed = model;
  delayed.execution.eight_bit = EightBit::transformer_engine;
  CHECK(problem(delayed, layout)
            .starts_with("fp8_modules: fp8_modules has qkv with framework.fp8 "
                         "transformer_engine; formats by module have no"));
  layout.bf16_modules = {LinearModule::qkv};
  CHECK(problem(model, layout) ==
        "bf16_modules: bf16_modules has qkv, which is in fp8_modules, too");
  Model torchao = model;
  torchao.execution.eight_bit = EightBit::torchao_mxfp8;
  layout = layout_in(DType::fp8);
  layout.bf16_modules = {LinearModule::qkv};
  CHECK(problem(torchao, layout) ==
        "bf16_modules: bf16_modules is Transformer Engine's, and framework.fp8 is torchao_mxfp8; "
        "allowed: []");
}

TEST_CASE("plans with formats by module are sound", "[plan]") {
  for (const Model& base : {test::transformer(1), test::mixture(1)}) {
    const Model model = mxfp8(base);
    for (const int tensor : {1, 2})
      for (const DType compute : {DType::fp8, DType::nvfp4})
        for (const bool own : {false, true}) {
          CAPTURE(base.name, tensor, static_cast<int>(compute), own);
          Layout layout = layout_in(compute, tensor);
          layout.eight_bit_parameters = own;
          layout.bf16_modules = {LinearModule::attention_projection};
          if (compute == DType::nvfp4)
            layout.fp8_modules = {base.has_experts() ? LinearModule::expert_down
                                                     : LinearModule::mlp_down};
          test::checked_plan(model, layout);
        }
  }
}
