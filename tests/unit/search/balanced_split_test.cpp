// Splits of the layers against all splits, one by one.
#include "sim/search/balanced_split.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>

#include "sim/search/splitter.hpp"
#include "sim/search/workload.hpp"
#include "tests/catch.hpp"
#include "tests/property/random_scenario.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

struct SplitCost {
  std::int64_t longest = 0;
  double squares = 0;
  auto key(const std::vector<int>& split) const { return std::tuple{longest, squares, split}; }
};

// Nothing: some chunk is empty that may not be, or beyond the memory.
std::optional<SplitCost> cost_of(const SplitProblem& problem, const std::vector<int>& split) {
  SplitCost cost;
  std::size_t layer = 0;
  for (std::size_t chunk = 0; chunk < split.size(); ++chunk) {
    const bool first = chunk == 0, last = chunk + 1 == split.size();
    if (split[chunk] == 0 && !(first && problem.has_input) && !(last && problem.has_output))
      return {};
    ChunkLoad load;
    if (first) load += problem.input;
    if (last) load += problem.output;
    for (int place = 0; place < split[chunk]; ++place, ++layer)
      load += problem.layers[std::min<std::size_t>(static_cast<std::size_t>(place),
                                                   problem.layers.size() - 1)][layer];
    if (load.states + load.held * problem.alive[chunk] > problem.memory) return {};
    cost.longest = std::max(cost.longest, load.time);
    cost.squares += static_cast<double>(load.time) * static_cast<double>(load.time);
  }
  return cost;
}

// The best of all splits, in the order that balanced_split() promises.
std::vector<int> best_of_all(const SplitProblem& problem) {
  const auto layers = static_cast<int>(problem.layers.front().size());
  std::vector<int> split, best;
  std::optional<SplitCost> least;
  const std::function<void(int)> walk = [&](int left) {
    if (split.size() + 1 == problem.alive.size()) {
      split.push_back(left);
      const std::optional<SplitCost> cost = cost_of(problem, split);
      if (cost && (!least || cost->key(split) < least->key(best))) {
        least = cost;
        best = split;
      }
      split.pop_back();
      return;
    }
    for (int count = 0; count <= left; ++count) {
      split.push_back(count);
      walk(left - count);
      split.pop_back();
    }
  };
  walk(layers);
  return best;
}

ChunkLoad random_load(test::Dice& dice) {
  return {.time = 1 + dice.below(20), .states = dice.below(10), .held = dice.below(5)};
}

SplitProblem random_problem(test::Dice& dice) {
  SplitProblem problem{.input = random_load(dice),
                       .output = random_load(dice),
                       .has_input = dice.coin(),
                       .has_output = dice.coin()};
  const int layers = 1 + dice.below(8), chunks = 1 + dice.below(4);
  const int places = dice.coin() ? 1 : 2;
  for (int place = 0; place < places; ++place) {
    problem.layers.emplace_back();
    for (int layer = 0; layer < layers; ++layer)
      problem.layers.back().push_back(random_load(dice));
  }
  for (int chunk = 0; chunk < chunks; ++chunk)
    problem.alive.push_back(chunks - chunk);
  problem.memory = dice.coin() ? 1'000'000 : 20 + dice.below(80);
  return problem;
}

Pipeline pipeline_of(int stages, int micro_batch = 1) {
  Pipeline pipeline;
  pipeline.gpus = pipeline.stages = stages;
  pipeline.micro_batch = micro_batch;
  return pipeline;
}

SearchSpecification specification_of(const std::string& model) {
  Workload workload{model, "dgx-h100", 8};
  workload.global_batch = 32;
  workload.sequence_length = 2048;
  return load_search(workload_sources(workload));
}

}  // namespace

TEST_CASE("a balanced split is the best of all splits") {
  int without = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    test::Dice dice{seed};
    const SplitProblem problem = random_problem(dice);
    INFO("seed " << seed);
    const std::vector<int> best = best_of_all(problem);
    REQUIRE(balanced_split(problem) == best);
    without += best.empty() ? 1 : 0;
  }
  CHECK(without > 20);
  CHECK(without < 1000);
}

TEST_CASE("a head that takes as long as some layers makes its stage shorter") {
  const SearchSpecification asked = specification_of("llama-3.2-1b");  // 16 layers, 128k words
  Splitter splitter{asked};
  const std::vector<std::vector<int>> found = splitter.splits(pipeline_of(4), {0});
  REQUIRE(found.size() == 1);
  CHECK(found[0].size() == 4);
  CHECK(found[0][0] + found[0][1] + found[0][2] + found[0][3] == 16);
  CHECK(found[0][3] < 4);
  CHECK(found[0][3] < found[0][0]);
  // Once more the same, from what is known.
  CHECK(splitter.splits(pipeline_of(4), {0, 1, 2, 3}) == found);
}
