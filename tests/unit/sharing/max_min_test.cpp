#include "sim/sharing/max_min.hpp"

#include <algorithm>
#include <random>

#include "tests/catch.hpp"

namespace sim {
namespace {

MaxMinProblem problem_of(std::vector<std::int64_t> caps,
                         const std::vector<std::vector<ResourceUse>>& uses,
                         const std::vector<std::int64_t>& capacities) {
  MaxMinProblem problem;
  problem.clear();
  problem.caps = std::move(caps);
  for (const auto& of_activity : uses) {
    problem.uses.insert(problem.uses.end(), of_activity.begin(), of_activity.end());
    problem.first_use.push_back(static_cast<std::uint32_t>(problem.uses.size()));
  }
  for (const std::int64_t capacity : capacities)
    problem.capacities.emplace_back(capacity);
  return problem;
}

// The oracle: water rises by one unit at a time for everybody who can still rise.
std::vector<std::int64_t> fill_slowly(const MaxMinProblem& problem) {
  const std::size_t count = problem.caps.size();
  std::vector<std::int64_t> levels(count, 0);
  std::vector<char> stopped(count, 0);
  const auto used = [&](std::size_t resource) {
    WideInt sum = 0;
    for (std::size_t a = 0; a < count; ++a)
      for (std::uint32_t u = problem.first_use[a]; u < problem.first_use[a + 1]; ++u)
        if (problem.uses[u].resource == resource)
          sum += static_cast<WideInt>(problem.uses[u].weight) * levels[a];
    return sum;
  };
  const auto on_full_resource = [&](std::size_t a) {
    for (std::uint32_t u = problem.first_use[a]; u < problem.first_use[a + 1]; ++u)
      if (used(problem.uses[u].resource) > problem.capacities[problem.uses[u].resource])
        return true;
    return false;
  };
  const auto stop = [&](std::size_t a) { --levels[a], stopped[a] = 1; };
  while (std::find(stopped.begin(), stopped.end(), 0) != stopped.end()) {
    for (std::size_t a = 0; a < count; ++a)
      levels[a] += stopped[a] ? 0 : 1;
    for (std::size_t a = 0; a < count; ++a)
      if (!stopped[a] && levels[a] > problem.caps[a]) stop(a);
    std::vector<std::size_t> stopping;
    for (std::size_t a = 0; a < count; ++a)
      if (!stopped[a] && on_full_resource(a)) stopping.push_back(a);
    for (const std::size_t a : stopping)
      stop(a);
  }
  return levels;
}

std::vector<std::int64_t> solve(const MaxMinProblem& problem) {
  MaxMinSolver solver;
  const auto levels = solver.solve(problem);
  return {levels.begin(), levels.end()};
}

}  // namespace

TEST_CASE("two flows on one link get half each", "[sharing]") {
  // 2 x <= 100 with equal weights: x = 50.
  REQUIRE(solve(problem_of({100, 100}, {{{0, 1}}, {{0, 1}}}, {100})) ==
          std::vector<std::int64_t>{50, 50});
}

TEST_CASE("a flow held back elsewhere leaves its share to the others", "[sharing]") {
  // Flow 1 crosses link 1 (10); flow 0 gets the rest of link 0: 100 - 10.
  REQUIRE(solve(problem_of({100, 100}, {{{0, 1}}, {{0, 1}, {1, 1}}}, {100, 10})) ==
          std::vector<std::int64_t>{90, 10});
}

TEST_CASE("a flow capped below the fair share leaves the rest", "[sharing]") {
  REQUIRE(solve(problem_of({100, 20}, {{{0, 1}}, {{0, 1}}}, {100})) ==
          std::vector<std::int64_t>{80, 20});
}

TEST_CASE("weights count as so many equal flows", "[sharing]") {
  // 3 x + x <= 100 gives x = 25, as four equal flows would.
  REQUIRE(solve(problem_of({100, 100}, {{{0, 3}}, {{0, 1}}}, {100})) ==
          std::vector<std::int64_t>{25, 25});
}

TEST_CASE("a dead link gives nothing and harms nobody else", "[sharing]") {
  REQUIRE(solve(problem_of({100, 100}, {{{0, 1}}, {{1, 1}}}, {0, 100})) ==
          std::vector<std::int64_t>{0, 100});
}

TEST_CASE("shares equal those of slow filling on random problems", "[sharing][property]") {
  std::mt19937 random{7};
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>{low, high}(random);
  };
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const int resources = draw(1, 5);
    const int activities = draw(1, 7);
    std::vector<std::int64_t> caps, capacities;
    std::vector<std::vector<ResourceUse>> uses(static_cast<std::size_t>(activities));
    for (int r = 0; r < resources; ++r)
      capacities.push_back(draw(0, 120));
    for (auto& of_activity : uses) {
      caps.push_back(draw(1, 60));
      for (int r = 0; r < resources; ++r)
        if (draw(0, 2) > 0) of_activity.push_back({static_cast<std::uint32_t>(r), 1});
    }
    const MaxMinProblem problem = problem_of(caps, uses, capacities);
    const auto fast = solve(problem);
    const auto slow = fill_slowly(problem);
    for (std::size_t a = 0; a < fast.size(); ++a)
      REQUIRE(fast[a] == slow[a]);
  }
}

TEST_CASE("repeating every activity k times equals multiplying every weight by k",
          "[sharing][property]") {
  std::mt19937 random{11};
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>{low, high}(random);
  };
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const int copies = draw(2, 5);
    std::vector<std::int64_t> caps, caps_repeated;
    std::vector<std::vector<ResourceUse>> merged, repeated;
    const std::vector<std::int64_t> capacities{draw(1, 1'000'000), draw(1, 1'000'000)};
    for (int a = draw(1, 5); a > 0; --a) {
      const std::vector<ResourceUse> uses{{0, static_cast<std::uint64_t>(draw(1, 65536))},
                                          {1, static_cast<std::uint64_t>(draw(1, 65536))}};
      std::vector<ResourceUse> times = uses;
      for (ResourceUse& use : times)
        use.weight *= static_cast<std::uint64_t>(copies);
      caps.push_back(draw(1, 1000));
      merged.push_back(times);
      for (int k = 0; k < copies; ++k) {
        caps_repeated.push_back(caps.back());
        repeated.push_back(uses);
      }
    }
    const auto once = solve(problem_of(caps, merged, capacities));
    const auto many = solve(problem_of(caps_repeated, repeated, capacities));
    for (std::size_t i = 0; i < many.size(); ++i)
      REQUIRE(many[i] == once[i / static_cast<std::size_t>(copies)]);
  }
}

}  // namespace sim
