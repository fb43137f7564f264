#include "sim/framework/bucket_sizes.hpp"

#include "sim/framework/framework.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

constexpr std::int64_t mebibyte = 1 << 20;

BucketSizes sizes_under(FrameworkName name, const Layout& layout) {
  return bucket_sizes(layout, framework_of(name).execution);
}

}  // namespace

TEST_CASE("Megatron-LM's buckets grow with the data-parallel ranks", "[plan]") {
  Layout layout;
  layout.gradient_dtype = DType::fp32;
  layout.data_parallel = 8;
  CHECK(sizes_under(FrameworkName::megatron, layout).others == Bytes{160'000'000});
  layout.data_parallel = 48;
  layout.context_parallel = 2;
  const BucketSizes wide = sizes_under(FrameworkName::megatron, layout);
  CHECK(wide.others == Bytes{192'000'000});
  CHECK(wide.first == wide.others);
  layout.overlap_gradients = false;
  CHECK(sizes_under(FrameworkName::megatron, layout) == BucketSizes{one_bucket, one_bucket});
}

TEST_CASE("Megatron-LM's later stages and chunks are one bucket each", "[plan]") {
  Layout layout;
  layout.bucket = Bytes{4096};
  const Execution megatron = framework_of(FrameworkName::megatron).execution;
  const BucketSizes small{Bytes{4096}, Bytes{4096}};
  const BucketSizes whole{one_bucket, one_bucket};
  CHECK(bucket_sizes(layout, megatron, {.stage = 0, .chunk = 0}) == small);
  CHECK(bucket_sizes(layout, megatron, {.stage = 1, .chunk = 0}) == whole);
  CHECK(bucket_sizes(layout, megatron, {.stage = 0, .chunk = 1}) == whole);
  layout.zero_stage = 2;  // would not free a gradient before the last
  CHECK(bucket_sizes(layout, megatron, {.stage = 1, .chunk = 0}) == small);
  const Execution pytorch = framework_of(FrameworkName::pytorch).execution;
  CHECK(bucket_sizes(layout, pytorch, {.stage = 1, .chunk = 1}) == small);
}

TEST_CASE("PyTorch's first bucket is small, DeepSpeed's are all of one size", "[plan]") {
  Layout layout;
  layout.gradient_dtype = DType::bf16;
  CHECK(sizes_under(FrameworkName::pytorch, layout) ==
        BucketSizes{Bytes{mebibyte}, Bytes{25 * mebibyte}});
  CHECK(sizes_under(FrameworkName::torchtitan, layout) ==
        BucketSizes{Bytes{mebibyte}, Bytes{100 * mebibyte}});
  for (const FrameworkName name :
       {FrameworkName::deepspeed, FrameworkName::megatron_deepspeed, FrameworkName::scaling})
    CHECK(sizes_under(name, layout) == BucketSizes{Bytes{1'000'000'000}, Bytes{1'000'000'000}});
}

TEST_CASE("what a layout says of its buckets comes before its framework", "[plan]") {
  Layout layout;
  layout.bucket = Bytes{4096};
  CHECK(sizes_under(FrameworkName::megatron, layout) == BucketSizes{Bytes{4096}, Bytes{4096}});
  CHECK(sizes_under(FrameworkName::pytorch, layout) == BucketSizes{Bytes{4096}, Bytes{4096}});
  layout.bucket = Bytes{8 * mebibyte};
  CHECK(sizes_under(FrameworkName::pytorch, layout).first == Bytes{mebibyte});
  layout.first_bucket = Bytes{17};
  CHECK(sizes_under(FrameworkName::deepspeed, layout) ==
        BucketSizes{Bytes{17}, Bytes{8 * mebibyte}});
}

TEST_CASE("Megatron-LM's buckets by number divide the parameters of a rank", "[plan]") {
  Layout layout;
  layout.gradient_dtype = DType::fp32;
  layout.buckets = 12;
  const Execution megatron = framework_of(FrameworkName::megatron).execution;
  const BucketSizes each{Bytes{4 * 83}, Bytes{4 * 83}};
  CHECK(bucket_sizes(layout, megatron, {.stage = 0, .chunk = 0, .parameters = 1'000}) == each);
  const BucketSizes whole{one_bucket, one_bucket};
  CHECK(bucket_sizes(layout, megatron, {.stage = 1, .chunk = 0, .parameters = 1'000}) == whole);
  layout.overlap_gradients = false;
  CHECK(bucket_sizes(layout, megatron, {.stage = 0, .chunk = 0, .parameters = 1'000}) == whole);
}
