// A machine that is slower than the models is learnt from one run of it.
#include "sim/anchor/anchor_report.hpp"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/base/input_error.hpp"
#include "sim/forecast/forecast.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

const std::string root = test::source_dir();

std::string saved(const std::string& name, const std::string& text) {
  std::string path = test::temporary_path(name).string();
  std::ofstream{path} << text;
  return path;
}

std::string scenario(int nodes, const std::string& cluster = "dgx-h100") {
  return saved("nodes" + std::to_string(nodes) + cluster + ".yaml",
               "model: " + root + "/models/llama-3.1-8b.yaml\ncluster: {path: " + root +
                   "/topologies/" + cluster + ".yaml, nodes: " + std::to_string(nodes) +
                   "}\nlayout: {tensor_parallel: 2, data_parallel: " + std::to_string(4 * nodes) +
                   ", sequence_length: 4096, global_batch: " + std::to_string(32 * nodes) + "}\n");
}

// truth() is the time of the step where everything is slower by these factors.
Duration truth(const std::string& path, const std::string& factors) {
  return forecast(load_scenario(path, {"simulation.time_factors=" + factors})).report.step_time;
}

AnchorReport report_of(const std::vector<std::string>& scenarios,
                       const std::vector<Duration>& measured) {
  RunsRequest request{.scenarios = scenarios};
  for (const Duration time : measured)
    request.step_times.push_back(std::to_string(time.count()) + " ps");
  return make_anchor_report(read_anchor_runs(request), *shipped_time_errors());
}

double off(Duration forecast, Duration measured) {
  return std::abs(std::log(to_seconds(forecast) / to_seconds(measured)));
}

double width(const TimeInterval& interval) {
  return std::log(interval.high / interval.low);
}

}  // namespace

TEST_CASE("A run on one node makes the forecast of eight right, and surer", "[anchor]") {
  const std::string factors = GENERATE(
      std::string{"{products: 1.12, memory_kernels: 1.12, host: 1.12, tensor: 1.12, data: 1.12, "
                  "pipeline: 1.12}"},
      std::string{"{products: 0.93, memory_kernels: 0.93, host: 0.93, tensor: 0.93, data: 0.93, "
                  "pipeline: 0.93}"},
      std::string{"{memory_kernels: 1.3, tensor: 1.4}"});
  CAPTURE(factors);
  const std::string small = scenario(1), large = scenario(8);
  const AnchorReport report = report_of({small, large}, {truth(small, factors)});
  REQUIRE(report.forecasts.size() == 1);
  const AnchoredForecast& of = report.forecasts[0];
  const Duration real = truth(large, factors);
  CHECK(off(of.step_time, real) < 0.4 * off(of.without, real));
  CHECK(width(of.after) < 0.8 * width(of.before));
  CHECK(of.step_time * of.after.low < real);
  CHECK(real < of.step_time * of.after.high);
  CHECK(report.told_apart > 0.5);
  CHECK(report.told_apart <= 1);
}

TEST_CASE("A run as forecast changes nothing much", "[anchor]") {
  const std::string small = scenario(1);
  const AnchorReport report = report_of({small}, {truth(small, "{}")});
  const AnchorRun& run = report.anchor.runs.at(0);
  CHECK(off(run.anchored, run.measured) < 0.01);
}

TEST_CASE("More runs tell more parts apart, and the next run to measure helps", "[anchor]") {
  const std::string one = scenario(1), two = scenario(2), eight = scenario(8);
  const std::string factors = "{tensor: 1.3, data: 1.3}";
  const AnchorReport first = report_of({one}, {truth(one, factors)});
  const AnchorReport both = report_of({one, two}, {truth(one, factors), truth(two, factors)});
  CHECK(both.told_apart > first.told_apart);
  for (std::size_t i = 0; i < first.parts.size(); ++i)
    CHECK(both.parts[i].half_width <= first.parts[i].half_width * (1 + 1e-9));
  const AnchorReport named = report_of({one, eight}, {truth(one, factors)});
  REQUIRE(!named.next.empty());
  CHECK(named.next[0].gpus < 64);
  CHECK(named.next[0].half_width < width(named.forecasts[0].after) / 2);
}

TEST_CASE("A run that was read with overrides can be grown", "[anchor]") {
  RunsRequest request{.scenarios = {scenario(1)}, .step_times = {"1 s"}};
  request.overrides = {"layout.global_batch=64", "cluster.nodes=1"};
  CHECK(!make_anchor_report(read_anchor_runs(request), *shipped_time_errors()).next.empty());
}

TEST_CASE("The file of an anchor gives the forecast that the report has", "[anchor]") {
  const std::string small = scenario(1), large = scenario(4);
  const AnchorReport report =
      report_of({small, large}, {truth(small, "{products: 1.2, tensor: 1.2}")});
  const std::string file = saved("anchor.yaml", anchor_yaml(report.anchor));
  const Scenario anchored = load_scenario(large, {"simulation.anchor=" + file});
  const Report made = forecast(anchored).report;
  CHECK(off(made.step_time, report.forecasts[0].step_time) < 1e-5);
  REQUIRE(made.interval);
  CHECK(width(*made.interval) == Approx(width(report.forecasts[0].after)).epsilon(1e-3));
  CHECK(made.interval->own_runs == 1);
}

TEST_CASE("An anchor of another device, or beside factors, is refused", "[anchor]") {
  const std::string small = scenario(1);
  const AnchorReport report = report_of({small}, {truth(small, "{}")});
  const std::string file = saved("anchor.yaml", anchor_yaml(report.anchor));
  const auto refusal = [&](const std::string& path, const std::vector<std::string>& more) {
    std::vector<std::string> overrides{"simulation.anchor=" + file};
    overrides.insert(overrides.end(), more.begin(), more.end());
    try {
      static_cast<void>(load_scenario(path, overrides));
    } catch (const InputError& error) {
      return std::string{error.what()};
    }
    return std::string{"was read"};
  };
  CHECK(refusal(scenario(1, "dgx-a100-80"), {}).find("were measured") != std::string::npos);
  CHECK(refusal(small, {"framework.name=pytorch"}).find("were measured") != std::string::npos);
  CHECK(refusal(small, {"simulation.time_factors.host=2"}).find("leave out one of the two") !=
        std::string::npos);
  CHECK(refusal(small, {"simulation.collectives=stepwise"}).find("fluid collectives") !=
        std::string::npos);
}

TEST_CASE("The report of an anchor has all forms", "[anchor]") {
  const std::string small = scenario(1), large = scenario(2);
  const AnchorReport report = report_of({small, large}, {truth(small, "{data: 1.2}")});
  const auto json = nlohmann::json::parse(anchor_json(report));
  CHECK(json["runs"][0]["gpus"] == 8);
  CHECK(json["forecasts"][0]["step_time_s_low"] < json["forecasts"][0]["step_time_s_high"]);
  CHECK(anchor_table(report).find("known to within") != std::string::npos);
  CHECK(anchor_csv(report).find("run,gpus,measured_s") == 0);
  CHECK(anchor_markdown(report).find("| part of the step |") != std::string::npos);
}
