// A forecast, replayed with trouble that is known: the waterfall finds its cause and its size, and
// names nothing else. Scenarios and trouble are drawn by seed. A failure prints the scenario.
//   STEPCAST_EXPLAIN=200 build/release/tests/property/test_explain_trouble   more of them, by hand
//   STEPCAST_EXPLAIN_TABLE=1                                                 prints the table
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "sim/base/input_error.hpp"
#include "sim/forecast/record.hpp"
#include "tests/catch.hpp"
#include "tests/property/injected_trouble.hpp"
#include "tests/property/random_scenario.hpp"

namespace {

using namespace sim;
using namespace sim::test;

// What the waterfall may be off by: a share of the trouble, or of the step.
constexpr double of_trouble = 0.1, of_step = 0.005;
// A part that was not injected stays below this share of the step.
constexpr double most_unnamed = 0.01;

std::uint64_t chosen_count() {
  const char* text = std::getenv("STEPCAST_EXPLAIN");
  return text == nullptr ? 12 : std::strtoull(text, nullptr, 10);
}

struct ReplayedScenario {
  std::string yaml;
  Forecast forecast;
  Record record;
};

// Scenarios in which the host and its waits play no part, so that the replay without trouble is the
// forecast itself.
std::optional<ReplayedScenario> drawn_scenario(std::uint64_t seed, bool pipeline) {
  ScenarioLimits limits;
  limits.most_ranks = 8;
  limits.trouble = false;
  limits.one_dimension = seed % 3 == 0;
  RandomScenario drawn = random_scenario(seed, limits);
  if ((drawn.scenario.layout.pipeline_parallel > 1) != pipeline) return std::nullopt;
  drawn.scenario.options.graphs = true;
  ReplayedScenario made;
  made.yaml = drawn.yaml;
  made.forecast = forecast(drawn.scenario, {.every_rank = true});
  const InjectedTrouble none{[](RankId, const Program&, OpId) { return OpTrouble{}; }};
  if (!replay(made.forecast, none.trouble).exact) return std::nullopt;
  made.record = make_record(*made.forecast.plan, made.forecast.timeline, origin_of(drawn.scenario));
  return made;
}

std::vector<ReplayedScenario> scenarios(std::uint64_t count, bool pipeline) {
  std::vector<ReplayedScenario> list;
  for (std::uint64_t seed = 1; list.size() < count && seed < 100 * count; ++seed)
    if (auto drawn = drawn_scenario(seed, pipeline)) list.push_back(std::move(*drawn));
  return list;
}

Duration sum_of(const Waterfall& waterfall) {
  Duration sum{};
  for (const WaterfallPart& part : waterfall.parts)
    sum += part.time;
  return sum;
}

Duration time_of(const Waterfall& waterfall, const std::set<TroubleKind>& kinds) {
  Duration sum{};
  for (const WaterfallPart& part : waterfall.parts)
    if (kinds.count(part.kind) > 0) sum += part.time;
  return sum;
}

// The largest part that is not of these kinds.
const WaterfallPart* most_other(const Waterfall& waterfall, const std::set<TroubleKind>& kinds) {
  for (const WaterfallPart& part : waterfall.parts)
    if (kinds.count(part.kind) == 0) return part.time > Duration{} ? &part : nullptr;
  return nullptr;
}

struct Finding {
  double error = 0;    // found less injected, over the injected
  double of_step = 0;  // the same, over the step
  double other = 0;    // the largest part that was not injected, over the step
};

void print_table(const std::map<Injection, std::vector<Finding>>& findings) {
  if (std::getenv("STEPCAST_EXPLAIN_TABLE") == nullptr) return;
  fmt::print(
      "| injected | runs | off by, median | worst | worst, of the step | other parts, worst |\n"
      "|---|--:|--:|--:|--:|--:|\n");
  for (const auto& [kind, of] : findings) {
    if (of.empty()) continue;
    std::vector<double> errors, steps, others;
    for (const Finding& finding : of) {
      errors.push_back(std::abs(finding.error));
      steps.push_back(std::abs(finding.of_step));
      others.push_back(finding.other);
    }
    std::sort(errors.begin(), errors.end());
    fmt::print("| {} | {} | {:.2f} % | {:.2f} % | {:.2f} % | {:.2f} % |\n", word(kind), of.size(),
               100 * errors[errors.size() / 2], 100 * errors.back(),
               100 * *std::max_element(steps.begin(), steps.end()),
               100 * *std::max_element(others.begin(), others.end()));
  }
}

TEST_CASE("a run that is its forecast has no parts") {
  for (const bool pipeline : {false, true}) {
    const auto list = scenarios(chosen_count(), pipeline);
    REQUIRE(list.size() == chosen_count());
    for (const ReplayedScenario& of : list) {
      INFO(of.yaml);
      const InjectedTrouble none{[](RankId, const Program&, OpId) { return OpTrouble{}; }};
      const Waterfall found = make_waterfall(replay(of.forecast, none.trouble).run, of.record);
      CHECK(found.difference() == Duration{});
      CHECK(sum_of(found) == Duration{});
      CHECK(found.differences == std::vector<std::string>{});
      for (const WaterfallPart& part : found.parts) {
        INFO(part.sentence);
        CHECK(std::abs(part.time.count()) == 0);
      }
    }
  }
}

// What may be named beside the trouble's own kinds, since it follows from it. A stage waits for the
// trouble of the others in its bubbles; a rank that is slow itself has slower kernels.
std::set<TroubleKind> consequences(Injection kind, const ReplayedScenario& of,
                                   const InjectedTrouble& trouble, const Waterfall& found,
                                   bool pipeline) {
  std::set<TroubleKind> kinds;
  if (pipeline) kinds.insert(TroubleKind::pipeline);
  if (kind == Injection::straggler && added_to(of.forecast, found.rank, trouble) > Duration{})
    kinds.insert({TroubleKind::products, TroubleKind::attention, TroubleKind::memory_bound,
                  TroubleKind::optimizer});
  return kinds;
}

Finding check_found(Injection kind, const ReplayedScenario& of, const InjectedTrouble& trouble,
                    bool pipeline, Duration& expected) {
  const ReplayedStep run = replay(of.forecast, trouble.trouble, trouble.late);
  const Waterfall found = make_waterfall(run.run, of.record);
  INFO(waterfall_table(found, false));
  CHECK(sum_of(found) == found.difference());
  const bool kernels = is_of_kernels(kind);
  expected = kernels ? added_to(of.forecast, found.rank, trouble) : found.difference();
  std::set<TroubleKind> named = named_by(kind);
  const std::set<TroubleKind> following = consequences(kind, of, trouble, found, pipeline);
  if (!kernels) named.insert(following.begin(), following.end());
  // A rank may wait for one that has more of the trouble: that one's cause is said.
  if (found.late_kind && named.count(*found.late_kind) > 0) named.insert(TroubleKind::stragglers);
  const double off = static_cast<double>((time_of(found, named) - expected).count()) * 1e-12;
  const double step = to_seconds(found.measured);
  CHECK(std::abs(off) <= std::max(of_trouble * to_seconds(expected), of_step * step));
  named.insert(following.begin(), following.end());
  const WaterfallPart* const other = most_other(found, named);
  const double other_share = other ? to_seconds(other->time) / step : 0;
  CHECK(other_share <= most_unnamed);
  const bool large = to_seconds(expected) > most_unnamed * step;
  if (!large) expected = {};
  return {large ? off / to_seconds(expected) : 0, off / step, other_share};
}

void check_all_found(bool pipeline) {
  std::map<Injection, std::vector<Finding>> findings;
  for (const ReplayedScenario& of : scenarios(chosen_count(), pipeline)) {
    for (const auto& [kind, text] : words_of(Injection{})) {
      INFO(of.yaml);
      INFO(text);
      const InjectedTrouble trouble = injected(kind, of.forecast, findings[kind].size());
      Duration expected{};
      const Finding finding = check_found(kind, of, trouble, pipeline, expected);
      if (expected > Duration{}) findings[kind].push_back(finding);
    }
  }
  print_table(findings);
}

TEST_CASE("the waterfall finds the trouble that was injected, its size, and nothing else") {
  check_all_found(false);
}

TEST_CASE("with pipeline stages, trouble is found as its own part and as bubbles") {
  check_all_found(true);
}

TEST_CASE("of several troubles at once, each is found") {
  // Not missing fusion: kernels that are split and slower at once are told apart by names alone.
  constexpr std::array pool{Injection::products,  Injection::attention, Injection::memory_bound,
                            Injection::optimizer, Injection::half_rate, Injection::data_loading,
                            Injection::garbage};
  std::uint64_t seed = 0;
  for (const ReplayedScenario& of : scenarios(chosen_count(), false)) {
    INFO(of.yaml);
    Dice dice{++seed};
    std::set<Injection> kinds;
    while (kinds.size() < 3)
      kinds.insert(dice.pick(pool));
    InjectedTrouble all{[](RankId, const Program&, OpId) { return OpTrouble{}; }};
    for (const Injection kind : kinds)
      all = both(all, injected(kind, of.forecast, seed));
    const Waterfall found =
        make_waterfall(replay(of.forecast, all.trouble, all.late).run, of.record);
    INFO(waterfall_table(found, false));
    CHECK(sum_of(found) == found.difference());
    const double step = to_seconds(found.measured);
    std::set<TroubleKind> named;
    for (const Injection kind : kinds) {
      const std::set<TroubleKind> own = named_by(kind);
      named.insert(own.begin(), own.end());
      if (!is_of_kernels(kind)) continue;
      INFO(word(kind));
      const double expected =
          to_seconds(added_to(of.forecast, found.rank, injected(kind, of.forecast, seed)));
      CHECK(std::abs(to_seconds(time_of(found, own)) - expected) <=
            std::max(of_trouble * expected, of_step * step));
    }
    if (found.late_kind && named.count(*found.late_kind) > 0) named.insert(TroubleKind::stragglers);
    const WaterfallPart* const other = most_other(found, named);
    CHECK((other ? to_seconds(other->time) / step : 0) <= most_unnamed);
  }
}

}  // namespace
