// Formats of optimizer states: bytes that are kept, and bytes that an update moves.
#include "sim/layout/optimizer_states.hpp"

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

// found() is of one rank, per element that it owns.
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

TEST_CASE("bytes of moments in blocks", "[layout][optimizer]") {
  Layout layout;
  layout.state_format = StateFormat::bitsandbytes_8bit;
  // Two moments: a byte for each number, 4 for each block that is begun.
  CHECK(moment_bytes(layout, 1024) == 2 * (1024 + 4 * 4));
  CHECK(moment_bytes(layout, 1025) == 2 * (1025 + 4 * 5));
  // 25 of them in fp32.
  CHECK(moment_bytes(layout, 1049, 25) == 2 * (1024 + 4 * 4 + 25 * 4));
  layout.optimizer = OptimizerKind::lion;
  CHECK(moment_bytes(layout, 1024) == 1024 + 4 * 4);
  layout.optimizer = OptimizerKind::ademamix;
  CHECK(moment_bytes(layout, 1024) == 3 * (1024 + 4 * 4));
  layout.optimizer = OptimizerKind::adam;
  layout.state_format = StateFormat::torchao_4bit;
  CHECK(moment_bytes(layout, 1024) == 2 * (512 + 4 * 8));
  // Moments that are too small have the format of the weights.
  CHECK(moment_bytes(layout, 1, 1) == 2 * 4);
  layout.master_weights = false;
  CHECK(moment_bytes(layout, 1, 1) == 2 * 2);
  layout.state_format = StateFormat::bitsandbytes_32bit;
  CHECK(moment_bytes(layout, 10) == 80);
  layout.state_format = StateFormat::plain;
  layout.moment_dtype = DType::bf16;
  CHECK(moment_bytes(layout, 10) == 40);
}

// Llama 2 7B in bf16 on an A100 with torchtune, peak memory in GiB: 51.6 with moments in bf16, 39.3
// with bitsandbytes, 39.1 and 33.2 with torchao (pytorch/ao at 36027d82, torchao/optim/README.md).
TEST_CASE("moments in blocks save the memory that was measured", "[layout][optimizer]") {
  constexpr std::int64_t parameters = 6'738'415'616;
  Layout layout;
  layout.master_weights = false;
  layout.moment_dtype = DType::bf16;
  const std::int64_t plain = moment_bytes(layout, parameters);
  const auto saved = [&](StateFormat format) {
    layout.state_format = format;
    return static_cast<double>(plain - moment_bytes(layout, parameters)) / (1LL << 30);
  };
  CHECK(saved(StateFormat::bitsandbytes_8bit) == Approx(51.6 - 39.3).epsilon(0.02));
  CHECK(saved(StateFormat::torchao_8bit) == Approx(51.6 - 39.1).epsilon(0.02));
  CHECK(saved(StateFormat::torchao_4bit) == Approx(51.6 - 33.2).epsilon(0.02));
}

TEST_CASE("an optimizer of 8 bits reads and writes its blocks, and no masters",
          "[plan][optimizer]") {
  Layout layout = test::layout_for(1, 1, 1, 2);
  layout.master_weights = false;
  layout.moment_dtype = DType::bf16;
  const Found plain = found(layout);
  const auto elements = static_cast<double>(plain.elements);
  CHECK(static_cast<double>(plain.kept) == 4 * elements);
  layout.moment_dtype = DType::fp32;
  layout.state_format = StateFormat::bitsandbytes_8bit;
  const Found blocks = found(layout);
  // The norms and some matrices of the small model are too small for blocks.
  const double each = static_cast<double>(blocks.kept) / elements;
  CHECK(each > 2 + 8.0 / 256);
  CHECK(each < 8);
  // Gradient, weight in, weight out: 2 bytes each; moments in and out.
  CHECK(blocks.moved == 6 * plain.elements + 2 * blocks.kept);
  layout.state_format = StateFormat::bitsandbytes_32bit;
  CHECK(found(layout).kept == 8 * plain.elements);
}

TEST_CASE("adafactor keeps rows and columns of matrices", "[plan][optimizer]") {
  Layout layout = test::layout_for(1, 1, 1, 2);
  const std::int64_t adam = found(layout).kept;
  layout.optimizer = OptimizerKind::adafactor;
  const Found one = found(layout);
  // Masters, and of the moments next to nothing.
  CHECK(one.kept > 4 * one.elements);
  CHECK(static_cast<double>(one.kept) < 4.3 * static_cast<double>(one.elements));
  CHECK(adam == 12 * one.elements);
  // 21 numbers, and the cast of a 16-bit gradient.
  CHECK(one.moved == (84 + 2 + 4) * one.elements);
  CHECK(one.temporary > 0);
}

TEST_CASE("states in blocks where no optimizer has them are refused", "[plan][problems]") {
  const auto key = [](auto change) {
    Layout layout = test::layout_for(1, 2, 1, 2);
    change(layout);
    const std::vector<LayoutProblem> found = layout_problems(layout, test::transformer(1));
    return found.empty() ? std::string{} : found[0].key;
  };
  using enum StateFormat;
  CHECK(key([](Layout& l) { l.state_format = bitsandbytes_8bit; }).empty());
  CHECK(key([](Layout& l) { l.state_format = torchao_fp8; }).empty());
  const auto with = [&](StateFormat format, OptimizerKind kind) {
    return key([&](Layout& l) {
      l.state_format = format;
      l.optimizer = kind;
    });
  };
  CHECK(with(bitsandbytes_8bit, OptimizerKind::ademamix).empty());
  CHECK(with(plain, OptimizerKind::ademamix) == "state_format");
  CHECK(with(torchao_8bit, OptimizerKind::lion) == "state_format");
  CHECK(with(bitsandbytes_8bit, OptimizerKind::sgd) == "state_format");
  CHECK(key([](Layout& l) {
          l.state_format = bitsandbytes_8bit;
          l.moment_dtype = DType::bf16;
        }) == "moment_dtype");
  CHECK(key([](Layout& l) {
          l.state_format = bitsandbytes_8bit;
          l.offload_optimizer = OffloadTarget::cpu;
        }) == "state_format");
  CHECK(key([](Layout& l) {
          l.optimizer = OptimizerKind::adafactor;
          l.zero_stage = 1;
        }) == "optimizer");
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
