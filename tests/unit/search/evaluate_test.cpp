#include "sim/search/evaluate.hpp"

#include <algorithm>
#include <string>

#include "tests/catch.hpp"
#include "tests/unit/search/small_search.hpp"

namespace sim {
namespace {

using test::small_search;

// All candidates twice with one memory, to and fro: each is what it is alone.
void compare_with_memory(const SearchSpecification& asked) {
  const Candidates listed = list_candidates(asked);
  const auto count = static_cast<std::uint32_t>(listed.all.size());
  REQUIRE(count > 20);
  EvaluationMemory memory;
  for (std::uint32_t k = 0; k < 2 * count; ++k) {
    const std::uint32_t i = k < count ? k : 2 * count - 1 - k;
    CAPTURE(i, describe(layout_of(asked, listed, i)));
    REQUIRE(evaluate(asked, listed, i, memory) == evaluate(asked, listed, i));
  }
}

}  // namespace

TEST_CASE("what a search keeps of earlier layouts changes no evaluation", "[search]") {
  compare_with_memory(
      small_search("gpus: 8, schedule: [1f1b, interleaved], recompute: none, micro_batch: 2, "
                   "zero_stage: [0, 1]"));
  compare_with_memory(
      small_search("gpus: [4, 8], gpus_per_node: [4, 8], micro_batch: [1, 2], recompute: none, "
                   "schedule: 1f1b, shard_group: 0",
                   "global_batch: 16, overlap: {tensor_wgrad: true}"));
}

TEST_CASE("nor does it where all-reduces of one group take different algorithms", "[search]") {
  compare_with_memory(small_search(
      "gpus: 8, pipeline_parallel: [1, 2], micro_batch: [1, 2, 4, 8], recompute: none, "
      "schedule: 1f1b, shard_group: 0",
      "global_batch: 32, bucket: 64 KiB", "simulation: {stragglers: [{rank: 3, factor: 1.5}]}\n"));
}

}  // namespace sim
