#include "sim/forecast/forecast.hpp"

#include <map>
#include <set>
#include <string>

#include "tests/catch.hpp"

using namespace sim;

namespace {

Scenario gpt(const std::vector<std::string>& overrides = {}) {
  return load_scenario("scenarios/gpt2-124m-8-h100.yaml", overrides);
}

Scenario llama(const std::vector<std::string>& overrides = {}) {
  return load_scenario("scenarios/llama-3.1-70b-512-h100.yaml", overrides);
}

}  // namespace

TEST_CASE("a forecast is what its parts say", "[forecast]") {
  const Scenario scenario = gpt();
  const Forecast made = forecast(scenario);
  const Plan plan = make_plan(scenario.model, scenario.layout);
  const Simulation simulation = simulate(plan, scenario.cluster, scenario.options);
  CHECK(made.report.step_time == simulation.timeline.end.time_since_epoch());
  CHECK(made.timeline.tracks.size() == simulation.timeline.tracks.size());
  PlanMemory memory{plan};
  CHECK(to_json(made.report) == to_json(make_report(scenario, plan, simulation, memory)));
  CHECK(made.report.what_if.empty());
}

TEST_CASE("what-ifs are asked for, the largest gain first, on any number of threads",
          "[forecast]") {
  const Forecast one = forecast(llama(), {.what_if = true}, {.threads = 1});
  const Forecast many = forecast(llama(), {.what_if = true}, {.threads = 7});
  REQUIRE(one.report.what_if.size() == 6);
  for (std::size_t i = 1; i < one.report.what_if.size(); ++i)
    CHECK(one.report.what_if[i - 1].step_time <= one.report.what_if[i].step_time);
  CHECK(to_json(one.report) == to_json(many.report));
}

TEST_CASE("what-ifs tell groups within layers apart, as the breakdown does", "[forecast]") {
  // Gains of expert ranks alone; and of all, where tensor ranks share an expert's features.
  const auto gains = [](const std::vector<std::string>& overrides) {
    const Scenario scenario = load_scenario("scenarios/mixtral-8x7b-64-h100.yaml", overrides);
    const Report report = forecast(scenario, {.what_if = true}).report;
    std::map<FreedResource, Duration> all;
    for (const WhatIf& entry : report.what_if)
      all[entry.resource] = report.step_time - entry.step_time;
    return all;
  };
  auto experts = gains({});
  CHECK(!experts.contains(FreedResource::tensor_communication));
  CHECK(!experts.contains(FreedResource::context_communication));
  CHECK(experts.at(FreedResource::expert_communication) > Duration{});
  auto every = gains({"layout.tensor_parallel=2", "layout.context_parallel=2",
                      "layout.expert_parallel=1", "layout.sequence_parallel=true",
                      "layout.expert_tensor_parallel=2", "layout.data_parallel=4"});
  for (const FreedResource resource :
       {FreedResource::tensor_communication, FreedResource::context_communication,
        FreedResource::expert_communication})
    CHECK(every.at(resource) > Duration{});
}

TEST_CASE("spans of every rank, or of one per class", "[forecast]") {
  CHECK(forecast(gpt(), {.every_rank = true}).timeline.tracks.size() == 8);
  CHECK(forecast(gpt()).timeline.tracks.size() < 8);
}

TEST_CASE("meetings of ranks that train apart are their share of a step", "[forecast]") {
  const auto with = [](std::vector<std::string> more) {
    more.push_back("layout.local_steps.every=50");
    return forecast(gpt(more)).report;
  };
  const Report blocking = with({});
  REQUIRE(blocking.meetings);
  CHECK(blocking.meetings->exposed > Duration{});
  CHECK(blocking.meetings->per_step == blocking.meetings->exposed / 50);
  CHECK(blocking.breakdown.total() == blocking.step_time);
  CHECK(blocking.step_time < forecast(gpt()).report.step_time);
  // All of the parameters in fp32, however they are divided.
  CHECK(static_cast<double>(blocking.meetings->message.count()) ==
        Approx(4.0 * static_cast<double>(blocking.parameters)).epsilon(0.01));
  const Report parts = with({"layout.local_steps.fragments=4"});
  CHECK(parts.meetings->message == blocking.meetings->message);
  CHECK(to_seconds(parts.meetings->exposed) ==
        Approx(to_seconds(blocking.meetings->exposed)).epsilon(0.1));
  // Beside training a meeting costs less than in its way.
  const Report beside = with({"layout.local_steps.overlap=5"});
  CHECK(beside.meetings->exposed < blocking.meetings->exposed);
  // Copies of the last meeting, and the momentum.
  const Report outer = with({"layout.local_steps.outer=nesterov"});
  CHECK((outer.worst_memory().total - blocking.worst_memory().total).count() >
        7 * outer.parameters);
}

TEST_CASE("workers and parameter servers on the routes of a cluster", "[forecast]") {
  const auto with = [](const char* mode, std::vector<std::string> more) {
    more.push_back(std::string{"layout.servers.mode="} + mode);
    return forecast(load_scenario("scenarios/gpt2-64-h100-ethernet.yaml", more)).report;
  };
  const Report together = with("synchronous", {});
  REQUIRE(together.servers);
  CHECK(together.breakdown.total() == together.step_time);
  CHECK(together.servers->staleness.empty());
  const Report apart = with("asynchronous", {});
  CHECK(apart.servers->staleness.mean() == Approx(63).epsilon(0.02));
  CHECK(apart.breakdown.total() == apart.step_time);
  // The servers hold the optimizer, of which a worker has no state.
  CHECK((together.worst_memory().total - apart.worst_memory().total).count() >=
        11 * apart.parameters);
  CHECK(apart.worst_memory().host.memory > Bytes{});
  const std::string slow = "cluster.change.node.nics.bandwidth=10 Gbps";
  CHECK(with("asynchronous", {slow}).step_time > 3 * apart.step_time);
  // Where the network is what all wait for, machines of their own take load off it.
  const std::vector<std::string> machines{slow, "cluster.nodes=16", "cluster.gpus=64",
                                          "layout.servers.place=balanced",
                                          "layout.servers.machines=8"};
  CHECK(to_seconds(with("synchronous", machines).step_time) <
        0.9 * to_seconds(with("synchronous", {slow}).step_time));
  CHECK_THROWS_WITH(
      with("synchronous", {"layout.servers.place=machines", "layout.servers.machines=4"}),
      "layout.servers: error: 8 nodes of workers and 4 machines of servers are more than the 8 "
      "nodes of the cluster; set cluster.nodes to 12 and cluster.gpus to 64");
}

TEST_CASE("the memory alone needs no simulation", "[forecast]") {
  const Forecast memory = forecast_memory(llama());
  CHECK(memory.timeline.tracks.empty());
  CHECK(memory.report.step_time == Duration{});
  CHECK(memory.report.worst_memory().total == forecast(llama()).report.worst_memory().total);
}

TEST_CASE("the plan is kept while only the machine changes", "[forecast]") {
  Forecaster forecaster;
  const Forecast first = forecaster.run(llama());
  const Forecast faster = forecaster.run(llama({"cluster.change.node.nvlink.rate=x2"}));
  CHECK(faster.plan == first.plan);
  CHECK(faster.report.step_time < first.report.step_time);
  const Forecast other = forecaster.run(llama({"layout.micro_batch=2"}));
  CHECK(other.plan != first.plan);
  CHECK(to_json(other.report) == to_json(forecast(llama({"layout.micro_batch=2"})).report));
  CHECK(forecaster.run(llama({"layout.micro_batch=2", "model=models/llama-2-70b.yaml"})).plan !=
        other.plan);
}

TEST_CASE("who is told to stop has no forecast", "[forecast]") {
  std::stop_source stop;
  stop.request_stop();
  const Control control{.stop = stop.get_token()};
  CHECK_THROWS_AS(forecast(gpt(), {}, control), Stopped);
  CHECK_THROWS_AS(forecast_memory(gpt(), control), Stopped);
}

TEST_CASE("every phase looks whether it is to stop, and tells that it begins", "[forecast]") {
  std::set<std::string> phases;
  forecast(gpt(), {.what_if = true},
           {.progress = [&](const Progress& progress) { phases.emplace(progress.phase); },
            .threads = 1});
  CHECK(phases == std::set<std::string>{"plan", "simulation", "what-ifs", "done"});
  for (const std::string phase : {"plan", "simulation", "what-ifs"}) {
    std::stop_source stop;
    const auto at_phase = [&](const Progress& progress) {
      if (progress.phase == phase) stop.request_stop();
    };
    CHECK_THROWS_AS(forecast(gpt(), {.what_if = true},
                             {.stop = stop.get_token(), .progress = at_phase, .threads = 1}),
                    Stopped);
  }
}
