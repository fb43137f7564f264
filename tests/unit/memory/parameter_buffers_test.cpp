// Parameters, gradients and states under Megatron-LM in the replay of an allocator.
#include "sim/memory/parameter_buffers.hpp"

#include "sim/memory/caching_allocator.hpp"
#include "sim/memory/memory.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/framework_programs.hpp"
#include "tests/unit/plan/models.hpp"
#include "tests/unit/plan/sketch.hpp"

using namespace sim;

namespace {

constexpr std::int64_t mib = 1 << 20;

struct Stage {
  std::vector<Buffer> buffers;
  std::vector<ParameterBucket> buckets;
  std::vector<Site> sites;

  BufferId persistent(std::int64_t bytes, BufferCategory category) {
    buffers.push_back({.size = Bytes{bytes}, .category = category, .persistent = true});
    return BufferId{static_cast<std::uint32_t>(buffers.size() - 1)};
  }

  // Sites of so many million elements each, in 16 bits with gradients in fp32.
  void add_bucket(const std::vector<std::int64_t>& parameters, int shards,
                  bool of_experts = false) {
    ParameterBucket& bucket = buckets.emplace_back();
    for (const std::int64_t elements : parameters) {
      Site& site = sites.emplace_back();
      site.bucket = static_cast<std::uint32_t>(buckets.size() - 1);
      site.first = bucket.elements;
      site.elements = elements * mib;
      bucket.elements += elements * mib;
    }
    bucket.padded = bucket.elements;
    bucket.shards = shards;
    bucket.of_experts = of_experts;
    bucket.weight = persistent(2 * bucket.padded, BufferCategory::weights);
    bucket.gradient = persistent(4 * bucket.padded, BufferCategory::gradients);
    bucket.optimizer = persistent(12 * bucket.padded / shards, BufferCategory::optimizer);
  }

  std::int64_t reserved(bool moved, std::int64_t activation = 0) {
    std::vector<Buffer> all = buffers;
    all.push_back({.size = Bytes{activation * mib}});
    test::Sketch sketch{all};
    const BufferId last{static_cast<std::uint32_t>(buffers.size())};
    sketch.add(OpKind::elementwise, Stream::compute, {},
               {{last, Access::write, Role::output}, {last, Access::free, Role::output}});
    sketch.program.parameter_buckets = buckets;
    sketch.program.sites = sites;
    sketch.program.allocation.parameter_buffers = true;
    sketch.program.allocation.moved_parameters = moved;
    return cached_memory(sketch.program, Bytes{100'000 * mib}).reserved.count() / mib;
  }
};

}  // namespace

TEST_CASE("replicas: parameters stay where modules made them", "[memory]") {
  // 20 and 40 million of 16 bits; 240 MiB of gradients; masters and moments for each.
  Stage stage;
  stage.add_bucket({20, 40}, 1);
  CHECK(stage.reserved(false) == 40 + 80 + 240 + 3 * (80 + 160));
}

TEST_CASE("a distributed optimizer: masters lie where parameters were made", "[memory]") {
  // Two ranks: parameters leave 120 MiB behind in blocks of 40 and 80. Of the 30 million that the
  // rank owns, 20 have a master of 80 MiB, 10 one of 40, for which there is room.
  Stage stage;
  stage.add_bucket({20, 40}, 2);
  CHECK(stage.reserved(true) == 120 + 120 + 240 + 2 * 120);
}

TEST_CASE("buckets share one buffer, experts have one of their own", "[memory]") {
  // Gradients of 8 + 8 MiB are one buffer of 16; with experts apart two of 8, in segments of 20, as
  // parameters of 4, masters and moments of 8 are.
  Stage together, apart;
  together.add_bucket({2}, 1);
  together.add_bucket({2}, 1);
  apart.add_bucket({2}, 1);
  apart.add_bucket({2}, 1, true);
  CHECK(together.reserved(false) == 16 + 4 * 20);
  CHECK(apart.reserved(false) == 5 * 20);
}

TEST_CASE("an expert is a parameter of its own", "[memory]") {
  Stage stage;
  stage.add_bucket({40}, 4);
  // Where the parameter of 80 MiB was: the owned quarter's master and its first moment.
  CHECK(stage.reserved(true) == 80 + 80 + 160 + 40);
  // Eight of 10 MiB each: no place for masters and moments of 20, of which the rank has two each.
  stage.sites.front().tensors = 8;
  CHECK(stage.reserved(true) == 80 + 80 + 160 + 6 * 20);
}

TEST_CASE("activations take the places of parameters, and moments those of activations",
          "[memory]") {
  Stage stage;
  stage.add_bucket({20, 40}, 1);
  // The first master of 80 MiB takes one place, of which 40 MiB are left in the other.
  const std::int64_t without = stage.reserved(true);
  CHECK(without == 120 + 120 + 240 + 160 + 480);
  CHECK(stage.reserved(true, 40) == without);
  // A moment of 80 takes what an activation of 100 has left, which then needs another place.
  CHECK(stage.reserved(true, 100) == without + 2 * 100 - 80);
}

TEST_CASE("Megatron-LM reserves at least what its tensors take", "[memory]") {
  const Framework megatron = framework_of(FrameworkName::megatron);
  for (const int zero : {0, 1}) {
    Layout layout = test::layout_for(1, 2, 1, 2);
    layout.zero_stage = zero;
    const Plan plan = make_plan(test::llama_of(megatron), layout);
    CHECK(plan.caching_allocator);
    for (const Program& program : plan.programs) {
      CHECK(program.allocation.parameter_buffers);
      CHECK(program.allocation.moved_parameters == (zero == 1));
      CHECK(cached_memory(program, Bytes{INT64_MAX / 4}).reserved >= memory_use(program).peak);
    }
  }
}
