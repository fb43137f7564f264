#include "sim/convergence/choose/choose.hpp"

#include <algorithm>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

const std::string root = test::source_dir();
const std::string measured = root + "/validation/convergence/results/byte-llama/factors.yaml";

ChooseQuestion question(const std::string& nodes = "8") {
  const std::string yaml = "model: " + root + "/models/gpt2.yaml\ncluster: {path: " + root +
                           "/topologies/dgx-h100.yaml, nodes: " + nodes +
                           "}\nlayout: {sequence_length: 1024, global_batch: 512, micro_batch: 8}\n"
                           "framework: {name: pytorch}\n";
  return {.scenario = ScenarioInput{root + "/choose.yaml", yaml},
          .overrides = {},
          .over = {},
          .schemes = {},
          .factors = {measured},
          .target = std::nullopt};
}

std::size_t index_of(const Choice& choice, const std::string& name) {
  const auto found = std::find_if(choice.candidates.begin(), choice.candidates.end(),
                                  [&](const SchemeCandidate& one) { return one.name == name; });
  REQUIRE(found != choice.candidates.end());
  return static_cast<std::size_t>(found - choice.candidates.begin());
}

}  // namespace

TEST_CASE("a slow network asks for less traffic, a fast one for nothing special", "[choose]") {
  const Choice choice = choose(question());
  REQUIRE(choice.points.size() == 6);
  const ChoiceAtPoint &slow = choice.points.front(), &fast = choice.points.back();
  REQUIRE(slow.best);
  REQUIRE(fast.best);
  CHECK(choice.learning[*slow.best].evidence == Evidence::measured);
  CHECK(choice.learning[*fast.best].evidence == Evidence::same);
  const double gain = static_cast<double>(slow.schemes.front().to_target.count()) /
                      static_cast<double>(slow.schemes[*slow.best].to_target.count());
  CHECK(gain > 1.2);
  // Nothing without evidence is the best, whatever its step.
  for (const ChoiceAtPoint& point : choice.points) {
    CHECK(choice.learning[*point.best].evidence != Evidence::none);
    for (const SchemeForecast& one : point.schemes)
      if (one.possible()) CHECK(point.schemes[*point.fastest].to_target <= one.to_target);
  }
}

TEST_CASE("time to the loss is the step times the factor", "[choose]") {
  const Choice choice = choose(question());
  const std::size_t scheme = index_of(choice, "power_sgd-4");
  const Learning& learning = choice.learning[scheme];
  REQUIRE(learning.evidence == Evidence::measured);
  CHECK(learning.factor > 1);
  const SchemeForecast& one = choice.points.front().schemes[scheme];
  CHECK(static_cast<double>(one.to_target.count()) ==
        Approx(learning.factor * static_cast<double>(one.step.step_time.count())).epsilon(1e-9));
  CHECK(choice.learning[index_of(choice, "ring")].factor == 1);
  CHECK(choice.learning[index_of(choice, "local-100")].evidence == Evidence::none);
}

TEST_CASE("on one node there is one point", "[choose]") {
  const Choice choice = choose(question("1"));
  CHECK(choice.axes.empty());
  REQUIRE(choice.points.size() == 1);
  CHECK(choice_table(choice).find("do nothing special") != std::string::npos);
}

TEST_CASE("schemes of one's own, and mistakes", "[choose]") {
  ChooseQuestion own = question("1");
  own.schemes = {"fewer: layout.compression.gradients=top_k, layout.compression.density=0.1"};
  const Choice choice = choose(own);
  CHECK(choice.learning[index_of(choice, "fewer")].evidence == Evidence::measured);

  CHECK_THROWS_AS(parse_candidate("no colon"), InputError);
  CHECK_THROWS_AS(parse_candidate("name: layout"), InputError);
  ChooseQuestion wrong = question();
  wrong.over = {"cluster.nodes=2,4", "layout.micro_batch=1,2", "layout.zero_stage=0,1"};
  CHECK_THROWS_AS(choose(wrong), InputError);
  wrong = question();
  wrong.target = 0.75;
  std::string problem;
  try {
    choose(wrong);
  } catch (const InputError& error) {
    problem = error.what();
  }
  CHECK(problem.find("allowed: 0.5, 0.8, 0.9") != std::string::npos);
  wrong = question();
  wrong.factors = {"no/such/file"};
  CHECK_THROWS_AS(choose(wrong), InputError);
}

TEST_CASE("what is not possible says why, in every form", "[choose]") {
  ChooseQuestion asked = question();
  asked.schemes = {"wrong: layout.zero_stage=7"};
  asked.over = {"cluster.nodes=2,4"};
  const Choice choice = choose(asked);
  const std::size_t wrong = index_of(choice, "wrong");
  CHECK_FALSE(choice.points.front().schemes[wrong].possible());
  CHECK(choice_table(choice).find("wrong: not possible") != std::string::npos);
  CHECK(choice_csv(choice).find("cluster.nodes,scheme,step_time_s") == 0);
  CHECK(choice_json(choice).find("\"evidence\": \"same\"") != std::string::npos);
  CHECK(choice_svg(choice).find("<svg") != std::string::npos);
  CHECK(choice_markdown(choice).find("| as it is |") != std::string::npos);
}
