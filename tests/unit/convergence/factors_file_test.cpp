// Files of factors: written, read back, and what is refused.
#include "sim/convergence/factors.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/convergence/fixture.hpp"

namespace sim {
namespace {

using Lines = std::vector<std::string>;

std::string written() {
  return factors_yaml(test::straight_lines().factors);
}

Lines problems_of(const std::string& text) {
  try {
    parse_factors(text, "factors.yaml");
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

}  // namespace

TEST_CASE("what is written is read back") {
  const ConvergenceFactors read = parse_factors(written(), "factors.yaml");
  CHECK(factors_yaml(read) == written());
  CHECK(read.setting.scenario == "a \"base\"");
  CHECK(read.setting.seeds == std::vector<std::uint64_t>{7, 8});
  CHECK(read.setting.tokens_per_step() == 128);
  CHECK(read.setting.learning_rate == 1e-3);
  CHECK(read.schemes[read.baseline].scheme.name == "none");
  CHECK(read.targets == test::straight_lines().factors.targets);
  const SchemeOutcome* mixed = find_scheme(read, {{"layout.zero_stage", "3"}}, 5);
  REQUIRE(mixed);
  CHECK(mixed->sent == Bytes{500});
  CHECK_FALSE(mixed->seeds[1].steps[0]);
  REQUIRE(factor_of(read, 1, 0).spread);
  CHECK_THAT(factor_of(read, 1, 0).spread->mean, WithinRel(2.0, 1e-4));
  CHECK_THAT(*factor_of(read, 1, 1).above, WithinRel(1.25, 1e-4));
}

TEST_CASE("a run that failed is read back as one") {
  ConvergenceResult result = test::straight_lines();
  result.curves[2].end = SeedEnd::failed;
  score_curves(result.factors, result.curves);
  const std::string text = factors_yaml(result.factors);
  CHECK(text.find("final_loss: [failed, 4.000000]") != std::string::npos);
  const ConvergenceFactors read = parse_factors(text, "factors.yaml");
  CHECK(read.schemes[1].seeds[0].end == SeedEnd::failed);
  CHECK(factors_yaml(read) == text);
}

TEST_CASE("a factor that its steps do not give is refused") {
  CHECK(problems_of(replaced(written(), "factor: 2.0000", "factor: 1.5")) ==
        Lines{"38:47: factor is 1.5, but the steps of scheme and baseline give 2.0000"});
  CHECK(problems_of(replaced(written(), "factor: 2.0000, spread: 0.0000", "factor: not_reached")) ==
        Lines{"38:9: missing key 'spread'",
              "38:47: factor is not_reached, but the steps of scheme and baseline give 2.0000"});
  CHECK(problems_of(replaced(written(), "factor: not_reached", "factor: 1.2")) ==
        Lines{"39:53: factor is 1.2, but the steps of scheme and baseline give not_reached"});
}

TEST_CASE("lists have a value for each seed and an entry for each target") {
  CHECK(problems_of(replaced(written(), "final_loss: [4.000000, 3.000000]", "final_loss: [4]")) ==
        Lines{"27:17: 1 values for 2 seeds; a value for each seed is wanted"});
  CHECK(problems_of(replaced(written(), "baseline: \"none\"", "baseline: \"nine\"")) ==
        Lines{"21:11: there is no scheme 'nine'"});
  CHECK(problems_of(replaced(written(), "smoothing: 1", "smoothing: 102")).size() == 1);
  CHECK(problems_of(replaced(written(), "format: 1", "format: 2")).size() == 1);
  CHECK(problems_of(replaced(written(), "sent_per_step: 10 B", "sent_per_step: 10")).size() == 1);
}

TEST_CASE("the shipped factors are read, and name the schemes that they are of") {
  const ConvergenceFactors shipped =
      load_factors(test::source_dir() + "/validation/convergence/results/byte-llama/factors.yaml");
  CHECK(shipped.setting.model == "byte-llama");
  CHECK(shipped.setting.seeds.size() >= 3);
  for (const char* density : {"0.1", "0.01", "0.001"}) {
    INFO(density);
    CHECK(find_scheme(shipped, {{"layout.compression.density", density},
                                {"layout.compression.gradients", "top_k"}}));
  }
  CHECK(factor_of(shipped, shipped.baseline, 0).spread->mean == 1);
}

}  // namespace sim
