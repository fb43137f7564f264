#include "sim/sharing/max_min.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/catch.hpp"

namespace sim {
namespace {

MaxMinProblem problem_of(std::vector<std::int64_t> caps,
                         const std::vector<std::vector<ResourceUse>>& uses,
                         const std::vector<std::int64_t>& capacities) {
  MaxMinProblem problem;
  problem.clear();
  problem.flows.assign(caps.size(), 1);
  problem.caps = std::move(caps);
  for (const auto& of_activity : uses) {
    problem.uses.insert(problem.uses.end(), of_activity.begin(), of_activity.end());
    problem.first_use.push_back(static_cast<std::uint32_t>(problem.uses.size()));
  }
  for (const std::int64_t capacity : capacities)
    problem.capacities.emplace_back(capacity);
  return problem;
}

// asked() is what all users ask of a resource, by `term` of each.
template <typename Term>
double asked(const MaxMinProblem& problem, std::size_t resource, const Term& term) {
  double total = 0;
  for (std::size_t a = 0; a < problem.caps.size(); ++a)
    for (std::uint32_t u = problem.first_use[a]; u < problem.first_use[a + 1]; ++u)
      if (problem.uses[u].resource == resource)
        total += static_cast<double>(problem.uses[u].weight) * term(a);
  return total;
}

// The oracle: textbook filling in real numbers. All flows rise to the first cap or full resource,
// and whoever meets it stops.
std::vector<double> fill(const MaxMinProblem& problem) {
  const std::size_t count = problem.caps.size();
  std::vector<double> levels(count, 0);
  std::vector<char> stopped(count, 0);
  const auto flows = [&](std::size_t a) { return static_cast<double>(problem.flows[a]); };
  const auto rising = [&](std::size_t a) { return stopped[a] ? 0 : flows(a); };
  const auto room = [&](std::size_t r) {
    return static_cast<double>(problem.capacities[r]) -
           asked(problem, r, [&](std::size_t a) { return levels[a]; });
  };
  while (std::find(stopped.begin(), stopped.end(), 0) != stopped.end()) {
    double rise = 1e300;
    for (std::size_t a = 0; a < count; ++a)
      if (!stopped[a])
        rise = std::min(rise, (static_cast<double>(problem.caps[a]) - levels[a]) / flows(a));
    for (std::size_t r = 0; r < problem.capacities.size(); ++r)
      if (const double weight = asked(problem, r, rising); weight > 0)
        rise = std::min(rise, room(r) / weight);
    for (std::size_t a = 0; a < count; ++a)
      levels[a] += rise * rising(a);
    for (std::size_t a = 0; a < count; ++a) {
      bool stops = levels[a] > static_cast<double>(problem.caps[a]) - 1e-9;
      for (std::uint32_t u = problem.first_use[a]; u < problem.first_use[a + 1]; ++u)
        stops = stops || room(problem.uses[u].resource) < 1e-9;
      if (stops) stopped[a] = 1;
    }
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

TEST_CASE("shares equal those of textbook filling on random problems", "[sharing][property]") {
  std::mt19937 random{7};
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>{low, high}(random);
  };
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const int resources = draw(1, 5);
    const int activities = draw(1, 7);
    std::vector<std::int64_t> caps, flows, capacities;
    std::vector<std::vector<ResourceUse>> uses(static_cast<std::size_t>(activities));
    for (int r = 0; r < resources; ++r)
      capacities.push_back(draw(0, 120'000));
    for (auto& of_activity : uses) {
      caps.push_back(draw(1, 60'000));
      flows.push_back(draw(1, 5));
      for (int r = 0; r < resources; ++r)
        if (draw(0, 2) > 0) of_activity.push_back({static_cast<std::uint32_t>(r), 1});
    }
    MaxMinProblem problem = problem_of(caps, uses, capacities);
    problem.flows = flows;
    const auto fast = solve(problem);
    const std::vector<double> exact = fill(problem);
    // Levels are whole; what rounding takes from one may go to others.
    for (std::size_t a = 0; a < fast.size(); ++a)
      REQUIRE(std::abs(static_cast<double>(fast[a]) - exact[a]) <= 5.0 * activities);
  }
}

TEST_CASE("a resource that binds nobody changes nothing by being looked at",
          "[sharing][property]") {
  std::mt19937 random{29};
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>{low, high}(random);
  };
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    std::vector<std::int64_t> caps, flows;
    std::vector<std::vector<ResourceUse>> with, without;
    std::int64_t asked = 0;
    for (int a = draw(2, 6); a > 0; --a) {
      caps.push_back(draw(1, 100));
      flows.push_back(draw(1, 7));
      const auto weight = static_cast<std::uint64_t>(draw(1, 9));
      without.push_back({{0, static_cast<std::uint64_t>(draw(1, 9))}});
      with.push_back(without.back());
      if (draw(0, 1) == 0) continue;
      with.back().push_back({1, weight});
      asked += caps.back() * static_cast<std::int64_t>(weight);
    }
    const std::int64_t shared = draw(1, 1500);
    MaxMinProblem seen = problem_of(caps, with, {shared, asked + draw(0, 3)});
    MaxMinProblem unseen = problem_of(caps, without, {shared});
    seen.flows = unseen.flows = flows;
    REQUIRE(solve(seen) == solve(unseen));
  }
}

TEST_CASE("n flows of one and m of another get n to m", "[sharing]") {
  MaxMinProblem problem = problem_of({1000, 1000}, {{{0, 1}}, {{0, 1}}}, {100});
  problem.flows = {3, 1};
  REQUIRE(solve(problem) == std::vector<std::int64_t>{75, 25});
  // An eighth of the bytes of the first pass the link, by one of its eight flows: half the link
  // each.
  problem = problem_of({1000, 1000}, {{{0, 1}}, {{0, 8}}}, {800});
  problem.flows = {8, 1};
  REQUIRE(solve(problem) == std::vector<std::int64_t>{400, 50});
}

namespace {

struct Drawn {
  MaxMinProblem problem;
  std::vector<std::vector<ResourceUse>> uses;
};

// Rates and weights as the engine has them: bytes/s, and 65536 for a link that all bytes pass.
Drawn draw_problem(std::mt19937& random) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>{low, high}(random);
  };
  const auto resources = static_cast<std::size_t>(draw(1, 5));
  Drawn drawn;
  drawn.uses.resize(static_cast<std::size_t>(draw(1, 7)));
  std::vector<std::int64_t> caps, flows, capacities;
  for (std::size_t r = 0; r < resources; ++r)
    capacities.push_back(draw(1, 400) * 1'000'000'000 * 65536);
  for (auto& of_activity : drawn.uses) {
    caps.push_back(draw(1, 400) * 1'000'000'000);
    flows.push_back(draw(1, 32));
    for (std::uint32_t r = 0; r < resources; ++r)
      if (draw(0, 2) > 0 || r + 1 == resources)
        of_activity.push_back({r, static_cast<std::uint64_t>(draw(1, 65536))});
  }
  drawn.problem = problem_of(caps, drawn.uses, capacities);
  drawn.problem.flows = flows;
  return drawn;
}

std::vector<WideInt> left_by(const Drawn& drawn, const std::vector<std::int64_t>& levels) {
  std::vector<WideInt> left = drawn.problem.capacities;
  for (std::size_t a = 0; a < levels.size(); ++a)
    for (const ResourceUse& use : drawn.uses[a])
      left[use.resource] -= static_cast<WideInt>(use.weight) * levels[a];
  return left;
}

double flow_level(const Drawn& drawn, const std::vector<std::int64_t>& levels, std::size_t a) {
  return static_cast<double>(levels[a]) / static_cast<double>(drawn.problem.flows[a]);
}

}  // namespace

// Bertsekas & Gallager, 6.5.2: rates are max-min fair exactly if every flow that could take more
// has a full resource on which no other flow gets more than it.
TEST_CASE("no resource gives more than it has, and every flow has its bottleneck",
          "[sharing][property]") {
  std::mt19937 random{17};
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    const Drawn drawn = draw_problem(random);
    const auto levels = solve(drawn.problem);
    const std::vector<WideInt> left = left_by(drawn, levels);
    for (const WideInt free : left)
      REQUIRE(free >= 0);
    for (std::size_t a = 0; a < levels.size(); ++a) {
      REQUIRE(levels[a] <= drawn.problem.caps[a]);
      if (levels[a] == drawn.problem.caps[a]) continue;
      const double own = flow_level(drawn, levels, a);
      bool has_bottleneck = false;
      for (const ResourceUse& use : drawn.uses[a]) {
        // Full but for what rounding down leaves: less than one of each activity's level.
        if (left[use.resource] > WideInt{65536} * static_cast<WideInt>(levels.size())) continue;
        bool most = true;
        for (std::size_t b = 0; b < levels.size(); ++b)
          for (const ResourceUse& other : drawn.uses[b])
            if (other.resource == use.resource && flow_level(drawn, levels, b) > own + 1)
              most = false;
        has_bottleneck = has_bottleneck || most;
      }
      REQUIRE(has_bottleneck);
    }
  }
}

TEST_CASE("a transfer that shares nothing gets what its narrowest link has, whatever its flows",
          "[sharing][property]") {
  std::mt19937 random{19};
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    Drawn drawn = draw_problem(random);
    drawn.problem.caps.resize(1);
    drawn.problem.flows.resize(1);
    drawn.problem.first_use.resize(2);
    drawn.problem.uses.resize(drawn.problem.first_use[1]);
    WideInt most = drawn.problem.caps[0];
    for (const ResourceUse& use : drawn.uses[0])
      most = std::min(most, drawn.problem.capacities[use.resource] / use.weight);
    REQUIRE(solve(drawn.problem)[0] <= most);
    REQUIRE(solve(drawn.problem)[0] == most);
  }
}

// One transfer may well get less where another's link is widened, but not who gets least of all.
TEST_CASE("the poorest flow never gets less of faster links", "[sharing][property]") {
  std::mt19937 random{23};
  const auto poorest = [](const Drawn& drawn) {
    const auto levels = solve(drawn.problem);
    double least = flow_level(drawn, levels, 0);
    for (std::size_t a = 1; a < levels.size(); ++a)
      least = std::min(least, flow_level(drawn, levels, a));
    return least;
  };
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    Drawn drawn = draw_problem(random);
    const double before = poorest(drawn);
    drawn.problem.capacities[static_cast<std::size_t>(round) % drawn.problem.capacities.size()] *=
        2;
    REQUIRE(poorest(drawn) >= before - 1);  // levels are whole
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
    std::vector<std::int64_t> caps, caps_repeated, flows, flows_repeated;
    std::vector<std::vector<ResourceUse>> merged, repeated;
    const std::vector<std::int64_t> capacities{draw(1, 1'000'000), draw(1, 1'000'000)};
    for (int a = draw(1, 5); a > 0; --a) {
      const std::vector<ResourceUse> uses{{0, static_cast<std::uint64_t>(draw(1, 65536))},
                                          {1, static_cast<std::uint64_t>(draw(1, 65536))}};
      std::vector<ResourceUse> times = uses;
      for (ResourceUse& use : times)
        use.weight *= static_cast<std::uint64_t>(copies);
      caps.push_back(draw(1, 1000));
      flows.push_back(draw(1, 24));
      merged.push_back(times);
      for (int k = 0; k < copies; ++k) {
        caps_repeated.push_back(caps.back());
        flows_repeated.push_back(flows.back());
        repeated.push_back(uses);
      }
    }
    MaxMinProblem fewer = problem_of(caps, merged, capacities);
    fewer.flows = flows;
    MaxMinProblem more = problem_of(caps_repeated, repeated, capacities);
    more.flows = flows_repeated;
    const auto once = solve(fewer);
    const auto many = solve(more);
    for (std::size_t i = 0; i < many.size(); ++i)
      REQUIRE(many[i] == once[i / static_cast<std::size_t>(copies)]);
  }
}

}  // namespace sim
