// Compressed gradients and parameters (Layout::compression).
#include "sim/plan/parameters/compression_work.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/chain_rule.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

constexpr std::array every_scheme{GradientCompression::top_k,     GradientCompression::random_k,
                                  GradientCompression::power_sgd, GradientCompression::one_bit,
                                  GradientCompression::int8,      GradientCompression::int4};

bool is_integer(GradientCompression scheme) {
  return scheme == GradientCompression::int8 || scheme == GradientCompression::int4;
}

Layout compressed(GradientCompression scheme) {
  Layout layout = test::layout_for(1, 4, 1, 2);
  layout.compression = scheme;
  layout.zero_stage = is_integer(scheme) ? 3 : 0;
  return layout;
}

std::int64_t sent(const Program& program, Pass pass) {
  std::int64_t bytes = 0;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.kind[op] == OpKind::collective && program.pass[op] == pass)
      bytes += program.collectives[program.work[op]].bytes.count();
  return bytes;
}

int count(const Program& program, Action action) {
  return static_cast<int>(std::count(program.action.begin(), program.action.end(), action));
}

Plan checked(const Model& model, const Layout& layout) {
  Plan plan = test::checked_plan(model, layout);
  for (const Program& program : plan.programs)
    test::Interpreter{model, plan, program}.run();
  return plan;
}

}  // namespace

TEST_CASE("every scheme reduces every gradient once", "[plan]") {
  const Model model = test::transformer(0);
  for (const GradientCompression scheme : every_scheme) {
    INFO(word(scheme));
    for (const int micro_batches : {1, 2}) {
      for (const int node : {0, 2}) {
        Layout layout = compressed(scheme);
        layout.global_batch = std::int64_t{4} * micro_batches;
        if (node > 0 && !is_integer(scheme)) continue;
        layout.node_ranks = node;
        const Plan plan = checked(model, layout);
        CHECK(count(plan.programs[0], Action::reduce) == 0);
        const int reductions = count(plan.programs[0], Action::compress);
        CHECK(reductions > 0);
        CHECK(count(plan.programs[0], Action::decompress) == reductions);
      }
    }
  }
}

TEST_CASE("ZeRO++ gathers integers forward and within nodes backward", "[plan]") {
  const Model model = test::transformer(0);
  Layout plain = compressed(GradientCompression::none);
  plain.zero_stage = 3;
  Layout all = plain;
  all.quantized_weights = all.secondary_shard = true;
  all.node_ranks = 2;
  const Program before = checked(model, plain).programs[0];
  const Program after = checked(model, all).programs[0];
  CHECK(count(after, Action::gather_weights) == 0);
  CHECK(count(after, Action::keep_secondary_shard) ==
        static_cast<int>(after.parameter_buckets.size()));
  // 8 bits instead of 16, and a scale for 2048 of them.
  const auto ratio = static_cast<double>(sent(after, Pass::parameter_sync)) /
                     static_cast<double>(sent(before, Pass::parameter_sync));
  CHECK(ratio == Approx(0.5).epsilon(0.01));
  std::int64_t within_nodes = 0, over_nodes = 0;
  for (std::uint32_t op = 0; op < after.size(); ++op) {
    if (after.action[op] != Action::exchange_compressed) continue;
    if (after.pass[op] != Pass::parameter_sync) continue;
    const Collective& gather = after.collectives[after.work[op]];
    (gather.group == GroupRole::shard ? within_nodes : over_nodes) += gather.bytes.count();
  }
  CHECK(within_nodes > 0);
  CHECK(over_nodes > 0);
}

TEST_CASE("what a scheme sends", "[plan]") {
  const lowering::CompressedBucket bucket{
      .elements = 1 << 20, .padded = 1 << 20, .ranks = 8, .matrices = {{0, 1024, 1024}}};
  const auto of = [&](GradientCompression scheme) {
    Layout layout = compressed(scheme);
    layout.compression_density = 0.01;
    return lowering::compression_plan(layout, bucket);
  };
  // A value and a place, from each of eight ranks.
  CHECK(of(GradientCompression::top_k).exchanges[0].came.count() == 8 * 8 * 10485);
  CHECK(of(GradientCompression::random_k).exchanges[0].message.count() == 4 * 10485);
  // r (m + n) numbers in two turns.
  const auto factors = of(GradientCompression::power_sgd);
  CHECK(factors.exchanges[0].message.count() == 4 * 4 * 1024);
  CHECK(factors.exchanges[1].message.count() == 4 * 4 * 1024);
  // A bit each and a scale for each part.
  const auto bits = of(GradientCompression::one_bit);
  CHECK(bits.exchanges[0].came.count() == (1 << 17) + 8 * 4);
  CHECK(bits.exchanges[1].came.count() == (1 << 17) + 8 * 4);
  const auto integers = of(GradientCompression::int4);
  CHECK(integers.exchanges[0].came.count() == (1 << 19) + 4 * (1 << 20) / 2048);
}

TEST_CASE("a matrix is sent as factors where that halves it", "[plan]") {
  CHECK(lowering::is_worth_factors(1024, 1024, 4));
  CHECK_FALSE(lowering::is_worth_factors(16, 1024, 8));
  Layout layout = compressed(GradientCompression::power_sgd);
  layout.compression_rank = 2;
  const Program program = checked(test::transformer(0), layout).programs[0];
  std::int64_t in_factors = 0, all = 0;
  for (const ParameterBucket& bucket : program.parameter_buckets) {
    all += bucket.elements;
    for (const MatrixPlace& matrix : bucket.matrices) {
      CHECK(matrix.first + matrix.rows * matrix.columns <= bucket.elements);
      in_factors += matrix.rows * matrix.columns;
    }
  }
  CHECK(in_factors > all / 2);
  CHECK(in_factors < all);
}

TEST_CASE("contradictions of compression are refused by their keys", "[plan]") {
  const auto problem = [](Layout layout) {
    std::string text;
    for (const LayoutProblem& found : layout_problems(layout, test::transformer(0)))
      text += found.key + "; ";
    return text;
  };
  Layout layout = compressed(GradientCompression::top_k);
  layout.zero_stage = 3;
  CHECK(problem(layout) == "compression.gradients; ");
  layout = compressed(GradientCompression::int4);
  layout.zero_stage = 1;
  CHECK(problem(layout) == "compression.gradients; ");
  layout = compressed(GradientCompression::none);
  layout.secondary_shard = true;
  CHECK(problem(layout) == "compression.secondary_shard; compression.node_ranks; ");
  layout = compressed(GradientCompression::int8);
  layout.node_ranks = 3;
  CHECK(problem(layout) == "compression.node_ranks; ");
  layout = compressed(GradientCompression::none);
  layout.compression_rank = 8;
  CHECK(problem(layout) == "compression.rank; ");
  layout = compressed(GradientCompression::one_bit);
  layout.optimizer = OptimizerKind::lion;
  CHECK(problem(layout) == "compression.gradients; ");
}
