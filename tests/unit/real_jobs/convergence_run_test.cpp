// A suite of schemes trained for real, in small; what is refused before anything is trained.
#include "real/jobs/convergence_run.hpp"

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/unit/real_jobs/support.hpp"

namespace real::test {
namespace {

using Lines = std::vector<std::string>;

// On the base scenario of the shipped suite, four ranks.
sim::ConvergenceSuite suite_with(const std::string& schemes,
                                 const std::string& keys = "steps: 20") {
  const std::string base = sim::test::source_dir() + "/validation/convergence/byte-llama-dp4.yaml";
  return sim::parse_convergence_suite("name: tiny\nscenario: " + base + "\n" + keys +
                                          "\nseeds: 2\ntargets: [0.5]\nschemes:\n" + schemes,
                                      "suite.yaml");
}

constexpr const char* plain = "  - {name: plain}\n";
constexpr const char* top =
    "  - {name: top, set: {layout.compression.gradients: top_k, layout.compression.density: "
    "0.1}}\n";

Lines problems_of(const std::string& schemes) {
  try {
    run_convergence(suite_with(schemes), {});
  } catch (const sim::InputError& error) {
    return sim::test::lines_of(error);
  }
  return {};
}

}  // namespace

TEST_CASE("a suite trains every scheme with every seed, and the baseline's factor is one") {
  Lines notes;
  double share = 0;
  const sim::ConvergenceResult result = run_convergence(
      suite_with(std::string{top} + plain + "baseline: plain\n"),
      {.control = {.progress = [&](const sim::Progress& progress) { share = progress.share; }},
       .note = [&](const std::string& line) { notes.push_back(line); }});
  CHECK_FALSE(result.interrupted);
  CHECK(share == 1);
  REQUIRE(notes.size() == 4);
  CHECK(notes[0].starts_with("1 of 4: plain, seed 1: loss "));
  CHECK(notes[3].starts_with("4 of 4: top, seed 2: loss "));
  REQUIRE(result.curves.size() == 4);
  for (const sim::LossCurve& curve : result.curves) {
    CHECK(curve.losses.size() == 20);
    CHECK(curve.end == sim::SeedEnd::trained);
  }
  // The same weights and data: the first losses of a seed are equal, those of two seeds are not.
  CHECK(result.curves[0].losses[0] == Approx(result.curves[2].losses[0]));
  CHECK(result.curves[0].losses[0] != result.curves[1].losses[0]);
  CHECK(result.curves[0].losses[5] != result.curves[2].losses[5]);
  CHECK(result.factors.baseline == 1);
  const sim::StatisticalFactor one = sim::factor_of(result.factors, 1, 0);
  REQUIRE(one.spread);
  CHECK(one.spread->mean == 1);
  CHECK(one.spread->deviation == 0);
  CHECK(sim::factor_of(result.factors, 0, 0).compared == 2);
  CHECK(result.factors.schemes[0].sent < result.factors.schemes[1].sent);
  CHECK(result.factors.setting.replicas == 4);
  CHECK(result.factors.setting.data == "tales.txt");
  const std::string yaml = sim::factors_yaml(result.factors);
  CHECK(sim::factors_yaml(sim::parse_factors(yaml, "f")) == yaml);
}

TEST_CASE("a warm-up is the baseline's own beginning, and the scheme goes on from it") {
  const sim::ConvergenceResult result = run_convergence(
      suite_with(std::string{plain} +
                 "  - {name: bits, set: {layout.compression.gradients: one_bit}, warm_up: 6}\n"
                 "  - {name: same, warm_up: 6}\n"
                 "  - {name: whole, set: {layout.zero_stage: 3}, warm_up: 6}\n"),
      {});
  REQUIRE(result.curves.size() == 8);
  for (std::size_t seed = 0; seed < 2; ++seed) {
    const std::vector<double>& baseline = result.curves[seed].losses;
    const std::vector<double>& bits = result.curves[2 + seed].losses;
    REQUIRE(bits.size() == 20);
    CHECK(std::equal(bits.begin(), bits.begin() + 6, baseline.begin()));
    CHECK(bits[6] == Approx(baseline[6]));  // of the weights behind the warm-up
    CHECK(bits[10] != Approx(baseline[10]));
    CHECK(result.curves[4 + seed].losses == baseline);
    CHECK(result.curves[6 + seed].losses[19] == Approx(baseline[19]).epsilon(1e-3));
  }
}

TEST_CASE("a stopped suite keeps the runs that are complete") {
  std::stop_source source;
  const sim::ConvergenceResult result = run_convergence(
      suite_with(std::string{plain} + top),
      {.control = {.stop = source.get_token(), .progress = [&](const sim::Progress& progress) {
                     if (progress.share > 0.3) source.request_stop();  // in the second of four
                   }}});
  CHECK(result.interrupted);
  REQUIRE(result.curves.size() == 2);
  CHECK(result.curves[0].end == sim::SeedEnd::trained);
  CHECK(result.curves[1].end == sim::SeedEnd::not_run);
  CHECK(result.curves[1].losses.size() < 20);
  CHECK(sim::factor_of(result.factors, 0, 0).compared == 1);
}

TEST_CASE("a run that fails is a result, and the others are trained") {
  const sim::ConvergenceResult result = run_convergence(
      suite_with(std::string{plain} +
                     "  - {name: wild, set: {training.learning_rate: 1, training.clip: 0, "
                     "training.epsilon: 1e-30, training.beta1: 0, training.beta2: 0}}\n" +
                     top,
                 "steps: 12"),
      {});
  CHECK_FALSE(result.interrupted);
  REQUIRE(result.curves.size() == 6);
  CHECK(result.curves[4].end == sim::SeedEnd::trained);
  const sim::StatisticalFactor wild = sim::factor_of(result.factors, 1, 0);
  CHECK(wild.compared == 2);
  CHECK(wild.reached == 0);
}

TEST_CASE("mistakes in the keys of a scheme are told at their place in the suite") {
  CHECK(problems_of(std::string{plain} + "  - {name: a, set: {layout.zero_stag: 3}}\n") ==
        Lines{"8:39: unknown key 'zero_stag'; did you mean 'zero_stage'? (scheme 'a')"});
  CHECK(problems_of(std::string{plain} +
                    "  - {name: a, set: {layout.compression.gradients: topk}}\n") ==
        Lines{"8:51: gradients is 'topk'; did you mean 'top_k'? allowed: none, top_k, random_k, "
              "power_sgd, one_bit, one_bit_lamb, int8, int4 (scheme 'a')"});
  const Lines zero = problems_of(std::string{plain} +
                                 "  - {name: a, set: {layout.compression.gradients: int8}}\n");
  INFO(zero[0]);
  REQUIRE(zero.size() == 1);
  CHECK(zero[0].starts_with("8:51: compression.gradients is int8 with zero_stage 0; allowed: "));
}

TEST_CASE("what cannot be compared is refused before anything is trained") {
  const std::string bits = "  - {name: b, set: {layout.compression.gradients: one_bit}}\n";
  const Lines warm = problems_of(plain + bits);
  REQUIRE(warm.size() == 1);
  CHECK(warm[0].find("one_bit goes on with the second moments of Adam") != std::string::npos);
  CHECK(problems_of(top) ==
        Lines{"0:0: the baseline 'top' compresses what ranks send; allowed: a scheme with "
              "layout.compression.gradients none, named by `baseline`"});
  CHECK(problems_of(std::string{plain} + "  - {name: a, set: {layout.global_batch: 32}}\n") ==
        Lines{"0:0: the scheme 'a' trains on 32 sequences of 32 tokens per step, the baseline "
              "'plain' on 16 of 32; allowed: the same"});
}

}  // namespace real::test
