// Suites: what is read, and the exact text of what is refused.
#include "sim/convergence/suite.hpp"

#include "tests/catch.hpp"
#include "tests/problems.hpp"

namespace sim {
namespace {

const std::string small = R"(name: tiny
scenario: base.yaml
steps: 100
seeds: 3
targets: [0.5, 0.9]
target_loss: 2.5
schemes:
  - name: top
    set: {layout.compression.gradients: top_k, layout.compression.density: 0.01}
  - name: plain
  - name: bits
    set: {layout.compression.gradients: one_bit}
    warm_up: 20
baseline: plain
)";

std::vector<std::string> problems_of(const std::string& text) {
  try {
    parse_convergence_suite(text, "suites/s.yaml");
  } catch (const InputError& error) {
    return test::lines_of(error);
  }
  return {};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a suite has a base, steps, seeds, targets and schemes") {
  const ConvergenceSuite suite = parse_convergence_suite(small, "suites/s.yaml");
  CHECK(suite.name == "tiny");
  CHECK(suite.base == "suites/base.yaml");
  CHECK(suite.steps == 100);
  CHECK(suite.seeds == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(suite.smoothing == 11);  // a ninth, odd
  CHECK(suite.targets == std::vector<LossTarget>{{TargetKind::fall, 0.5},
                                                 {TargetKind::fall, 0.9},
                                                 {TargetKind::loss, 2.5}});
  REQUIRE(suite.schemes.size() == 3);
  CHECK(set_text(suite.schemes[0].set) ==
        "layout.compression.gradients=top_k layout.compression.density=0.01");
  CHECK(suite.schemes[0].set[1].where.line == 9);
  CHECK(suite.schemes[1].set.empty());
  CHECK(suite.schemes[2].warm_up == 20);
  CHECK(suite.baseline == 1);
}

TEST_CASE("without a word, the first scheme is the baseline and the target 90 % of its fall") {
  const ConvergenceSuite suite = parse_convergence_suite(
      "name: t\nscenario: /b.yaml\nsteps: 8\nseeds: [5, 0]\nschemes: [{name: a}, {name: b}]\n",
      "t");
  CHECK(suite.baseline == 0);
  CHECK(suite.base == "/b.yaml");
  CHECK(suite.seeds == std::vector<std::uint64_t>{5, 0});
  CHECK(suite.smoothing == 1);
  CHECK(suite.targets == std::vector<LossTarget>{{TargetKind::fall, 0.9}});
}

TEST_CASE("a suite that contradicts itself is refused at the place") {
  CHECK(problems_of(replaced(small, "name: plain\n", "name: top\n")).front() ==
        "10:11: there is another scheme of this name");
  CHECK(problems_of(replaced(small, "baseline: plain", "baseline: plane")) ==
        Lines{"14:11: there is no scheme 'plane'; did you mean 'plain'?"});
  CHECK(problems_of(replaced(small, "baseline: plain", "baseline: bits")) ==
        Lines{"8:3: the baseline 'bits' has a warm_up; a warm-up is trained with the baseline, so "
              "only other schemes have one"});
  CHECK(problems_of(replaced(small, "warm_up: 20", "warm_up: 100")) ==
        Lines{"13:14: warm_up is 100 of 100 steps; allowed: 0 to 99"});
  CHECK(problems_of(replaced(small, "seeds: 3", "seeds: [1, 2, 1]")) ==
        Lines{"4:15: this seed is listed twice"});
  CHECK(problems_of(replaced(small, "seeds: 3", "seeds: []")) ==
        Lines{"4:8: a suite has 1 to 1000 seeds"});
  CHECK(problems_of(replaced(small, "[0.5, 0.9]", "[0.5, 0.5]")) ==
        Lines{"5:16: this target is listed twice"});
  CHECK(problems_of(replaced(small, "seeds: 3", "seeds: 3\nsmoothing: 4")) ==
        Lines{"5:12: smoothing is 4; allowed: an odd number of steps, the same number before and "
              "behind each"});
  CHECK(problems_of("name: t\nscenario: b\nsteps: 8\nseeds: 1\nschemes: []\n") ==
        Lines{"5:10: a suite has at least one scheme, the baseline"});
}

TEST_CASE("keys of a scheme are those of --set, but for the suite's own") {
  CHECK(
      problems_of(replaced(small, "layout.compression.density: 0.01", "density: 0.01")) ==
      Lines{"9:57: 'density' is no key of a scenario as --set takes it; write section.key: value, "
            "for example layout.compression.gradients: top_k"});
  CHECK(problems_of(replaced(small, "layout.compression.density: 0.01", "training.seed: 4")) ==
        Lines{"9:63: training.seed is given by the suite's key 'seeds'"});
  CHECK(problems_of(replaced(small, "layout.compression.density: 0.01", "training.steps: 4")) ==
        Lines{"9:64: training.steps is given by the suite's key 'steps'"});
  CHECK(problems_of(replaced(small, "layout.compression.density: 0.01", "layout.a: \"1 # 2\"")) ==
        Lines{"9:58: a value has text, no line breaks and no '#'"});
}

TEST_CASE("names are plain, and unknown keys are answered with the nearest") {
  CHECK(problems_of(replaced(small, "name: top", "name: a/b")) ==
        Lines{"8:11: a name has letters, digits, '-', '_' and '.', and does not begin with '.'"});
  CHECK(problems_of(replaced(small, "warm_up: 20", "warmup: 20")) ==
        Lines{"13:5: unknown key 'warmup'; did you mean 'warm_up'?"});
  CHECK(problems_of(replaced(small, "scenario: base.yaml", "scenarios: base.yaml")) ==
        Lines{"2:1: unknown key 'scenarios'; did you mean 'scenario'?"});
}

}  // namespace sim
