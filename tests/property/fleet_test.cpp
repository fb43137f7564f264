// Several jobs at once on one fabric.
#include "sim/fleet/fleet.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sim/base/input_error.hpp"
#include "sim/engine/jobs.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

namespace sim {
namespace {

constexpr const char* replicas = "tensor_parallel: 1, zero_stage: 3, global_batch: 64";
constexpr const char* stages =
    "tensor_parallel: 4, pipeline_parallel: 4, global_batch: 32, zero_stage: 1";

// Leaves of 4 nodes, 2:1.
FleetJob fleet_job(const std::string& name, const std::string& layout, const std::string& nodes) {
  const auto path = test::temporary_path("fleet_job.yaml");
  std::ofstream{path} << fmt::format(
      "model: llama-3.1-8b\ncluster: {{path: dgx-h100-2to1, node_list: '{}'}}\n"
      "layout: {{{}, sequence_length: 2048}}\n",
      nodes, layout);
  FleetJob job{.name = name, .scenario = load_scenario(path.string())};
  std::filesystem::remove(path);
  return job;
}

Fleet fleet_of(std::vector<FleetJob> jobs) {
  return {.name = "fleet", .path = "fleet.yaml", .phases = 3, .seed = 1, .jobs = std::move(jobs)};
}

template <class... Jobs>
FleetForecast forecast_of(Jobs... jobs) {
  std::vector<FleetJob> all;
  (all.push_back(std::move(jobs)), ...);
  return forecast_fleet(fleet_of(std::move(all)));
}

}  // namespace

TEST_CASE("a job alone takes the steps of its forecast", "[fleet]") {
  const FleetJob job = fleet_job("a", replicas, "node[0-7]");
  const Plan plan = make_plan(job.scenario.model, job.scenario.layout);
  const Duration step =
      simulate(plan, job.scenario.cluster, job.scenario.options).timeline.end - TimePoint{};
  const Job one{&plan, &job.scenario.cluster, &job.scenario.options};
  const JobStart start{.delay = std::chrono::milliseconds{3}, .steps = 3};
  const StepEnds ends = simulate_jobs({&one, 1}, {&start, 1}).front();
  REQUIRE(ends.size() == 3);
  CHECK(ends[0] - TimePoint{} >= step + start.delay);  // the host issues the wait, too
  CHECK(ends[1] - ends[0] == step);
  CHECK(ends[2] - ends[1] == step);
}

TEST_CASE("jobs that share no link leave each other alone", "[fleet]") {
  const FleetForecast apart =
      forecast_of(fleet_job("a", replicas, "node[0-3]"), fleet_job("b", replicas, "node[4-7]"));
  for (const JobImpact& job : apart.jobs) {
    CHECK(job.beside_all.least() == 1);
    CHECK(job.beside_all.most() == 1);
  }
  REQUIRE(apart.pairs.size() == 1);
  CHECK(apart.pairs[0].links.empty());
}

TEST_CASE("jobs that share the way out of their leaves slow each other", "[fleet]") {
  const FleetForecast both = forecast_of(fleet_job("a", replicas, "node[0,4,1,5]"),
                                         fleet_job("b", replicas, "node[2,6,3,7]"));
  for (const JobImpact& job : both.jobs) {
    CHECK(job.beside_all.median() > 1.01);
    CHECK(job.beside_all.most() < 2.01);
  }
  REQUIRE(both.pairs.size() == 1);
  REQUIRE_FALSE(both.pairs[0].links.empty());
  CHECK(both.pairs[0].links[0].name.find("leaf") != std::string::npos);
  CHECK(both.pairs[0].links[0].first_busy > 0);
}

TEST_CASE("a third job elsewhere changes nothing for two", "[fleet]") {
  const FleetForecast three = forecast_of(fleet_job("a", stages, "node[0,4,1,5]"),
                                          fleet_job("b", replicas, "node[2,6,3,7]"),
                                          fleet_job("c", stages, "node[128-131]"));
  REQUIRE(three.pairs.size() == 3);
  CHECK(three.jobs[2].beside_all.most() == 1);
  CHECK(three.pairs[1].of_first.most() == 1);
  CHECK(three.pairs[1].links.empty());
}

TEST_CASE("fleets that are none are refused", "[fleet]") {
  const auto problem = [](std::vector<FleetJob> jobs) {
    try {
      forecast_fleet(fleet_of(std::move(jobs)));
    } catch (const InputError& error) {
      return error.problems().front().what;
    }
    return std::string{};
  };
  std::vector<FleetJob> twice;
  twice.push_back(fleet_job("a", replicas, "node[0-3]"));
  twice.push_back(fleet_job("b", replicas, "node[3-6]"));
  CHECK(problem(std::move(twice)) == "job 'b': node3 is another job's, too");
}

}  // namespace sim
