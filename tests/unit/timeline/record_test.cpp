// Records: written, read back, refused where they contradict themselves; and two side by side.
#include "sim/timeline/record.hpp"

#include "sim/base/input_error.hpp"
#include "sim/timeline/compare.hpp"
#include "tests/catch.hpp"
#include "tests/unit/engine/hand_plan.hpp"

using namespace sim;
using namespace std::chrono_literals;

namespace {

TimePoint at(Duration time) {
  return TimePoint{} + time;
}

// Two ranks of one program: two products.
Record two_products(Duration first, Duration second) {
  HandProgram program;
  const OpId a = program.gemm(64);
  const OpId b = program.gemm(128);
  const Plan plan = hand_plan({program.program}, 2, 1);
  Timeline timeline;
  timeline.engine = "simulated";
  timeline.end = at(first + second);
  for (const std::uint32_t rank : {0U, 1U})
    timeline.tracks.push_back(
        {RankId{rank},
         1,
         {{a, at(0us), at(0us), at(first)}, {b, at(first), at(first), at(first + second)}}});
  RecordOrigin origin;
  origin.scenario = "two \"products\"";
  origin.steps = {first, second};
  return make_record(plan, timeline, origin);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t found = text.find(from);
  REQUIRE(found != std::string::npos);
  return text.replace(found, from.size(), to);
}

}  // namespace

TEST_CASE("a record reads back to the same text", "[record]") {
  const std::string text = to_text(two_products(10us, 30us));
  const Record read = parse_record(text, "r.json");
  CHECK(to_text(read) == text);
  CHECK(read.origin.scenario == "two \"products\"");
  CHECK(read.end == at(40us));
  REQUIRE(read.tracks.size() == 2);
  CHECK(read.tracks[1].spans[1].begin == at(10us));
}

TEST_CASE("a record tells the implementations of attention apart", "[record]") {
  Record record = two_products(10us, 30us);
  std::vector<Kernel>& kernels = record.programs[0].kernels;
  for (const AttentionKernel implementation :
       {AttentionKernel::flash, AttentionKernel::flash_1, AttentionKernel::flash_2,
        AttentionKernel::unfused}) {
    kernels[0].attention = implementation;
    CHECK(parse_record(to_text(record), "r.json").programs[0].kernels == kernels);
  }
}

TEST_CASE("a record of version 1 is read", "[record]") {
  // Columns 5 and 6 of a kernel: flash, flash_2.
  const auto attention_of = [](const std::string& flags) {
    const std::string text = R"({"format":"stepcast record","version":1,"scenario":"s",
      "engine":"host","date":"","machine":"","provenance":[],"gpus_per_node":1,"steps_ps":[],
      "world_size":1,"pipeline":0,"end_ps":9,"words":{"kind":["attention"],"stream":["compute"],
      "pass":["forward"],"dtype":["bf16"],"operation":["all_reduce"],"group":["data"]},
      "programs":[{"stage":0,"names":["core"],"kernels":[[0,0,1,1,)" +
                             flags +
                             R"(,64,32,16,2,4,1,192,3]],"flops":[8],"collectives":[],
      "transfers":[],"operators":[[0,0,0,0,0,0,0,0]]}],"tracks":[{"rank":0,"represents":1,
      "program":0,"at":[0,0,0],"peak_memory":0,"spans_ps":[0,0,9]}],"collectives":[]})";
    const Kernel kernel = parse_record(text, "r.json").programs.at(0).kernels.at(0);
    CHECK(kernel == Kernel{.kind = OpKind::attention,
                           .part = AttentionPart::backward,
                           .causal = true,
                           .attention = kernel.attention,
                           .m = 64,
                           .n = 32,
                           .k = 16,
                           .batch = 2,
                           .heads = 4,
                           .kv_heads = 1,
                           .flops = Flops{8},
                           .bytes = Bytes{192},
                           .launches = 3});
    return kernel.attention;
  };
  CHECK(attention_of("0,0") == AttentionKernel::unfused);
  CHECK(attention_of("1,0") == AttentionKernel::flash);
  CHECK(attention_of("1,1") == AttentionKernel::flash_2);
}

TEST_CASE("a record that contradicts itself is refused", "[record]") {
  const std::string text = to_text(two_products(10us, 30us));
  CHECK_THROWS_WITH(parse_record(replaced(text, "\"version\":2", "\"version\":3"), "r.json"),
                    "r.json:1:39: error: version 3 of the format; this program reads 1 to 2");
  CHECK_THROWS_WITH(parse_record(replaced(text, "\"version\":2,", ""), "r.json"),
                    "r.json:12:9: error: \"version\" must come before \"words\"");
  CHECK_THROWS_WITH(parse_record(replaced(text, "\"world_size\":2", "\"world_size\":1"), "r.json"),
                    "r.json: error: rank 1: is beyond the world size");
  CHECK_THROWS_AS(parse_record(replaced(text, "\"date\"", "\"dtae\""), "r.json"), InputError);
  CHECK_THROWS_AS(
      parse_record(replaced(text, "\"end_ps\":40000000", "\"end_ps\":39999999"), "r.json"),
      InputError);
  CHECK_THROWS_AS(parse_record(text.substr(0, text.size() / 2), "r.json"), InputError);
  CHECK_THROWS_WITH(parse_record("{\"format\":\"other\"}", "r.json"),
                    "r.json:1:11: error: this is no record of stepcast");
}

TEST_CASE("a comparison says what explains the difference", "[compare]") {
  // B's first product takes 10 us more, its second 30 us more: a quarter and three quarters, of two
  // operators of one name; with different names they would be two rows.
  const Record a = two_products(10us, 30us);
  const Record b = two_products(20us, 60us);
  const Comparison c = compare(a, b);
  CHECK_THAT(c.step.a, WithinRel(40e-6, 1e-12));
  CHECK_THAT(c.step.b, WithinRel(80e-6, 1e-12));
  REQUIRE(!c.parts.empty());
  CHECK(c.parts[0].name == "compute");
  CHECK_THAT(c.parts[0].time.difference(), WithinRel(40e-6, 1e-9));
  double share = 0, counted = 0;
  for (const OperatorRow& row : c.rows) {
    share += row.share;
    counted += row.count_a;
  }
  CHECK_THAT(share, WithinRel(1.0, 1e-9));
  CHECK_THAT(counted, WithinRel(2.0, 1e-9));
  CHECK(c.sameness.same);
  CHECK(c.sameness.operators == 4);
  CHECK(!comparison_table(c, false).empty());
  CHECK(!comparison_json(c).empty());
  CHECK(!comparison_csv(c).empty());
  CHECK(!comparison_markdown(c).empty());
}

TEST_CASE("the first difference of two programs is named", "[compare]") {
  const Record a = two_products(10us, 30us);
  Record b = a;
  b.programs[0].kernels[b.programs[0].work[1]].k += 1;
  const Sameness same = same_work(a, b);
  CHECK(!same.same);
  CHECK(same.first_difference.find("rank 0, compute operator 1, ") == 0);
  Record fewer = a;
  fewer.world_size = 4;
  CHECK(same_work(a, fewer).first_difference == "2 ranks in A, 4 in B");
}
