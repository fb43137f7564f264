#include <map>
#include <set>
#include <string>

#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

struct Traffic {
  int count = 0;
  std::int64_t bytes = 0;
  bool operator==(const Traffic&) const = default;
};

Traffic traffic(const Program& program, GroupRole role, CollectiveKind kind, Pass pass,
                bool layers_only = false) {
  Traffic sum;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.kind[i] != OpKind::collective || program.pass[i] != pass) continue;
    if (layers_only && program.label[i].layer < 0) continue;
    const Collective& collective = program.collectives[program.work[i]];
    if (collective.group != role || collective.kind != kind) continue;
    ++sum.count;
    sum.bytes += collective.bytes.count();
  }
  return sum;
}

std::vector<std::string> names_of(const Program& program, Pass pass, int layer, int microbatch) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const OpLabel& label = program.label[i];
    if (program.pass[i] == pass && label.layer == layer && label.microbatch == microbatch) {
      names.push_back(program.name(OpId{i}));
    }
  }
  return names;
}

std::uint32_t find(const Program& program, const std::string& name, Pass pass, int layer) {
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.pass[i] == pass && program.label[i].layer == layer &&
        program.name(OpId{i}) == name) {
      return i;
    }
  }
  FAIL("no operator " << name);
  return 0;
}

bool depends(const Program& program, std::uint32_t op, std::uint32_t on) {
  for (const OpId dependency : program.dependencies(OpId{op})) {
    if (dependency.value == on) return true;
  }
  return false;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("Tensor parallelism all-reduces twice forward and twice backward per layer", "[plan]") {
  // Shoeybi et al. 2019, section 3: s b h elements each.
  const Plan plan = make_plan(test::gpt({.layers = 3, .hidden = 64}), test::layout_for(2, 1, 1, 1));
  const Traffic expected{2 * 3, 2 * 3 * 128 * 64 * 2};
  const Program& program = plan.programs[0];
  const auto sum = CollectiveKind::all_reduce;
  CHECK(traffic(program, GroupRole::tensor, sum, Pass::forward, true) == expected);
  CHECK(traffic(program, GroupRole::tensor, sum, Pass::backward, true) == expected);
  // Embedding output, and three fp32 numbers per token of the loss; head input gradient.
  CHECK(traffic(program, GroupRole::tensor, sum, Pass::forward).count == 6 + 1 + 3);
  CHECK(traffic(program, GroupRole::tensor, sum, Pass::forward).bytes ==
        expected.bytes + 128 * 64 * 2 + 3 * 4 * 128);
  CHECK(traffic(program, GroupRole::tensor, sum, Pass::backward).count == 6 + 1);
}

TEST_CASE("Sequence parallelism gathers and scatters the same bytes, and gathers inputs again",
          "[plan]") {
  // Korthikanti et al. 2022, section 4.2.2: all-gather + reduce-scatter per block and pass; the
  // saved slices of the column inputs are gathered once more backward.
  Layout layout = test::layout_for(2, 1, 1, 1);
  layout.sequence_parallel = true;
  const Plan plan = make_plan(test::gpt({.layers = 3, .hidden = 64}), layout);
  const Program& program = plan.programs[0];
  const Traffic two{2 * 3, 2 * 3 * 128 * 64 * 2};
  const Traffic four{4 * 3, 4 * 3 * 128 * 64 * 2};
  const auto check = [&](CollectiveKind kind, Pass pass, const Traffic& expected) {
    CHECK(traffic(program, GroupRole::tensor, kind, pass, true) == expected);
  };
  check(CollectiveKind::all_gather, Pass::forward, two);
  check(CollectiveKind::reduce_scatter, Pass::forward, two);
  check(CollectiveKind::all_gather, Pass::backward, four);
  check(CollectiveKind::reduce_scatter, Pass::backward, two);
  check(CollectiveKind::all_reduce, Pass::forward, {});
  // Norms (2 h each, 2 per layer and the last), row biases (h each): h = 64, bf16.
  const Traffic norms{1, (3 * (4 + 2) + 2) * 64 * 2};
  CHECK(traffic(program, GroupRole::tensor, CollectiveKind::all_reduce, Pass::gradient_sync) ==
        norms);
  // A row's bias is added to the rank's 64 tokens, a column's to all 128 in half of the features.
  const auto bytes = [&](const char* name) {
    return program.kernels[program.work[find(program, name, Pass::backward, 1)]].bytes.count();
  };
  CHECK(bytes("mlp_down.bias_gradient") == 64 * 64 * 2);
  CHECK(bytes("mlp_up.bias_gradient") == 128 * 256 / 2 * 2);
}

TEST_CASE("The reduction of an input gradient runs beside the weight-gradient product", "[plan]") {
  Layout layout = test::layout_for(2, 1, 1, 1);
  const Model model = test::gpt({});
  layout.overlap_tensor_wgrad = GENERATE(true, false);
  const Plan plan = make_plan(model, layout);
  const Program& program = plan.programs[0];
  const std::uint32_t sum = find(program, "mlp_up.all_reduce", Pass::backward, 1);
  const std::uint32_t bias = find(program, "mlp_up.bias_gradient", Pass::backward, 1);
  const std::uint32_t norm = find(program, "norm_2", Pass::backward, 1);
  CHECK(sum < bias);
  CHECK(depends(program, bias, sum) == !layout.overlap_tensor_wgrad);
  CHECK(depends(program, norm, sum) == layout.overlap_tensor_wgrad);
}

TEST_CASE("A layer runs backward in reverse, input gradients first", "[plan]") {
  const Plan plan = make_plan(test::gpt({}), test::layout_for(1, 1, 1, 1));
  CHECK(names_of(plan.programs[0], Pass::backward, 2, 0) ==
        Names{"mlp_dropout", "mlp_down.input_gradient", "mlp_down.bias_gradient",
              "mlp_down.weight_gradient", "gelu", "mlp_up.input_gradient", "mlp_up.bias_gradient",
              "mlp_up.weight_gradient", "norm_2", "attention_dropout", "projection.input_gradient",
              "projection.bias_gradient", "projection.weight_gradient", "attention",
              "qkv.input_gradient", "qkv.bias_gradient", "qkv.weight_gradient", "norm_1"});
}

TEST_CASE("A recomputed layer runs forward again, collectives included", "[plan]") {
  Layout layout = test::layout_for(2, 1, 1, 2);
  layout.recompute = Recompute::full;
  const Plan plan = make_plan(test::gpt({}), layout);
  const Program& program = plan.programs[0];
  CHECK(names_of(program, Pass::recompute, 1, 0) == names_of(program, Pass::forward, 1, 0));
}

TEST_CASE("Products have the shapes of their shards", "[plan]") {
  const Plan plan = make_plan(test::gpt({.hidden = 64}), test::layout_for(4, 1, 1, 1));
  const Program& program = plan.programs[0];
  const auto shape = [&](const std::string& name, Pass pass, int layer) {
    const Kernel& kernel = program.kernels[program.work[find(program, name, pass, layer)]];
    return std::vector<std::int64_t>{kernel.m, kernel.n, kernel.k};
  };
  using Shape = std::vector<std::int64_t>;
  CHECK(shape("qkv", Pass::forward, 0) == Shape{128, 48, 64});
  CHECK(shape("qkv.input_gradient", Pass::backward, 0) == Shape{128, 64, 48});
  CHECK(shape("qkv.weight_gradient", Pass::backward, 0) == Shape{48, 64, 128});
  CHECK(shape("mlp_down", Pass::forward, 0) == Shape{128, 64, 64});
  // Vocabulary 1000 is padded to 1024 = 2 x 128 x 4.
  CHECK(shape("head", Pass::forward, -1) == Shape{128, 256, 64});
}

TEST_CASE("Interleaved stages launch a chunk's reduction after as many backward passes", "[plan]") {
  Layout layout = test::layout_for(1, 2, 4, 8);
  layout.schedule = Schedule::interleaved;
  layout.virtual_stages = 2;
  layout.zero_stage = 1;
  const Plan plan = make_plan(test::gpt({.layers = 8}), layout);
  check_plan(plan);
  // Backward passes that a reduction waits for, by chunk of the rank, per stage.
  const auto waited = [&](int stage, int chunk) {
    const Program& program = plan.programs[static_cast<std::size_t>(stage)];
    std::set<std::pair<int, int>> passes;
    for (std::uint32_t i = 0; i < program.size(); ++i) {
      const OpLabel& made = program.label[i];
      if (program.pass[i] == Pass::backward && program.stream[i] == Stream::compute)
        passes.insert({made.chunk, made.microbatch});
      if (program.action[i] == Action::reduce && made.chunk == chunk * 4 + stage)
        return static_cast<int>(passes.size());
    }
    return 0;
  };
  // Chunk 1 is done after 12 of 16 passes; stage s follows s passes later. Chunk 0 comes last.
  for (int stage = 0; stage < 4; ++stage) {
    CAPTURE(stage);
    CHECK(waited(stage, 1) == 12 + stage);
    CHECK(waited(stage, 0) == 16);
  }
}

TEST_CASE("Only the last micro-batch reduces gradients, in buckets of the size asked for",
          "[plan]") {
  Layout layout = test::layout_for(1, 2, 1, 3);
  const Model model = test::layer_list(10, 100'000);  // 200,000 bytes of gradients each
  layout.sequence_length = 1;
  layout.first_bucket = Bytes{1};
  layout.bucket = Bytes{500'000};
  const Plan plan = make_plan(model, layout);
  const Program& program = plan.programs[0];
  std::vector<std::int64_t> sizes;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    if (program.stream[i] != Stream::data_comm || program.pass[i] != Pass::gradient_sync) continue;
    sizes.push_back(program.collectives[program.work[i]].bytes.count());
  }
  // The first closes after one layer, the others when 500,000 bytes are reached: three layers.
  CHECK(sizes == std::vector<std::int64_t>{200'000, 600'000, 600'000, 600'000});
  // The first bucket waits for the last layer of the last micro-batch, and nothing more.
  const std::uint32_t reduce = find(program, "gradients.reduce", Pass::gradient_sync, 9);
  const OpId before = program.dependencies(OpId{reduce})[0];
  CHECK(program.label[before.value].layer == 9);
  CHECK(program.label[before.value].microbatch == 2);
}

TEST_CASE("Without overlap every reduction waits for the last backward kernel", "[plan]") {
  Layout layout = test::layout_for(1, 2, 1, 1);
  layout.sequence_length = 1;
  layout.first_bucket = layout.bucket = Bytes{1};
  layout.overlap_gradients = false;
  const Plan plan = make_plan(test::layer_list(4, 1000), layout);
  const Program& program = plan.programs[0];
  const std::uint32_t last = find(program, "conv", Pass::backward, 0);
  CHECK(find(program, "gradients.reduce", Pass::gradient_sync, 3) > last);
}

TEST_CASE("ZeRO moves the volumes of its paper", "[plan]") {
  // Rajbhandari et al. 2020, section 7: stages 0-2 2 Psi, stage 3 3 Psi, in elements; but the last
  // layer of the forward pass is the first of the backward pass and stays gathered between them.
  const int layers = 4;
  const std::int64_t psi = layers * 1000;
  const Model model = test::layer_list(layers, 1000);
  Layout layout = test::layout_for(1, 4, 1, 1);
  layout.sequence_length = 1;
  layout.zero_stage = GENERATE(0, 1, 2, 3);
  const Plan plan = make_plan(model, layout);
  const Program& program = plan.programs[0];
  const auto bytes = [&](CollectiveKind kind, Pass pass) {
    return traffic(program, GroupRole::data, kind, pass).bytes;
  };
  const bool sharded = layout.zero_stage > 0;
  CHECK(bytes(CollectiveKind::all_reduce, Pass::gradient_sync) == (sharded ? 0 : 2 * psi));
  CHECK(bytes(CollectiveKind::reduce_scatter, Pass::gradient_sync) == (sharded ? 2 * psi : 0));
  const std::int64_t gathered = layout.zero_stage == 3 ? 2 * psi - 1000 : (sharded ? psi : 0);
  CHECK(bytes(CollectiveKind::all_gather, Pass::parameter_sync) == 2 * gathered);
}

TEST_CASE("Of a ZeRO-3 stage only the end of the pipeline turns around with its weights",
          "[plan]") {
  // Two layers per stage, two micro-batches. Stage 0 gathers both layers in four passes; stage 1
  // spares its last layer one of two gathers per micro-batch. GPipe turns around in the last
  // micro-batch only.
  const Model model = test::layer_list(4, 1000);
  Layout layout = test::layout_for(1, 2, 2, 2);
  layout.sequence_length = 1;
  layout.zero_stage = 3;
  layout.schedule = GENERATE(Schedule::one_f_one_b, Schedule::gpipe);
  const Plan plan = make_plan(model, layout);
  const auto layers_gathered = [&](std::size_t stage) {
    return traffic(plan.programs[stage], GroupRole::data, CollectiveKind::all_gather,
                   Pass::parameter_sync)
               .bytes /
           2000;
  };
  CHECK(layers_gathered(0) == 8);
  CHECK(layers_gathered(1) == (layout.schedule == Schedule::gpipe ? 7 : 6));
}

TEST_CASE("Hybrid sharding reduces inside the group, then the shard across groups", "[plan]") {
  Layout layout = test::layout_for(1, 8, 1, 1);
  layout.sequence_length = 1;
  layout.zero_stage = 3;
  layout.shard_group = 2;
  const Plan plan = make_plan(test::layer_list(1, 1000), layout);
  const Program& program = plan.programs[0];
  CHECK(traffic(program, GroupRole::shard, CollectiveKind::reduce_scatter, Pass::gradient_sync) ==
        Traffic{1, 2000});
  CHECK(traffic(program, GroupRole::replicate, CollectiveKind::all_reduce, Pass::gradient_sync) ==
        Traffic{1, 1000});
  CHECK(traffic(program, GroupRole::data, CollectiveKind::all_reduce, Pass::gradient_sync) ==
        Traffic{});
}

TEST_CASE("Gradients take the road that stage, copies, formats and micro-batches ask for",
          "[plan]") {
  // One layer, one bucket; what happens on the communication stream behind its last gradient.
  using Road = std::vector<Action>;
  const auto road = [](int stage, int group, bool casts, int micro_batches) {
    Layout layout = test::layout_for(1, 4, 1, micro_batches);
    layout.sequence_length = 1;
    layout.zero_stage = stage;
    layout.shard_group = group;
    if (casts) layout.gradient_dtype = DType::fp32;
    const Plan plan = make_plan(test::layer_list(1, 1000), layout);
    check_plan(plan);
    const Program& program = plan.programs[0];
    Road actions;
    for (std::uint32_t i = 0; i < program.size(); ++i) {
      if (program.stream[i] == Stream::data_comm && program.pass[i] == Pass::gradient_sync)
        actions.push_back(program.action[i]);
    }
    return actions;
  };
  using enum Action;
  for (const int stage : {0, 1}) {
    CHECK(road(stage, 0, false, 3) == Road{reduce});
    CHECK(road(stage, 0, true, 3) == Road{cast_out, reduce, cast_in});
  }
  CHECK(road(1, 2, false, 3) == Road{reduce, replicate});
  CHECK(road(1, 2, true, 3) == Road{cast_out, reduce, replicate, cast_in});
  for (const int stage : {2, 3}) {
    CHECK(road(stage, 0, false, 1) == Road{reduce});
    CHECK(road(stage, 0, true, 1) == Road{cast_out, reduce, cast_in});
    CHECK(road(stage, 0, false, 2) == Road{reduce, accumulate, reduce, accumulate});
    CHECK(road(stage, 0, true, 2) ==
          Road{cast_out, reduce, accumulate, cast_out, reduce, accumulate});
    CHECK(road(stage, 2, false, 1) == Road{reduce, replicate});
    CHECK(road(stage, 2, true, 1) == Road{cast_out, reduce, replicate, cast_in});
    // Once per step, of all micro-batches.
    CHECK(road(stage, 2, false, 2) == Road{reduce, accumulate, reduce, accumulate, replicate});
    CHECK(road(stage, 2, true, 2) == Road{cast_out, reduce, accumulate, cast_out, reduce,
                                          accumulate, cast_out, replicate, cast_in});
  }
}

TEST_CASE("Stages send s b h activations, divided over the tensor group", "[plan]") {
  Layout layout = test::layout_for(2, 1, 2, 2);
  layout.sequence_parallel = GENERATE(false, true);
  const Plan plan = make_plan(test::gpt({.hidden = 64}), layout);
  const Program& last = plan.programs[1];
  REQUIRE(last.transfers.size() == 1);  // from and to the stage before: equal
  for (const Transfer& transfer : last.transfers)
    CHECK(transfer.bytes == Bytes{128 * 64 * 2 / 2});
  // Without sequence parallelism the receiver puts the whole tensor together.
  Traffic gathers = traffic(last, GroupRole::tensor, CollectiveKind::all_gather, Pass::forward);
  if (!layout.sequence_parallel) CHECK(gathers == Traffic{2, 2 * 128 * 64 * 2});
}

TEST_CASE("A table shared by the first and the last stage is reduced over both", "[plan]") {
  const Plan plan = make_plan(test::gpt({.hidden = 64, .vocabulary = 1000, .tied = true}),
                              test::layout_for(1, 1, 4, 4));
  const Traffic table{1, 1000 * 64 * 2};
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const bool end = stage == 0 || stage == 3;
    CHECK(traffic(plan.programs[stage], GroupRole::tied_embedding, CollectiveKind::all_reduce,
                  Pass::gradient_sync) == (end ? table : Traffic{}));
  }
}

TEST_CASE("A table that two stages share has a bucket to itself, of the same shards", "[plan]") {
  Layout layout = test::layout_for(1, 2, 2, 2);
  layout.zero_stage = GENERATE(0, 1, 2, 3);
  const Plan plan = make_plan(test::transformer(0), layout);
  const auto bucket_of = [&](std::size_t stage, bool tied) {
    const Program& program = plan.programs[stage];
    for (const Site& site : program.sites) {
      if (site.place == (tied ? BlockPlace::output : BlockPlace::input) && site.tied == tied &&
          site.elements == 300 * 32) {
        CHECK(site.first == 0);
        return program.parameter_buckets[site.bucket];
      }
    }
    FAIL("no table");
    return ParameterBucket{};
  };
  const ParameterBucket first = bucket_of(0, false);
  const ParameterBucket last = bucket_of(1, true);
  CHECK(first.elements == 300 * 32);
  CHECK(last.elements == first.elements);
  CHECK(last.padded == first.padded);
}

TEST_CASE("Adam moves 28 bytes per parameter with 16-bit weights and gradients", "[plan]") {
  // Reads gradient 2, master, m, v 12; writes master, m, v 12, weight 2.
  Layout layout = test::layout_for(1, 1, 1, 1);
  layout.sequence_length = 1;
  const Plan plan = make_plan(test::layer_list(1, 1000), layout);
  const Program& program = plan.programs[0];
  const std::uint32_t adam = find(program, "adam", Pass::optimizer, -1);
  CHECK(program.kernels[program.work[adam]].bytes == Bytes{28'000});
}

TEST_CASE("Equal work is stored once", "[plan]") {
  const Plan plan = make_plan(test::gpt({.layers = 16}), test::layout_for(2, 2, 1, 8));
  const Program& program = plan.programs[0];
  CHECK(program.kernels.size() < 60);
  CHECK(program.collectives.size() < 20);
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      CHECK_FALSE(program.kernels[i] == program.kernels[j]);
  }
}

TEST_CASE("Eight-bit products encode inputs every time and weights once per step", "[plan]") {
  Layout layout = test::layout_for(1, 1, 1, 3);
  layout.compute_dtype = DType::fp8;
  const Plan plan = make_plan(test::gpt({.layers = 2}), layout);
  const Program& program = plan.programs[0];
  const auto encodings = [&](Pass pass, int microbatch) {
    int count = 0;
    for (const std::string& name : names_of(program, pass, 1, microbatch)) {
      count += name.ends_with(".encode") ? 1 : 0;
    }
    return count;
  };
  // Four linears, two of them behind norms, which write 8 bits themselves.
  CHECK(encodings(Pass::forward, 0) == 2 + 4);  // inputs and weights
  CHECK(encodings(Pass::forward, 1) == 2);
  CHECK(encodings(Pass::backward, 1) == 4 + 2);  // output gradients, transposes of what norms wrote
}

TEST_CASE("ZB-H1 runs weight gradients apart, and input gradients leave first", "[plan]") {
  Layout layout = test::layout_for(1, 1, 2, 4);
  layout.schedule = Schedule::zb_h1;
  const Plan plan = make_plan(test::gpt({.layers = 4}), layout);
  const Program& last = plan.programs[1];
  CHECK(names_of(last, Pass::weight_backward, 2, 0) ==
        Names{"mlp_down.bias_gradient", "mlp_down.weight_gradient", "mlp_up.bias_gradient",
              "mlp_up.weight_gradient", "projection.bias_gradient", "projection.weight_gradient",
              "qkv.bias_gradient", "qkv.weight_gradient"});
  CHECK(find(last, "send_backward", Pass::backward, -1) <
        find(last, "mlp_down.weight_gradient", Pass::weight_backward, 2));
}

TEST_CASE("Without overlap compute waits for every send", "[plan]") {
  Layout layout = test::layout_for(1, 1, 2, 2);
  layout.overlap_pipeline = GENERATE(true, false);
  const Plan plan = make_plan(test::gpt({.layers = 4}), layout);
  const Program& first = plan.programs[0];
  const std::uint32_t send = find(first, "send_forward", Pass::forward, -1);
  bool waited = false;
  for (std::uint32_t i = send; i < first.size(); ++i) {
    waited = waited || (first.stream[i] == Stream::compute && depends(first, i, send));
  }
  CHECK(waited == !layout.overlap_pipeline);
}

TEST_CASE("DTensor copies tokens around collectives and keeps what it has gathered", "[plan]") {
  Layout layout = test::layout_for(2, 1, 1, 1);
  layout.sequence_parallel = true;
  Model model = test::transformer(1);
  const auto count = [&](Action action, Pass pass) {
    return test::count_in_layer(make_plan(model, layout).programs[0], action, pass);
  };
  CHECK(count(Action::reorder_tokens, Pass::forward) == 0);
  CHECK(count(Action::gather_input, Pass::backward) == 2);
  model.execution.copies_tokens = model.execution.keeps_gathered_inputs = true;
  CHECK(count(Action::reorder_tokens, Pass::forward) == 4);   // two gathers, two sums
  CHECK(count(Action::reorder_tokens, Pass::backward) == 4);  // of gradients
  CHECK(count(Action::gather_input, Pass::backward) == 0);
}

TEST_CASE("FSDP2 copies every gathered unit before its first use", "[plan]") {
  Layout layout = test::layout_for(1, 2, 1, 1);
  layout.zero_stage = 3;
  Model model = test::transformer(1);
  model.execution.copies_weights = true;
  const Plan plan = make_plan(model, layout);
  const Program& program = plan.programs[0];
  int gathers = 0, copies = 0;
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    gathers += program.action[i] == Action::gather_weights ? 1 : 0;
    if (program.action[i] != Action::copy_weights) continue;
    ++copies;
    CHECK(program.stream[i] == Stream::compute);
  }
  CHECK(copies == gathers);
  CHECK(copies > 8);
}

TEST_CASE("An eager optimizer passes over memory once per operation", "[plan]") {
  Model model = test::transformer(1);
  const auto adam_bytes = [&] {
    const Plan plan = make_plan(model, test::layout_for(1, 1, 1, 1));
    const Program& program = plan.programs[0];
    for (std::uint32_t i = 0; i < program.size(); ++i)
      if (program.action[i] == Action::adam) return program.kernels[program.work[i]].bytes.count();
    return std::int64_t{0};
  };
  const std::int64_t fused = adam_bytes();  // 2 + 2 + 24 per element
  model.execution.optimizer = OptimizerForm::eager;
  CHECK(adam_bytes() * 28 == fused * (2 + 2 + 80));
}
