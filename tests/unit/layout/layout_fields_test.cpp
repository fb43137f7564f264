// The table of the fields of a layout, and a layout in one line.
#include "sim/layout/layout_fields.hpp"

#include <set>

#include "sim/layout/layout_text.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

// Another value of that field.
void change(int& value) {
  value += 3;
}
void change(std::int64_t& value) {
  value += 3;
}
void change(double& value) {
  value += 0.5;
}
void change(bool& value) {
  value = !value;
}
void change(std::optional<Bytes>& value) {
  value = Bytes{1000};
}
void change(std::vector<Dimension>& value) {
  std::swap(value.front(), value.back());
}
void change(std::optional<DType>& value) {
  value = DType::bf16;
}
void change(std::vector<RecomputeModule>& value) {
  value.push_back(RecomputeModule::mlp);
}
void change(std::vector<LoraModule>& value) {
  value.pop_back();
}
void change(std::vector<OffloadModule>& value) {
  value.push_back(OffloadModule::core_attn);
}
void change(std::vector<LinearModule>& value) {
  value.push_back(LinearModule::qkv);
}
void change(ExpertLoad& value) {
  value = ExpertLoad{{{3, 1}}};
}
void change(LengthSource& value) {
  value.name = "lognormal";
}
void change(std::vector<int>& value) {
  value.push_back(2);
}
template <class Enum>
void change(Enum& value) {
  const auto words = words_of(Enum{});
  value = words[0].value == value ? words[1].value : words[0].value;
}

}  // namespace

// A new member of Layout does not compile here: give it a row of the table, and a name below.
TEST_CASE("every member of a layout has a row", "[layout]") {
  const Layout layout;
  const auto& [tp, cp, pp, dp, ep, etp, imbalance, dispatcher, sms, dispatch8, choice, capacity,
               pad, load, load_cv, load_seed, virtual_stages, placement, sequence, batch, micro,
               v1, v2, v3, v4, packed, k1, k2, k3, k4, k5, k6, schedule, runs, layers, batches, sp, zero, group,
               prefetch, reshard, recompute, every, first_layers, modules, tiles, chunks, attention,
               exchange, context_heads, compute, activation, gradient, reduce, master, optimizer, moment,
               second_moment, states, master_format, eight_bit, b1, b2, q1, q2, l1, l2, l3, l4, l5,
               l6, l7, l8, l9, l10, bucket, first, buckets, o1, o2, o3, o4, o5, o6, o7, o8, c1, c2,
               c3, c4, c5, c6, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, s1, s2, s3, s4, s5, s6, s7,
               s8, s9, s10, s11, p1, p2, p3, p4, p5] = layout;
  CHECK(&tp == &layout.tensor_parallel);
  CHECK(&o5 == &layout.overlap_tensor_products);
  CHECK(&pad == &layout.pad_to_capacity);
  CHECK(&o8 == &layout.delay_weight_gradients);
  CHECK(&c6 == &layout.node_ranks);
  CHECK(&v1 == &layout.images);
  CHECK(&v4 == &layout.freeze_vision_projection);
  CHECK(&k1 == &layout.packing_lengths);
  CHECK(&k6 == &layout.packing_seed);
  CHECK(&runs == &layout.pipeline_runs);
  CHECK(&batches == &layout.replica_batches);
  CHECK(&tiles == &layout.mlp_tiles);
  CHECK(&chunks == &layout.loss_chunks);
  CHECK(&context_heads == &layout.context_heads);
  CHECK(&states == &layout.state_format);
  CHECK(&l9 == &layout.trains_head);
  CHECK(&l10 == &layout.expert_adapters);
  CHECK(&f3 == &layout.offload_overlap);
  CHECK(&f9 == &layout.offload_modules);
  CHECK(&f10 == &layout.offload_least);
  CHECK(&q2 == &layout.fp8_modules);
  CHECK(&buckets == &layout.buckets);
  CHECK(&s11 == &layout.outer_on_host);
  CHECK(&p5 == &layout.server_partition);
  CHECK(layout_fields().size() == 118);
  std::set<std::string> keys;
  for (const LayoutField& field : layout_fields())
    keys.insert(field.key.path);
  CHECK(keys.size() == 118);
}

TEST_CASE("a field that differs is told, and no other", "[layout]") {
  const Layout layout;
  for (const LayoutField& field : layout_fields()) {
    CAPTURE(field.key.path);
    Layout other = layout;
    std::visit([&](auto member) { change(other.*member); }, field.member);
    CHECK_FALSE(layout == other);
    CHECK(value_text(layout, field) != value_text(other, field));
    for (const LayoutField& each : layout_fields())
      CHECK(same_value(layout, other, each) == (&each != &field));
  }
}

TEST_CASE("values as a file and as JSON have them", "[layout]") {
  Layout layout;
  layout.bucket = Bytes{25 << 20};
  const auto text = [&](const char* key) { return value_text(layout, layout_field(key)); };
  const auto json = [&](const char* key) { return value_json(layout, layout_field(key)); };
  CHECK(text("bucket") == "25 MiB");
  CHECK(json("bucket") == "26214400");
  CHECK(text("first_bucket") == "auto");
  CHECK(json("first_bucket") == "null");
  CHECK(text("placement") == "[tp, cp, dp, pp]");
  CHECK(json("placement") == "[\"tp\", \"cp\", \"dp\", \"pp\"]");
  CHECK(text("layers_per_chunk") == "even");
  CHECK(json("layers_per_chunk") == "[]");
  CHECK(text("recompute_modules") == "[]");
  CHECK(text("second_moment_dtype") == "auto");
  CHECK(json("second_moment_dtype") == "null");
  layout.recompute = Recompute::selective;
  layout.recompute_modules = {RecomputeModule::moe_act, RecomputeModule::layernorm};
  layout.second_moment_dtype = DType::bf16;
  CHECK(text("recompute_modules") == "[moe_act, layernorm]");
  CHECK(json("recompute_modules") == "[\"moe_act\", \"layernorm\"]");
  CHECK(json("second_moment_dtype") == "\"bf16\"");
  CHECK(layout_text(layout, LayoutForm::sentence) ==
        "tp 1 x pp 1 x dp 1, recompute selective (moe_act+layernorm), second moments in bf16");
  CHECK(text("schedule") == "1f1b");
  CHECK(json("schedule") == "\"1f1b\"");
  CHECK(json("overlap.gradients") == "true");
  CHECK(text("expert_imbalance") == "1");
  CHECK(json("expert_imbalance") == "1.0");
}

TEST_CASE("a layout in one line", "[layout]") {
  Layout layout;
  layout.tensor_parallel = 8;
  layout.pipeline_parallel = 2;
  layout.data_parallel = 4;
  layout.global_batch = 64;
  layout.virtual_stages = 2;
  layout.schedule = Schedule::interleaved;
  layout.sequence_parallel = true;
  layout.zero_stage = 1;
  layout.shard_group = 2;
  CHECK(layout_text(layout, LayoutForm::terms) ==
        "tp 8 pp 2 v 2 dp 4 mb 1 interleaved sp zero-1/2");
  CHECK(layout_text(layout, LayoutForm::summary) == "tp 8 x pp 2 x dp 4, v 2, mb 1, ZeRO-1, sp");
  CHECK(layout_text(layout, LayoutForm::sentence) ==
        "tp 8 x pp 2 x dp 4, interleaved x2, 16 micro-batches of 1, sequence parallel, ZeRO-1 in "
        "groups of 2");
  const Layout plain;
  CHECK(layout_text(plain, LayoutForm::terms) == "tp 1 pp 1 dp 1 mb 1");
  CHECK(layout_text(plain, LayoutForm::sentence) == "tp 1 x pp 1 x dp 1");
}
