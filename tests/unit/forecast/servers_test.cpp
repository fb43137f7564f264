// The queueing network that a plan with parameter servers is on a cluster.
#include "sim/forecast/servers.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/plan/server_exchange.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/servers/run_servers.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

Scenario job(std::vector<std::string> more) {
  more.emplace_back("layout.servers.mode=synchronous");
  return load_scenario("scenarios/gpt2-64-h100-ethernet.yaml", more);
}

std::vector<std::string> groups(int gpus) {
  return {"layout.zero_stage=1", "layout.shard_group=" + std::to_string(gpus)};
}

ServerSystem system_of(const Scenario& scenario) {
  const Plan plan = make_plan(scenario.model, scenario.layout);
  const Timeline step =
      simulate(plan, scenario.cluster, options_of_worker(scenario.options)).timeline;
  return server_system(plan, scenario.cluster, scenario.options, step);
}

// Messages alone, all at once.
Duration exchange_of(ServerSystem system) {
  system.compute = Duration{1};
  system.tail = system.latency = Duration{};
  for (ServerMessage& message : system.messages)
    message.ready = message.update = Duration{};
  for (ServerWorker& worker : system.workers)
    worker.slowness = 1;
  return run_servers(system).step;
}

}  // namespace

TEST_CASE("a worker of several GPUs sends as much as one of one", "[forecast]") {
  const ServerSystem one = system_of(job({})), eight = system_of(job(groups(8)));
  CHECK(one.workers.size() == 64);
  CHECK(eight.workers.size() == 8);
  const auto sent = [](const ServerSystem& system) {
    double bytes = 0;
    for (const ServerMessage& message : system.messages)
      bytes += static_cast<double>(message.pushed.count());
    return bytes;
  };
  CHECK(sent(eight) == Approx(sent(one)).epsilon(1e-5));
  // The exchange of eight times fewer workers.
  CHECK(to_seconds(exchange_of(eight)) < 0.2 * to_seconds(exchange_of(one)));
}

// Jiang et al. 2020 (BytePS), section 4.1: 2 n (n - 1) M / ((n^2 + n k - 2 k) B), here of n nodes
// whose GPUs send an eighth of M each by a card of their own.
TEST_CASE("workers of a node each share the load as BytePS divides it", "[forecast]") {
  for (const int machines : {0, 2, 4, 8}) {
    CAPTURE(machines);
    std::vector<std::string> more = groups(8);
    more.insert(more.end(), {"layout.servers.partition=1 MB", "cluster.gpus=64",
                             "cluster.nodes=" + std::to_string(8 + machines),
                             "layout.servers.machines=" + std::to_string(machines)});
    more.emplace_back(machines > 0 ? "layout.servers.place=balanced"
                                   : "layout.servers.place=workers");
    const Scenario scenario = job(more);
    const ServerSystem system = system_of(scenario);
    double bytes = 0;
    for (const ServerMessage& message : system.messages)
      bytes += static_cast<double>(message.pushed.count());
    const double n = 8, k = machines;
    const double own = share_on_workers(scenario.layout, 8) / n;
    // All cards of a node, of which messages to its own server use none.
    double rate = 1e15;
    for (const ResourceUse& use : system.workers.front().push.links)
      rate = std::min(rate, static_cast<double>(system.capacities[use.resource]) * 65536 /
                                static_cast<double>(use.weight));
    const double expected = 2 * n * (n - 1) / (n * n + n * k - 2 * k) * bytes / (rate * (1 - own));
    CHECK(to_seconds(exchange_of(system)) == Approx(expected).epsilon(0.05));
  }
}

TEST_CASE("fast links and servers leave workers of a node their own pace, slow links are the pace",
          "[forecast]") {
  const auto with = [](const char* nics, const char* host) {
    std::vector<std::string> more = groups(8);
    more.insert(more.end(), {"layout.servers.mode=asynchronous", "layout.servers.partition=1 MB",
                             std::string{"cluster.change.node.nics.bandwidth="} + nics,
                             std::string{"cluster.change.host.bandwidth="} + host});
    return load_scenario("scenarios/gpt2-64-h100-ethernet.yaml", more);
  };
  const ServerRun free = *forecast(with("100000 Gbps", "100000 GB/s")).report.servers;
  CHECK(to_seconds(free.exchange) < 0.05 * to_seconds(free.step));
  // Each card carries an eighth of what its node sends to the seven others, and of what these take.
  const Scenario slow = with("1 Gbps", "100000 GB/s");
  const ServerSystem system = system_of(slow);
  double bytes = 0;
  for (const ServerMessage& message : system.messages)
    bytes += static_cast<double>((message.pushed + message.pulled).count());
  double rate = 1e15;
  for (const ResourceUse& use : system.workers.front().push.links)
    rate = std::min(rate, static_cast<double>(system.capacities[use.resource]) * 65536 /
                              static_cast<double>(use.weight));
  const Report report = forecast(slow).report;
  const ServerRun& bound = *report.servers;
  CHECK(to_seconds(bound.step) == Approx(bytes / rate).epsilon(0.1));
  CHECK(bound.busiest_share > 0.9);
  // Shares of the whole step, in which the exchange is not in the timeline.
  const StepShares& of = report.shares;
  CHECK(of.data > 0.5);
  CHECK(of.products + of.memory_kernels + of.host + of.tensor + of.data + of.pipeline == Approx(1));
  REQUIRE(report.interval);
  CHECK(report.interval->longest(report.step_time) < 10 * report.step_time);
}

TEST_CASE("parts come back while others go out", "[forecast]") {
  const Report whole = forecast(job(groups(8))).report;
  std::vector<std::string> cut = groups(8);
  cut.emplace_back("layout.servers.partition=4 MB");
  const Report parts = forecast(job(cut)).report;
  CHECK(parts.step_time < whole.step_time);
  CHECK(parts.breakdown.total() == parts.step_time);
}

TEST_CASE("workers of several GPUs are less stale, and their network carries less", "[forecast]") {
  const auto with = [](std::vector<std::string> more) {
    more.emplace_back("layout.servers.mode=asynchronous");
    return forecast(load_scenario("scenarios/gpt2-64-h100-ethernet.yaml", more)).report;
  };
  const Report nodes = with(groups(8));
  CHECK(nodes.servers->staleness.mean() == Approx(7).epsilon(0.02));
  CHECK(nodes.step_time < with({}).step_time);
}

TEST_CASE("a worker lies on one node, and parts have a limit", "[forecast]") {
  std::vector<std::string> wide = groups(16);
  CHECK_THROWS_WITH(forecast(job(wide)),
                    "layout.servers: error: workers of 16 GPUs (layout.shard_group) on nodes of 8; "
                    "allowed: a divisor of 8");
  CHECK_THROWS_AS(forecast(job({"layout.servers.partition=4 KiB"})), InputError);
}

TEST_CASE("a straggler holds back its whole worker, and no other", "[forecast]") {
  Scenario scenario = job(groups(8));
  scenario.options.device_spread = 0;
  scenario.options.stragglers = {{RankId{9}, 2}};
  const ServerSystem system = system_of(scenario);
  for (std::size_t worker = 0; worker < system.workers.size(); ++worker)
    CHECK(system.workers[worker].slowness == (worker == 1 ? 2 : 1));
}
