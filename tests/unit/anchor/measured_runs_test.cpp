// Scenarios with their measured steps: in order, and by a table.
#include "sim/anchor/measured_runs.hpp"

#include <fstream>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

std::string saved(const std::string& name, const std::string& text) {
  std::string path = test::temporary_path(name).string();
  std::ofstream{path} << text;
  return path;
}

std::string scenario(const std::string& name, const std::string& more = {}) {
  const std::string root = test::source_dir();
  return saved(name, "model: " + root + "/models/gpt2.yaml\ncluster: {path: " + root +
                         "/topologies/dgx-h100.yaml, nodes: 1}\n"
                         "layout: {data_parallel: 8, sequence_length: 1024, global_batch: 64, "
                         "micro_batch: 4}\n" +
                         more);
}

std::string refusal(const RunsRequest& request) {
  try {
    static_cast<void>(read_anchor_runs(request));
  } catch (const InputError& error) {
    return error.what();
  }
  return "was read";
}

bool holds(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Times belong to scenarios in their order, and others are to be forecast", "[anchor]") {
  const std::string a = scenario("a.yaml"), b = scenario("b.yaml");
  const AnchorRuns runs = read_anchor_runs({.scenarios = {a, b}, .step_times = {"30 ms"}});
  REQUIRE(runs.measured.size() == 1);
  CHECK(runs.measured[0].name == a);
  CHECK(runs.measured[0].measured == std::chrono::milliseconds{30});
  REQUIRE(runs.others.size() == 1);
  CHECK(runs.others[0].name == b);
}

TEST_CASE("A log gives the step, also as a rate of tokens", "[anchor]") {
  const std::string a = scenario("a.yaml");
  // 64 x 1024 tokens on 8 GPUs: 8192 of each.
  const std::string log = saved("titan.log", "step: 1  tps: 81,920\nstep: 2  tps: 81,920\n");
  const AnchorRuns runs = read_anchor_runs({.scenarios = {a}, .logs = {log}});
  CHECK(to_seconds(runs.measured.at(0).measured) == Approx(0.1));
  CHECK(holds(runs.notes.at(0), "torchtitan"));
}

TEST_CASE("A table has a run in each line, with the keys that differ", "[anchor]") {
  const std::string a = scenario("a.yaml"), b = scenario("b.yaml");
  const std::string table = saved(
      "runs.csv", "scenario,step_time_s,layout.micro_batch\n" + a + ",0.03,\n" + a + ",0.04,8\n");
  const AnchorRuns runs = read_anchor_runs({.scenarios = {a, b}, .table = table});
  REQUIRE(runs.measured.size() == 2);
  CHECK(runs.measured[1].scenario.layout.micro_batch == 8);
  CHECK(runs.others.size() == 1);
}

TEST_CASE("What is wrong with measured runs is said", "[anchor]") {
  const std::string a = scenario("a.yaml"), b = scenario("b.yaml");
  CHECK(holds(refusal({.scenarios = {a}}), "no run is measured"));
  CHECK(holds(refusal({.scenarios = {a}, .step_times = {"1 s", "2 s"}}), "2 are given for 1"));
  CHECK(holds(refusal({.scenarios = {a}, .step_times = {"5"}}), "'5' is no time above zero"));
  CHECK(holds(refusal({.scenarios = {a}, .step_times = {"0 s"}}), "no time above zero"));
  const auto table = [&](const std::string& text) {
    return refusal({.scenarios = {a, b}, .table = saved("runs.csv", text)});
  };
  CHECK(holds(table("scenario,time\na,1\n"), "unknown column 'time'"));
  CHECK(holds(table("scenario\na\n"), "no column step_time_s"));
  CHECK(holds(table("scenario,step_time_s\n"), "it has no runs"));
  CHECK(holds(table("step_time_s\n1\n"), "of several scenarios"));
  CHECK(holds(table("scenario,step_time_s\nelse,1\n"), "there is no scenario 'else'"));
  CHECK(holds(table("scenario,step_time_s\n" + a + ",-1\n"), "step_time_s is '-1'"));
  CHECK(holds(table("scenario,step_time_s\n" + a + ",1 s\n"), "step_time_s is '1 s'"));
  const std::string other = scenario("c.yaml", "framework: {name: pytorch}\n");
  CHECK(holds(refusal({.scenarios = {a, other}, .step_times = {"1 s"}}),
              "an anchor is of one framework"));
  const std::string factors = scenario("d.yaml", "simulation: {time_factors: {products: 1.1}}\n");
  CHECK(holds(refusal({.scenarios = {factors}, .step_times = {"1 s"}}), "time_factors"));
}
