// Formats of optimizer states: bytes that are kept, and bytes that an update moves.
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Layout states(DType first, std::optional<DType> second, MasterFormat masters) {
  Layout layout = test::layout_for(1, 4, 1, 2);
  layout.zero_stage = 1;
  layout.moment_dtype = first;
  layout.second_moment_dtype = second;
  layout.master_format = masters;
  return layout;
}

struct Found {
  std::int64_t kept = 0, moved = 0, temporary = 0, elements = 0;
};

// Of one rank, per element that it owns.
Found found(const Layout& layout) {
  const Model model = test::transformer(1);
  const Plan plan = test::checked_plan(model, layout);
  const Program& program = plan.programs[0];
  Found found;
  for (const ParameterBucket& bucket : program.parameter_buckets)
    found.elements += bucket.padded / layout.data_parallel;
  for (const Buffer& buffer : program.buffers)
    if (buffer.category == BufferCategory::optimizer)
      (buffer.persistent ? found.kept : found.temporary) += buffer.size.count();
  for (std::uint32_t op = 0; op < program.size(); ++op)
    if (program.action[op] == Action::adam)
      found.moved += program.kernels[program.work[op]].bytes.count();
  return found;
}

}  // namespace

TEST_CASE("states of an optimizer by their formats", "[plan][optimizer]") {
  using enum DType;
  const auto check = [](const Layout& layout, std::int64_t kept, std::int64_t moved,
                        std::int64_t temporary) {
    const Found one = found(layout);
    CHECK(one.kept == kept * one.elements);
    CHECK(one.moved == moved * one.elements);
    CHECK(one.temporary == temporary * one.elements);
  };
  // A gradient of 2 bytes is read and a weight of 2 written: 4. States are read and written.
  check(states(fp32, {}, MasterFormat::fp32), 12, 4 + 24, 0);
  check(states(bf16, {}, MasterFormat::fp32), 8, 4 + 16, 0);
  // The weight is read, too, as half of the master.
  check(states(bf16, {}, MasterFormat::remainders), 6, 4 + 2 + 12, 0);
  // Moments in 8 bits: to fp32 1 + 4, there and back 8, extrema 4, cast 4 + 1: 22 each.
  check(states(fp8, {}, MasterFormat::remainders), 4, 4 + 2 + 4 + 2 * 22, 8);
  // One in bf16 beside another format: to fp32 2 + 4, there and back 8, cast 4 + 2, copy 2 + 2.
  check(states(bf16, fp32, MasterFormat::fp32), 10, 4 + 8 + 8 + 24, 4);
  check(states(fp8, bf16, MasterFormat::remainders), 5, 4 + 2 + 4 + 22 + 24, 8);
  // fp16: to fp32 2 + 4, scaled 8, there and back 8, extrema 4, scaled 8, copy 4 + 2: 40.
  check(states(fp32, {}, MasterFormat::fp16), 10, 4 + 16 + 40, 4);
}

TEST_CASE("formats of states that no optimizer has are refused", "[plan][problems]") {
  const auto problem = [](Layout layout, auto change) {
    change(layout);
    const std::vector<LayoutProblem> found = layout_problems(layout, test::transformer(1));
    return found.empty() ? std::string{} : found[0].key;
  };
  const Layout mixed = states(DType::bf16, DType::fp32, MasterFormat::remainders);
  CHECK(problem(mixed, [](Layout&) {}).empty());
  CHECK(problem(mixed, [](Layout& l) { l.optimizer = OptimizerKind::lion; }) ==
        "second_moment_dtype");
  CHECK(problem(mixed, [](Layout& l) { l.second_moment_dtype = DType::tf32; }) ==
        "second_moment_dtype");
  CHECK(problem(mixed, [](Layout& l) { l.offload_optimizer = OffloadTarget::cpu; }) ==
        "second_moment_dtype");
  CHECK(problem(mixed, [](Layout& l) { l.moment_dtype = DType::tf32; }) == "moment_dtype");
  const Layout remainders = states(DType::fp32, {}, MasterFormat::remainders);
  CHECK(problem(remainders, [](Layout& l) { l.activation_dtype = DType::fp16; }) ==
        "master_format");
  CHECK(problem(remainders, [](Layout& l) { l.master_weights = false; }) == "master_format");
}
