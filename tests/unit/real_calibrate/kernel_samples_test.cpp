// Samples that stand for the kernels of a program, and the statistics over them.
#include "real/calibrate/kernel_samples.hpp"

#include <algorithm>
#include <cmath>

#include "real/calibrate/grid.hpp"
#include "tests/catch.hpp"

namespace {

using namespace real;

TEST_CASE("a median lies in the middle, or between the two in the middle") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 3, 2}) == 2.5);
  CHECK(median({7}) == 7);
}

TEST_CASE("every kernel of a program is in one variant, with equal work in each") {
  const GridProgram grid =
      grid_program({.hidden = 64, .sequence = 32, .micro_batch = 2}, sim::DType::fp32);
  const BoundProgram program = bind(grid.plan, grid.model, sim::RankId{0});
  const std::vector<KernelVariant> variants = kernel_variants(program);
  std::vector<int> seen(program.ops.size(), 0);
  for (const KernelVariant& variant : variants) {
    for (const std::uint32_t op : variant.ops) {
      ++seen[op];
      REQUIRE(*program.ops[op].kernel == variant.kernel);
      REQUIRE(program.ops[op].action == program.ops[variant.ops[0]].action);
    }
  }
  for (std::size_t i = 0; i < program.ops.size(); ++i)
    CHECK(seen[i] == (program.ops[i].kernel != nullptr ? 1 : 0));
}

TEST_CASE("the operators that lead in are the kernels before, in their order") {
  const GridProgram grid =
      grid_program({.hidden = 64, .sequence = 32, .micro_batch = 1}, sim::DType::fp32);
  const BoundProgram program = bind(grid.plan, grid.model, sim::RankId{0});
  std::vector<std::uint32_t> kernels;
  for (std::uint32_t i = 0; i < program.ops.size(); ++i)
    if (program.ops[i].kernel != nullptr) kernels.push_back(i);
  REQUIRE(kernels.size() > 5);
  CHECK(with_lead_in(program, kernels[0]) == std::vector<std::uint32_t>{kernels[0]});
  CHECK(with_lead_in(program, kernels[4]) ==
        std::vector<std::uint32_t>{kernels[2], kernels[3], kernels[4]});
}

TEST_CASE("spread is that of the kernels that make up the time") {
  std::vector<KernelVariant> variants(2);
  variants[0].ops = {0};
  variants[1].ops = {1};
  KernelTimes times;
  // Nine samples enclose their median with 95% between the order statistics 9/2 -+ 0.98 * 3, that
  // is 1.56 and 7.44: places 1 and 8 of 0 .. 8.
  times.of_variant = {{1, 1, 1, 1, 1, 1, 1, 1, 1},
                      {1e-6, 2e-6, 3e-6, 4e-6, 5e-6, 6e-6, 7e-6, 8e-6, 9e-6}};
  CHECK(times.spread(variants) == 0);  // the wide one takes no time
  times.of_variant[0] = {9, 9.5, 10, 10, 10, 10, 10, 10.5, 11};
  CHECK_THAT(times.spread(variants), WithinRel((11 - 9.5) / 2 / 10, 1e-12));
  times.of_variant[0] = {1, 1, 1, 1};
  CHECK(std::isinf(times.spread(variants)));
}

TEST_CASE("more samples go to kernels whose interval moves the step") {
  std::vector<KernelVariant> variants(3);
  for (KernelVariant& variant : variants)
    variant.ops = {0};
  KernelTimes times;
  times.of_variant = {{1, 1, 1, 1, 1},
                      {0.9, 0.95, 1, 1.05, 1.1},        // a tenth wide, half of the time
                      {1e-6, 2e-6, 3e-6, 4e-6, 5e-6}};  // wide, and nothing of the time
  CHECK(times.unsure(variants, 0.001) == std::vector<std::size_t>{1});
  CHECK(times.unsure(variants, 0.5).empty());
}

TEST_CASE("second moments and sums of exponentials are positive, and lie apart from the rest") {
  const GridProgram grid =
      grid_program({.hidden = 64, .sequence = 32, .micro_batch = 1}, sim::DType::fp32);
  const BoundProgram program = bind(grid.plan, grid.model, sim::RankId{0});
  std::int64_t moments = 0, owned = 0;
  for (const Operand& operand : positive_operands(program)) {
    CHECK(operand.offset + operand.bytes <= program.arena_bytes);
    for (const BoundBucket& bucket : program.buckets) {
      const Operand& all = bucket.optimizer;
      if (operand.offset < all.offset || operand.offset >= all.offset + all.bytes) continue;
      // Behind the first moments, to the end of the bucket's state.
      CHECK(operand.offset + operand.bytes == all.offset + all.bytes);
      CHECK(operand.bytes * 2 <= all.bytes);
      moments += operand.bytes;
    }
  }
  for (const BoundBucket& bucket : program.buckets)
    owned += bucket.owned;
  CHECK(moments == 4 * owned);
}

TEST_CASE("a kernel's time is the mean of its variants by how many operators they stand for") {
  KernelTable table;
  const sim::Kernel gemm{.kind = sim::OpKind::gemm, .m = 8, .n = 8, .k = 8};
  CHECK_FALSE(table.has(gemm));
  table.add(gemm, 2e-6, 3, 5);
  table.add(gemm, 6e-6, 1, 5);
  CHECK(table.has(gemm));
  const std::vector<sim::MeasuredKernel> rows = table.rows("test");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].time == std::chrono::microseconds{3});  // (3 * 2 + 6) / 4
  CHECK(rows[0].samples == 10);
  CHECK(rows[0].source == "test");
}

}  // namespace
