// Casts around 8-bit products, and tensors that stay in 16 bits.
#include "sim/plan/sharding/eight_bit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/plan/plan.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Layout eight_bits(int tensor, int data = 1) {
  Layout layout = test::layout_for(tensor, data, 1, 2);
  layout.compute_dtype = DType::fp8;
  layout.sequence_parallel = tensor > 1;
  return layout;
}

Model with_recipe(EightBit recipe) {
  Model model = test::transformer(1);
  model.execution.eight_bit = recipe;
  return model;
}

const ShardedOp& named(const ShardedModel& sharded, const std::string& name) {
  for (const ShardedBlock& block : sharded.blocks)
    for (const ShardedOp& op : block.ops)
      if (op.op->name == name) return op;
  throw std::out_of_range(name);
}

// Bytes per element of the operand.
double bytes_each(const std::optional<Kernel>& cast) {
  if (!cast) return 0;
  return static_cast<double>(cast->bytes.count()) /
         (static_cast<double>(cast->m) * static_cast<double>(cast->n));
}

Bytes weight_bytes(const Plan& plan) {
  Bytes sum{};
  for (const Buffer& buffer : plan.programs[0].buffers)
    if (buffer.category == BufferCategory::weights) sum += buffer.size;
  return sum;
}

// Elements of what multiplies in 8 bits.
std::int64_t elements_of_products(const Model& model, const Layout& layout) {
  std::int64_t elements = 0;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      if (is_quantized(op, layout)) elements += op.weights;
  return elements;
}

Bytes gathered_weights(const Plan& plan) {
  Bytes sum{};
  const Program& program = plan.programs[0];
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.action[i] == Action::gather_weights)
      sum += program.collectives[program.work[i]].bytes;
  return sum;
}

// Kernels that bring operands into 8 bits.
std::int64_t encoded(const Plan& plan, Pass pass) {
  const Program& program = plan.programs[0];
  std::int64_t kernels = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i)
    if (program.action[i] == Action::encode && program.pass[i] == pass) ++kernels;
  return kernels;
}

}  // namespace

TEST_CASE("The head multiplies in 16 bits, the linears of layers in 8", "[plan]") {
  const Model model = test::transformer(1);
  const ShardedModel sharded = shard(model, eight_bits(1));
  CHECK(named(sharded, "mlp_up").forward->dtype == DType::fp8);
  CHECK(named(sharded, "attention_projection").weight_gradient->dtype == DType::fp8);
  CHECK(named(sharded, "head").forward->dtype == DType::bf16);
  CHECK_FALSE(named(sharded, "head").encode_gradient);
}

TEST_CASE("8-bit products that give gradients are told from those that do not", "[plan]") {
  const Model model = test::transformer(1);
  const auto gives_gradients = [](const std::optional<Kernel>& kernel) {
    return kernel->part == AttentionPart::backward;
  };
  const ShardedModel sharded = shard(model, eight_bits(1));
  const ShardedOp& up = named(sharded, "mlp_up");
  CHECK_FALSE(gives_gradients(up.forward));
  CHECK(gives_gradients(up.input_gradient));
  CHECK(gives_gradients(up.weight_gradient));
  CHECK_FALSE(gives_gradients(named(sharded, "head").weight_gradient));
  Layout cut = eight_bits(2);
  cut.overlap_tensor_products = true;
  const ShardedModel buffers = shard(model, cut);
  CHECK_FALSE(gives_gradients(named(buffers, "mlp_down").forward_part));
  CHECK(gives_gradients(named(buffers, "mlp_down").gradient_part));
}

TEST_CASE("Transformer Engine transposes behind gathers, and norms write 8 bits", "[plan]") {
  const Model model = test::transformer(1);
  const ShardedModel alone = shard(model, eight_bits(1));
  CHECK(bytes_each(named(alone, "qkv").encode_input) == 0);
  CHECK(bytes_each(named(alone, "qkv").encode_saved) == 2);
  CHECK(bytes_each(named(alone, "mlp_down").encode_input) == 4);
  CHECK(bytes_each(named(alone, "mlp_down").encode_saved) == 0);
  CHECK(bytes_each(named(alone, "mlp_down").encode_gradient) == 4);
  const ShardedModel split = shard(model, eight_bits(2));
  CHECK(bytes_each(named(split, "mlp_down").encode_input) == 3);
  CHECK(bytes_each(named(split, "mlp_down").encode_saved) == 2);
  CHECK(bytes_each(named(split, "mlp_down").encode_gradient) == 3.0 / 2 + 2);
  CHECK(bytes_each(named(split, "mlp_up").encode_gradient) == 4);
}

TEST_CASE("torchao takes a maximum first, fused with the kernel before where it can be", "[plan]") {
  const Model model = with_recipe(EightBit::torchao);
  const ShardedModel sharded = shard(model, eight_bits(1));
  CHECK(bytes_each(named(sharded, "qkv").encode_input) == 3);
  CHECK(bytes_each(named(sharded, "attention_projection").encode_input) == 5);
  CHECK(bytes_each(named(sharded, "mlp_down").encode_input) == 3);
  CHECK(bytes_each(named(sharded, "qkv").encode_weight) == 5);
  CHECK(named(sharded, "qkv").encodes_weight_each_time);
}

TEST_CASE("torchao casts the transposed order where it is needed, by kernels of their own rate",
          "[plan]") {
  Model model = with_recipe(EightBit::torchao);
  const ShardedModel sharded = shard(model, eight_bits(1));
  const ShardedOp& qkv = named(sharded, "qkv");
  const auto all_transposed = [](const std::optional<Kernel>& cast) {
    return cast->transposed == cast->bytes;
  };
  CHECK(qkv.encode_input->transposed.count() == 0);
  CHECK(qkv.encode_weight->transposed.count() == 0);
  CHECK(bytes_each(qkv.encode_saved) == 3);
  CHECK(bytes_each(qkv.encode_gradient) == 4);
  CHECK(bytes_each(qkv.encode_saved_weight) == 3);
  CHECK(all_transposed(qkv.encode_saved));
  CHECK(all_transposed(qkv.encode_gradient));
  CHECK(all_transposed(qkv.encode_saved_weight));
  model.execution.eight_bit = EightBit::transformer_engine;
  CHECK(named(shard(model, eight_bits(1)), "qkv").encode_gradient->transposed.count() == 0);
}

TEST_CASE("scales of rows: every operand is cast for its product, and gradients are rescaled",
          "[plan]") {
  const Model model = with_recipe(EightBit::torchao_rowwise);
  const ShardedModel sharded = shard(model, eight_bits(1));
  const ShardedOp& qkv = named(sharded, "qkv");
  const ShardedOp& projection = named(sharded, "attention_projection");
  CHECK(bytes_each(qkv.encode_input) == 1);
  CHECK(bytes_each(projection.encode_input) == 3);
  CHECK(bytes_each(qkv.encode_saved) == 5);
  CHECK(bytes_each(qkv.encode_gradient) == 6);
  CHECK(bytes_each(qkv.encode_weight) == 3);
  CHECK(bytes_each(qkv.encode_saved_weight) == 5);
  CHECK(3 * qkv.encode_saved->bytes.count() == 5 * qkv.encode_saved->transposed.count());
  CHECK(qkv.weight_gradient->dtype == DType::fp8);
  // In 16 bits, read and written; that of the input by the norm before, but not by attention.
  CHECK(qkv.rescale_weight_gradient->bytes ==
        Bytes{2 * bytes_of(written_gradient_dtype(model, eight_bits(1))) * qkv.op->weights});
  CHECK_FALSE(qkv.rescale_input_gradient);
  CHECK(projection.rescale_input_gradient->bytes == projection.whole_input * 2);
  CHECK_FALSE(named(sharded, "head").rescale_weight_gradient);
  const ShardedModel split = shard(model, eight_bits(2));
  CHECK_FALSE(named(split, "qkv").gathers_quantized());
  CHECK(bytes_each(named(split, "qkv").encode_input) == 3);
  CHECK(bytes_each(named(split, "qkv").encode_gradient) == 8);
  CHECK(bytes_each(named(split, "mlp_down").encode_input) == 3);
  CHECK(named(split, "qkv").rescale_input_gradient);  // before it is scattered
}

TEST_CASE("scales of rows with weight gradients in 16 bits", "[plan]") {
  const Model model = with_recipe(EightBit::torchao_rowwise_with_gw_hp);
  const ShardedModel sharded = shard(model, eight_bits(1));
  const ShardedOp& qkv = named(sharded, "qkv");
  CHECK(qkv.weight_gradient->dtype == DType::bf16);
  CHECK(qkv.input_gradient->dtype == DType::fp8);
  CHECK_FALSE(qkv.encode_saved);
  CHECK(bytes_each(qkv.encode_gradient) == 1);
  CHECK_FALSE(qkv.rescale_weight_gradient);
  CHECK(named(sharded, "attention_projection").rescale_input_gradient);
}

TEST_CASE("rescaled gradients are kernels of the plan, and nothing persists of cast weights",
          "[plan]") {
  Model model = test::transformer(1);
  const auto weights = [&] { return weight_bytes(make_plan(model, eight_bits(1))); };
  const Bytes with_copies = weights();
  model.execution.eight_bit = EightBit::torchao;
  CHECK(weights() < with_copies);
  model.execution.eight_bit = EightBit::torchao_rowwise;
  const Plan plan = make_plan(model, eight_bits(1));
  CHECK_NOTHROW(check_plan(plan));
  const Program& program = plan.programs[0];
  std::int64_t rescaled = 0, products = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    rescaled += program.action[i] == Action::rescale_gradient ? 1 : 0;
    products += program.action[i] == Action::weight_gradient && program.label[i].layer >= 0 ? 1 : 0;
  }
  // Rescaled are every weight, and what goes back into attention: one of four linears of a layer.
  CHECK(rescaled == products + products / 4);
}

TEST_CASE("Transformer Engine's linears alone leave norms in 16 bits", "[plan]") {
  const Model model = with_recipe(EightBit::transformer_engine_linear);
  const ShardedModel sharded = shard(model, eight_bits(1));
  CHECK(bytes_each(named(sharded, "qkv").encode_input) == 4);
  CHECK_FALSE(named(sharded, "qkv").encode_saved);
}

TEST_CASE("what torchao gathers in 8 bits each rank casts of its own tokens", "[plan]") {
  const Model model = with_recipe(EightBit::torchao);
  const ShardedModel split = shard(model, eight_bits(2));
  CHECK(bytes_each(named(split, "qkv").encode_input) == 3.0 / 2);
  CHECK(bytes_each(named(split, "qkv").encode_saved) == 2);
  CHECK(bytes_each(named(split, "qkv").encode_gradient) == 4);
  CHECK(bytes_each(named(split, "mlp_down").encode_input) == 3);
  CHECK(bytes_each(named(split, "mlp_down").encode_gradient) == 3.0 / 2 + 2);
  CHECK(bytes_each(named(split, "mlp_down").encode_saved) == 3);
}

TEST_CASE("Transformer Engine keeps inputs in a byte, torchao in two", "[plan]") {
  Model model = test::transformer(1);
  const Layout layout = eight_bits(1);
  const Bytes kept = named(shard(model, layout), "mlp_down").saved;
  model.execution.eight_bit = EightBit::torchao;
  CHECK(named(shard(model, layout), "mlp_down").saved == kept * 2);
}

TEST_CASE("8-bit parameters weigh two bytes with their transpose, and are gathered in one",
          "[plan]") {
  const Model model = test::transformer(1);
  Layout layout = eight_bits(1, 2);
  layout.zero_stage = 1;
  const std::int64_t in_layers = elements_of_products(model, layout);
  const Plan beside = make_plan(model, layout);
  layout.eight_bit_parameters = true;
  const Plan stored = make_plan(model, layout);
  CHECK(weight_bytes(beside) - weight_bytes(stored) == Bytes{2 * in_layers});
  CHECK(gathered_weights(beside) - gathered_weights(stored) == Bytes{in_layers});
}

TEST_CASE("weights that FSDP gathers in 8 bits are only transposed, for the input gradient",
          "[plan]") {
  Model model = with_recipe(EightBit::torchao);
  Layout layout = eight_bits(1, 2);
  layout.zero_stage = 3;
  const std::int64_t in_layers = elements_of_products(model, layout);
  const Plan beside = make_plan(model, layout);
  layout.eight_bit_parameters = true;
  REQUIRE(layout_problems(layout, model).empty());
  const Plan gathered = make_plan(model, layout);
  // Forward and backward.
  const Bytes less = gathered_weights(beside) - gathered_weights(gathered);
  CHECK(less == Bytes{2 * layout.micro_batches() * in_layers});
  CHECK(weight_bytes(beside) - weight_bytes(gathered) == Bytes{in_layers / 2});
  const ShardedModel sharded = shard(model, layout);
  CHECK_FALSE(named(sharded, "qkv").encode_weight);
  CHECK(bytes_each(named(sharded, "qkv").encode_saved_weight) == 2);
  // Kernels before products: of weights the first of two is not needed.
  CHECK(encoded(beside, Pass::forward) == 2 * encoded(gathered, Pass::forward));
  CHECK(encoded(gathered, Pass::backward) == encoded(beside, Pass::backward));
  const auto refused = [&] { return !layout_problems(layout, model).empty(); };
  layout.data_parallel = 1;  // nothing is gathered
  CHECK(refused());
  layout.data_parallel = 2;
  model.execution.eight_bit = EightBit::torchao_rowwise;
  const std::vector<LayoutProblem> of_rows = layout_problems(layout, model);
  REQUIRE(of_rows.size() == 1);
  CHECK(of_rows[0].what.find("scales of rows in 16 bits") != std::string::npos);
  model.execution.eight_bit = EightBit::transformer_engine;
  CHECK(refused());
  layout.zero_stage = 2;
  CHECK_FALSE(refused());
}

TEST_CASE("What sequence parallelism gathers for 8-bit products is gathered in 8 bits", "[plan]") {
  const Model model = test::transformer(1);
  const Plan plan = make_plan(model, eight_bits(2));
  const Program& program = plan.programs[0];
  int gathers = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const bool of_tokens =
        program.action[i] == Action::gather_input || program.action[i] == Action::gather_gradient;
    if (!of_tokens || program.label[i].layer < 0) continue;
    CHECK(program.collectives[program.work[i]].dtype == DType::fp8);
    ++gathers;
  }
  CHECK(gathers > 0);
}

TEST_CASE("Delayed scaling shares the maxima of all products after every pass of a chunk",
          "[plan]") {
  Layout layout = eight_bits(2);
  layout.data_parallel = 3;
  layout.pipeline_parallel = 2;
  layout.schedule = Schedule::interleaved;
  layout.virtual_stages = 2;
  layout.global_batch = 12;
  const Model model = test::transformer(1);  // eight layers, four linears each, one product each
  const Plan plan = make_plan(model, layout);
  CHECK_NOTHROW(check_plan(plan));
  for (const Program& program : plan.programs) {
    int forward = 0, backward = 0, updates = 0;
    for (std::uint32_t i = 0; i < program.size(); ++i) {
      updates += program.action[i] == Action::update_scales ? 1 : 0;
      if (program.action[i] != Action::share_maxima) continue;
      const Collective& shared = program.collectives[program.work[i]];
      CHECK(shared.group == GroupRole::maxima);
      const bool ahead = program.pass[i] == Pass::forward;
      ++(ahead ? forward : backward);
      // The four layers of the rank have three tensors of a product forward, two backward, fp32.
      CHECK(shared.bytes == Bytes{4 * 4 * (ahead ? 3 : 2) * 4});
    }
    CHECK(forward == 2 * 4);  // chunks x micro-batches
    CHECK(backward == 2 * 4);
    CHECK(updates == 2 * 2 * 4);
  }
  const auto role = static_cast<std::size_t>(GroupRole::maxima);
  for (std::uint32_t rank = 0; rank < 12; ++rank) {
    const Group& group = plan.groups[plan.group_of[rank][role]];
    CHECK(group.ranks.size() == 6);
    for (const RankId other : group.ranks)
      CHECK(coordinates_of(layout, other).pipeline ==
            coordinates_of(layout, RankId{rank}).pipeline);
  }
}

TEST_CASE("Nothing shares maxima without delayed scaling", "[plan]") {
  const auto shares = [](const Model& model, const Layout& layout) {
    const Plan plan = make_plan(model, layout);
    const Program& program = plan.programs[0];
    return std::any_of(program.action.begin(), program.action.end(), [](Action action) {
      return action == Action::share_maxima || action == Action::update_scales;
    });
  };
  Model model = test::transformer(1);
  CHECK(shares(model, eight_bits(2)));
  Layout sixteen = eight_bits(2);
  sixteen.compute_dtype = DType::bf16;
  CHECK_FALSE(shares(model, sixteen));
  model.execution.eight_bit = EightBit::torchao;
  CHECK_FALSE(shares(model, eight_bits(2)));
}

TEST_CASE("Current scaling takes maxima before it casts", "[plan][eight_bit]") {
  const Model model = with_recipe(EightBit::transformer_engine_tensorwise);
  const ShardedModel alone = shard(model, eight_bits(1));
  // Behind a norm, which takes the maximum: the cast in both orders alone.
  CHECK(bytes_each(named(alone, "qkv").encode_input) == 4);
  CHECK(bytes_each(named(alone, "qkv").encode_saved) == 0);
  CHECK(bytes_each(named(alone, "mlp_down").encode_input) == 2 + 4);
  CHECK(bytes_each(named(alone, "mlp_down").encode_gradient) == 2 + 4);
  CHECK(bytes_each(named(alone, "qkv").encode_weight) == 2 + 4);
  CHECK_FALSE(shares_maxima(model.execution, eight_bits(1)));
  const ShardedModel split = shard(model, eight_bits(2));
  CHECK(bytes_each(named(split, "qkv").encode_input) == 3.0 / 2);
  CHECK(bytes_each(named(split, "qkv").encode_saved) == 2);
  CHECK(bytes_each(named(split, "mlp_down").encode_gradient) == 5.0 / 2 + 2);
}

TEST_CASE("Scales of blocks are written and kept beside what they scale", "[plan][eight_bit]") {
  const Model mx = with_recipe(EightBit::transformer_engine_mxfp8);
  const Model blocks = with_recipe(EightBit::transformer_engine_blockwise);
  constexpr double mx_scale = 1.0 / 32, block_scale = 4.0 / 128;
  const Layout layout = eight_bits(1);
  for (const auto& [model, scale] : {std::pair{&mx, mx_scale}, std::pair{&blocks, block_scale}}) {
    const ShardedModel sharded = shard(*model, layout);
    CHECK(bytes_each(named(sharded, "qkv").encode_input) == 2 + 2 * (1 + scale));
    CHECK(bytes_each(named(sharded, "mlp_down").encode_gradient) == 2 + 2 * (1 + scale));
    CHECK_FALSE(named(sharded, "qkv").encode_saved);
    const double kept = static_cast<double>(128 * mx.hidden) * (1 + scale);
    CHECK(named(sharded, "qkv").saved == Bytes{std::llround(kept)});
  }
  for (const Model* model : {&mx, &blocks}) {
    const bool of_blocks = model == &blocks;
    const ShardedModel sharded = shard(*model, layout);
    const ShardedOp& op = named(sharded, "qkv");
    CHECK(op.forward->scales == (of_blocks ? ProductScales::blocks : ProductScales::micro));
    CHECK(op.input_gradient->scales == op.forward->scales);
    CHECK(op.weight_gradient->scales == (of_blocks ? ProductScales::rows : ProductScales::micro));
  }
  // A weight in both orders beside its 16 bits; of 128 x 128 elements a scale of 4 bytes.
  const std::int64_t elements = elements_of_products(mx, layout);
  const Bytes more = weight_bytes(make_plan(mx, layout)) -
                     weight_bytes(make_plan(with_recipe(EightBit::transformer_engine), layout));
  CHECK(more == Bytes{2 * elements / 32});
  Layout parameters = layout;
  parameters.data_parallel = 2;
  parameters.global_batch *= 2;
  parameters.zero_stage = 1;
  parameters.eight_bit_parameters = true;
  // Both orders and their scales are all that is kept; what is gathered has 16 bits.
  const Layout sixteen = [&] {
    Layout other = parameters;
    other.compute_dtype = DType::bf16;
    other.eight_bit_parameters = false;
    return other;
  }();
  const Plan own = make_plan(mx, parameters), plain = make_plan(mx, sixteen);
  CHECK(layout_problems(parameters, mx).empty());
  CHECK(weight_bytes(own) - weight_bytes(plain) == Bytes{2 * elements / 32});
  CHECK(gathered_weights(own) == gathered_weights(plain));
  // Blocks of 128: one order is gathered.
  const Plan blockwise = make_plan(blocks, parameters);
  CHECK(gathered_weights(blockwise) == gathered_weights(plain) - Bytes{elements});
}

TEST_CASE("torchao casts to MXFP8 for each product, and keeps 16 bits", "[plan][eight_bit]") {
  const Model model = with_recipe(EightBit::torchao_mxfp8);
  const ShardedModel sharded = shard(model, eight_bits(1));
  constexpr double written = 1 + 3.0 / 32;  // with its scales, which are brought into an order
  const ShardedOp& up = named(sharded, "mlp_up");
  CHECK(bytes_each(up.encode_input) == written);
  CHECK(bytes_each(up.encode_saved) == 2 + written);
  CHECK(bytes_each(up.encode_gradient) == 2 + 2 * written);
  CHECK(bytes_each(up.encode_weight) == 2 + written);
  CHECK(bytes_each(up.encode_saved_weight) == 2 + written);
  CHECK(up.encodes_weight_each_time);
  CHECK(up.saved == Bytes{128 * model.hidden * 2});
}

TEST_CASE("An input that is made again is cast again", "[plan][eight_bit][recompute]") {
  Model model = test::mixture(1);
  model.execution.eight_bit = EightBit::transformer_engine_mxfp8;
  Layout layout = eight_bits(1, 2);
  layout.recompute = Recompute::selective;
  layout.recompute_modules = {RecomputeModule::moe_act, RecomputeModule::layernorm};
  REQUIRE(layout_problems(layout, model).empty());
  check_plan(make_plan(model, layout));
  const ShardedModel sharded = shard(model, layout);
  CHECK(bytes_each(named(sharded, "expert_down").encode_saved) == 3 + 1.0 / 32);
  CHECK_FALSE(named(sharded, "expert_up").encode_saved);
  model.execution.eight_bit = EightBit::transformer_engine_tensorwise;
  const ShardedModel current = shard(model, layout);
  CHECK(bytes_each(named(current, "expert_down").encode_saved) == 5);
  model.execution.eight_bit = EightBit::transformer_engine;
  CHECK(layout_problems(layout, model).size() == 2);
}

TEST_CASE("Recipes give sound plans", "[plan][eight_bit]") {
  for (const EightBit recipe :
       {EightBit::transformer_engine_tensorwise, EightBit::transformer_engine_blockwise,
        EightBit::transformer_engine_mxfp8, EightBit::torchao_mxfp8})
    for (const int tensor : {1, 2})
      for (const bool cut : {false, true}) {
        const Model model = with_recipe(recipe);
        Layout layout = eight_bits(tensor, 2);
        layout.overlap_tensor_products = cut;
        CAPTURE(word(recipe), tensor, cut);
        const bool refused = cut && tensor > 1 && !is_transformer_engine(recipe);
        CHECK(layout_problems(layout, model).empty() != refused);
        if (!refused) CHECK_NOTHROW(check_plan(make_plan(model, layout)));
      }
}

TEST_CASE("attention in 8 bits casts what goes in and out, and keeps a byte of each", "[plan]") {
  Model model = with_recipe(EightBit::transformer_engine);
  const ShardedModel sixteen = shard(model, eight_bits(1));
  model.execution.eight_bit_attention = EightBitAttention::dot_product;
  const ShardedModel eight = shard(model, eight_bits(1));
  const ShardedOp& before = named(sixteen, "attention");
  const ShardedOp& op = named(eight, "attention");
  CHECK(op.forward->dtype == DType::fp8);
  CHECK(op.forward->scales == ProductScales::tensors);
  CHECK(op.saved * 2 == before.saved);
  // Delayed scaling, 3 bytes an element: queries, keys and values before, the output behind.
  const auto tokens = static_cast<double>(op.forward->batch * op.forward->m);
  const auto keys = static_cast<double>(op.forward->k);
  const double output = static_cast<double>(op.forward->heads) * keys;
  const double inputs = output + 2 * static_cast<double>(op.forward->kv_heads) * keys;
  CHECK(op.forward->beside == Bytes{std::llround(3 * (inputs + output) * tokens)});
  CHECK(op.backward->beside == op.forward->beside);
  CHECK(op.forward->launches == before.forward->launches + 2);
  // Nothing is cast where the linears exchange 8 bits with it.
  model.execution.eight_bit_attention = EightBitAttention::multi_head;
  const ShardedModel whole = shard(model, eight_bits(1));
  CHECK(named(whole, "attention").forward->beside == Bytes{});
  CHECK_FALSE(named(whole, "attention_projection").encode_input);
  CHECK(named(sixteen, "attention_projection").encode_input);
  // Scales of 32 elements: both orders before, nothing behind.
  Model micro = with_recipe(EightBit::transformer_engine_mxfp8);
  micro.execution.eight_bit_attention = EightBitAttention::dot_product;
  const ShardedModel blocks = shard(micro, eight_bits(1));
  const ShardedOp& small = named(blocks, "attention");
  CHECK(small.forward->scales == ProductScales::micro);
  constexpr double both_orders = 2 + 2 * (1 + 1.0 / 32);
  CHECK(small.forward->beside == Bytes{std::llround(both_orders * inputs * tokens)});
  CHECK(named(blocks, "qkv").forward->scales == ProductScales::micro);
}

TEST_CASE("products that read either order have no transposed copies", "[plan]") {
  Model model = with_recipe(EightBit::transformer_engine_tensorwise);
  const ShardedModel hopper = shard(model, eight_bits(1));
  model.execution.reads_either_order = true;
  const ShardedModel blackwell = shard(model, eight_bits(1));
  CHECK(bytes_each(named(hopper, "attention_projection").encode_gradient) == 6);
  CHECK(bytes_each(named(blackwell, "attention_projection").encode_gradient) == 5);
  // A weight in 16 bits: one copy in 8 beside it, not two.
  const auto weights = [](const Model& of) {
    return weight_bytes(make_plan(of, eight_bits(1))).count();
  };
  model.execution.reads_either_order = false;
  const std::int64_t both = weights(model);
  model.execution.reads_either_order = true;
  CHECK(both - weights(model) == elements_of_products(model, eight_bits(1)));
}

TEST_CASE("torchao's NVFP4 casts a weight for every use, and gathers in 16 bits", "[plan]") {
  Model model = with_recipe(EightBit::torchao);
  Layout layout = eight_bits(2);
  layout.compute_dtype = DType::nvfp4;
  const ShardedModel sharded = shard(model, layout);
  const ShardedOp& qkv = named(sharded, "qkv");
  CHECK(bytes_each(qkv.encode_input) == 2 + 2 + 2 * (0.5 + 1.0 / 16));
  CHECK(qkv.encodes_weight_each_time);
  CHECK(qkv.gathered_element == 0);
}
