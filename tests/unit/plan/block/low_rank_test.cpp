// Low-rank adapters: what is trained, what is frozen, and what both cost.
#include "sim/plan/sharding/low_rank.hpp"

#include <algorithm>
#include <cmath>

#include "sim/framework/presets/preset.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/block/adapters.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/framework_programs.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/random_layout.hpp"

using namespace sim;
using namespace sim::test;

TEST_CASE("adapters have r (in + out) parameters each, and alone have states", "[plan][lora]") {
  const Model model = test::transformer(1);
  std::int64_t expected = 0;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      if (op.kind == ModelOpKind::linear) expected += rank * (op.in_features + op.out_features);
  const Layout layout = lora();
  CHECK(adapter_parameters(model, layout) == expected);
  const Program program = test::checked_plan(model, layout).programs[0];
  CHECK(bytes_of(program, BufferCategory::optimizer) == 12 * expected);
  CHECK(bytes_of(program, BufferCategory::gradients) == 2 * expected);
  CHECK(bytes_of(program, BufferCategory::weights) == 2 * (model.parameters() + expected));
}

TEST_CASE("frozen weights have no gradient: four products of six", "[plan][lora]") {
  const Model model = test::transformer(1);
  const Program program = test::checked_plan(model, lora()).programs[0];
  CHECK(count(program, Action::weight_gradient) == 0);
  const double forward = flops_of(program, Action::forward);
  CHECK(flops_of(program, Action::input_gradient) == Approx(forward));
  const double adapters = 2.0 * 128 * 2 * static_cast<double>(adapter_parameters(model, lora()));
  CHECK(flops_of(program, Action::adapt) == Approx(3 * adapters));
}

TEST_CASE("FLOPs of a model count frozen weights twice and adapters three times", "[plan][lora]") {
  const Model model = test::transformer(1);
  Layout layout = lora();
  const auto count_of = [&](const Layout& one) {
    return model_flops(model, one, AttentionCount::full).count();
  };
  layout.lora_rank = 0;
  const double whole = count_of(layout);
  const double twice = count_of(lora());
  Layout wider = lora();
  wider.lora_rank = 2 * rank;
  const double adapters = count_of(wider) - twice;  // of rank 8
  const double tokens = 128 * 2;
  CHECK(adapters ==
        Approx(6 * tokens * static_cast<double>(adapter_parameters(model, lora()))).epsilon(1e-12));
  CHECK(twice - adapters < whole);
  CHECK(twice - adapters > 2.0 / 3 * whole);  // attention is whole
}

TEST_CASE("modules: adapters where they are asked for, inputs kept for them alone",
          "[plan][lora]") {
  const Model model = test::transformer(1);
  Layout layout = lora();
  layout.lora_modules = {LoraModule::linear_qkv};
  const Program some = test::checked_plan(model, layout).programs[0];
  const Program all = test::checked_plan(model, lora()).programs[0];
  CHECK(4 * count(some, Action::adapt) == count(all, Action::adapt));
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      CHECK(has_adapter(layer, op, layout) == (op.name == "qkv"));
}

TEST_CASE("tensor ranks exchange what is between the factors", "[plan][lora]") {
  const Model model = test::transformer(1);
  const Program split = test::checked_plan(model, lora(2)).programs[0];
  const Program whole = test::checked_plan(model, lora(1)).programs[0];
  const int linears = 4 * 8 * 2;  // of two micro-batches
  CHECK(count(whole, Action::exchange_adapted) == 0);
  // Forward and backward once each, and the outputs of rows both ways.
  CHECK(count(split, Action::exchange_adapted) == linears * 2 + linears);
  const std::int64_t states = bytes_of(split, BufferCategory::optimizer);
  CHECK(2 * states == bytes_of(whole, BufferCategory::optimizer));
}

TEST_CASE("DoRA trains a norm for each output, and keeps two outputs more", "[plan][lora]") {
  const Model model = test::transformer(1);
  Layout layout = lora();
  const Program plain = test::checked_plan(model, layout).programs[0];
  layout.lora_magnitudes = true;
  const Program program = test::checked_plan(model, layout).programs[0];
  std::int64_t outputs = 0;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      if (op.kind == ModelOpKind::linear) outputs += op.out_features;
  CHECK(bytes_of(program, BufferCategory::optimizer) ==
        bytes_of(plain, BufferCategory::optimizer) + 12 * outputs);
  // Forward two GEMMs and the norms more, backward one kernel.
  CHECK(count(program, Action::adapt) == count(plain, Action::adapt) + 2 * (4 * 4 * 8));
  CHECK(flops_of(program, Action::adapt) > flops_of(plain, Action::adapt));
  layout.lora_dropout = 0.1;
  CHECK(says(layout, model, "lora.magnitudes"));
}

TEST_CASE("an embedding and a head that are trained beside adapters", "[plan][lora]") {
  const Model model = test::llama_of(preset_of(PresetName::transformers).framework);
  REQUIRE_FALSE(model.tied_embedding);
  Layout layout = lora();
  const Program plain = test::checked_plan(model, layout).programs[0];
  const std::int64_t table = model.vocabulary * model.hidden;
  const auto more = [&](const Layout& changed, BufferCategory category) {
    return bytes_of(test::checked_plan(model, changed).programs[0], category) -
           bytes_of(plain, category);
  };
  layout.trains_head = true;
  CHECK(more(layout, BufferCategory::optimizer) == 12 * table);
  CHECK(more(layout, BufferCategory::weights) == 2 * table);
  layout.trains_embedding = true;
  CHECK(more(layout, BufferCategory::optimizer) == 24 * table);
  const Model tied = test::transformer(0);
  if (tied.tied_embedding) CHECK(says(layout, tied, "lora.embedding"));
}

TEST_CASE("adapters: what is not modelled is refused by key", "[plan][lora]") {
  const Model model = test::transformer(1);
  Layout layout = lora(4);
  layout.lora_rank = 6;
  CHECK(says(layout, model, "lora.rank"));
  layout = lora();
  layout.lora_rank = 0;
  layout.frozen_format = FrozenFormat::nf4;
  CHECK(says(layout, model, "lora.rank"));
  layout = lora();
  layout.lora_modules.clear();
  CHECK(says(layout, model, "lora.modules"));
  layout = lora();
  layout.frozen_format = FrozenFormat::nf4;
  layout.compute_dtype = DType::fp8;
  CHECK(says(layout, model, "lora.base"));
  layout = lora();
  layout.recompute = Recompute::operators;
  CHECK(says(layout, model, "recompute"));
}

TEST_CASE("adapters give sound plans on every family, group and stage", "[plan][lora]") {
  for (int kind = 0; kind < test::transformer_kinds; ++kind)
    for (const int tensor : {1, 2})
      for (const int pipeline : {1, 2})
        for (const int zero : {0, 1, 2, 3}) {
          Layout layout = test::layout_for(tensor, 2, pipeline, 4);
          layout.lora_rank = rank;
          layout.zero_stage = pipeline > 1 && zero == 2 ? 1 : zero;
          layout.sequence_parallel = tensor > 1;
          layout.recompute = zero == 2 ? Recompute::full : Recompute::none;
          CAPTURE(kind, tensor, pipeline, zero);
          test::checked_plan(test::transformer(kind), layout);
          Model eager = test::transformer(kind);  // as PyTorch's layers run
          eager.execution.stops_recomputation = eager.execution.separate_products = true;
          eager.execution.adds_gradients = true;
          if (tensor == 1) test::checked_plan(eager, layout);
        }
}

TEST_CASE("fp32 adapters cast what goes in and the gradient that comes out", "[plan][lora]") {
  Model apart = test::transformer(1);
  apart.execution.separate_products = true;
  Model casts = apart;
  casts.execution.casts_adapters = true;
  const auto traffic = [&](const Model& model, std::string_view name) {
    const Program program = test::checked_plan(model, lora()).programs[0];
    std::int64_t bytes = 0, launches = 0;
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      if (program.action[op] != Action::adapt || program.name(OpId{op}) != name) continue;
      if (program.kind[op] != OpKind::elementwise || program.pass[op] != Pass::forward) continue;
      bytes += program.kernels[program.work[op]].bytes.count();
      launches += program.kernels[program.work[op]].launches;
    }
    return std::pair{bytes, launches};
  };
  const auto op_of = [&](std::string_view name) {
    return *std::ranges::find(apart.layers[0].ops, name, &ModelOp::name);
  };
  const Layout layout = lora();
  const std::int64_t passes = 8 * layout.micro_batches();  // of 8 layers
  const std::int64_t tokens = layout.micro_batch * layout.sequence_length;
  for (const auto& [linear, linears] : {std::pair{"qkv", 3}, std::pair{"mlp_down", 1}}) {
    const auto plain = traffic(apart, std::string{linear} + ".adapter");
    const auto cast = traffic(casts, std::string{linear} + ".adapter");
    // 2 + 4 bytes an element to fp32, 4 + 2 back; of the input, of A and of B.
    CHECK(cast.first - plain.first == passes * linears * tokens * op_of(linear).in_features * 12);
    CHECK(cast.second - plain.second == passes * linears * 4);
  }
}

TEST_CASE("a recomputation that ends early leaves out what stands behind the last tensor to keep",
          "[plan][lora]") {
  const Model model = test::transformer(1);  // 8 layers
  const auto again = [&](const Layout& asked, bool early, std::string_view name) {
    Layout layout = asked;
    layout.recompute = Recompute::full;
    Model run = model;
    run.execution.stops_recomputation = early;
    const Program program = test::checked_plan(run, layout).programs[0];
    int count = 0;
    for (std::uint32_t op = 0; op < program.size(); ++op)
      count += program.pass[op] == Pass::recompute && program.name(OpId{op}) == name;
    return count;
  };
  Layout layout = lora();
  const std::int64_t all = 8 * layout.micro_batches();
  // The last adapter computes x A again, the others (x A) B, the scale and the sum as well.
  CHECK(again(layout, false, "mlp_down.adapter") == 4 * all);
  CHECK(again(layout, true, "mlp_down.adapter") == all);
  CHECK(again(layout, true, "mlp_up.adapter") == 4 * all);
  CHECK(again(layout, true, "mlp_down") == all);
  CHECK(again(layout, true, "mlp_residual") == 0);
  CHECK(again(layout, false, "mlp_residual") == all);
  // Without an adapter, the last linear keeps its weights alone, and need not run.
  layout.lora_modules = {LoraModule::linear_qkv};
  CHECK(again(layout, true, "mlp_down") == 0);
  CHECK(again(layout, true, "activation") == all);
  // 4 bits are made 16 by a kernel that runs, and the product with it.
  layout.frozen_format = FrozenFormat::nf4;
  CHECK(again(layout, true, "mlp_down") > 0);
  CHECK(again(layout, true, "mlp_residual") == 0);
}

TEST_CASE("linears apart have an adapter each", "[plan][lora]") {
  Model model = test::transformer(1);
  const std::int64_t together = adapter_parameters(model, lora());
  model.execution.separate_products = true;
  const Program program = test::checked_plan(model, lora()).programs[0];
  // Two more ranks over the input of queries, keys and values, one over that of gate and up.
  const std::int64_t apart = together + 8 * rank * 3 * model.hidden;
  CHECK(adapter_parameters(model, lora()) == apart);
  CHECK(bytes_of(program, BufferCategory::optimizer) == 12 * apart);
}

TEST_CASE("ZeRO-3 shards frozen weights and gathers them, and reduces adapters alone",
          "[plan][lora]") {
  const Model model = test::transformer(1);
  Layout layout = lora(1, 4);
  layout.zero_stage = 3;
  const Program program = test::checked_plan(model, layout).programs[0];
  const std::int64_t adapters = adapter_parameters(model, layout);
  const std::int64_t all = 2 * (model.parameters() + adapters);
  CHECK(std::abs(4 * bytes_of(program, BufferCategory::weights) - all) < 4 * 64);
  CHECK(bytes_of(program, BufferCategory::optimizer) == 12 * adapters / 4);
  std::int64_t gathered = 0, reduced = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    if (program.action[op] == Action::gather_weights)
      gathered += program.collectives[program.work[op]].bytes.count();
    if (program.action[op] == Action::reduce)
      reduced += program.collectives[program.work[op]].bytes.count();
  }
  CHECK(gathered > all);  // for both passes of a micro-batch
  CHECK(reduced % (2 * adapters) == 0);
  CHECK(reduced > 0);
}

TEST_CASE("random layouts of fine-tunings give sound plans under every framework",
          "[plan][lora][property]") {
  const std::array frameworks{PresetName::megatron, PresetName::pytorch, PresetName::deepspeed,
                              PresetName::fsdp2, PresetName::torchtitan};
  int plans = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Layout layout = test::random_layout(seed);
    layout.lora_rank = seed % 3 == 0 ? 0 : 8;
    if (seed % 4 == 1 && layout.lora_rank > 0)
      layout.frozen_format = seed % 8 == 1 ? FrozenFormat::nf4 : FrozenFormat::int8;
    layout.lora_magnitudes = layout.lora_rank > 0 && seed % 6 == 1;
    layout.trains_embedding = layout.lora_rank > 0 && seed % 5 == 1;
    layout.trains_head = layout.lora_rank > 0 && seed % 5 == 3;
    if (seed % 11 == 2) layout.state_format = StateFormat::bitsandbytes_8bit;
    if (seed % 5 == 2 && layout.lora_rank > 0) layout.lora_modules = {LoraModule::linear_qkv};
    if (seed % 7 == 3) layout.packed_length = 32;
    if (layout.compute_dtype == DType::fp8 && seed % 2 == 0) layout.compute_dtype = DType::nvfp4;
    if (seed % 3 == 1) layout.first_bf16_layers = layout.last_bf16_layers = 1;
    layout.overlap_tensor_products = false;
    if (layout.frozen_format != FrozenFormat::as_trained || layout.compute_dtype == DType::bf16) {
      layout.compute_dtype = DType::bf16;
      layout.eight_bit_parameters = false;
      layout.first_bf16_layers = layout.last_bf16_layers = 0;
    }
    if (layout.lora_rank > 0 && layout.recompute == Recompute::operators)
      layout.recompute = Recompute::full;
    if (layout.lora_rank > 0 && seed % 13 < 4) {
      layout.recompute = Recompute::full;
      layout.offload_activations = OffloadTarget::cpu;
    }
    if (layout.lora_rank > 0 && layout.zero_stage == 3 && seed % 3 == 1)
      layout.offload_parameters = layout.offload_optimizer = OffloadTarget::cpu;
    const PresetName name = frameworks[seed % frameworks.size()];
    const Model model = test::llama_of(preset_of(name).framework);
    if (!layout_problems(layout, model).empty()) continue;
    CAPTURE(seed, word(name), test::to_text(layout));
    check_plan(make_plan(model, layout));
    ++plans;
  }
  CHECK(plans > 200);
}
