// Workers and parameter servers against what is known in closed form.
#include "sim/servers/run_servers.hpp"

#include <numeric>

#include "sim/plan/server_exchange.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

constexpr std::int64_t gigabyte = 1'000'000'000;
constexpr Duration millisecond{1'000'000'000};

// Workers each with a link of its own and one of the servers behind it, links 1, 2, ... and 0 out,
// and as many more back. Of two buckets the second is ready with the last kernel.
ServerSystem one_server(int workers, std::int64_t worker_rate, std::int64_t server_rate) {
  ServerSystem system;
  system.compute = 10 * millisecond;
  const Bytes half{10'000'000};
  system.messages = {{.ready = 5 * millisecond, .pushed = half, .pulled = half},
                     {.ready = 10 * millisecond, .pushed = half, .pulled = half}};
  const auto all = static_cast<std::uint32_t>(workers) + 1;
  system.capacities.assign(2 * all, worker_rate);
  system.capacities[0] = system.capacities[all] = server_rate;
  const std::int64_t rate = std::min(worker_rate, server_rate);
  for (std::uint32_t w = 1; w < all; ++w)
    system.workers.push_back({.push = {{{0, 65536}, {w, 65536}}, rate},
                              .pull = {{{all, 65536}, {all + w, 65536}}, rate}});
  return system;
}

double milliseconds(Duration time) {
  return to_seconds(time) * 1e3;
}

// n nodes with a worker each and k machines of servers, all with a card of one rate; messages in
// many pieces, and nothing to compute.
Duration exchange_of(int nodes, int machines, double on_workers) {
  constexpr int pieces = 100;
  ServerSystem system;
  system.mode = Servers::synchronous;
  system.compute = Duration{1};
  for (int i = 0; i < pieces; ++i)
    system.messages.push_back(
        {.pushed = Bytes{gigabyte / pieces}, .pulled = Bytes{gigabyte / pieces}});
  const int cards = nodes + machines;
  system.capacities.assign(static_cast<std::size_t>(2 * cards), gigabyte);
  const auto uses = [&](int worker, bool out) {
    std::vector<ResourceUse> links;
    for (int card = 0; card < cards; ++card) {
      const double share = card < nodes ? on_workers / nodes : (1 - on_workers) / machines;
      const double weight = card == worker ? 1 - on_workers / nodes : share;
      // A worker's own card sends what it pushes, the others receive; and back.
      const int direction = (card == worker) == out ? 0 : cards;
      if (weight > 0)
        links.push_back({static_cast<std::uint32_t>(direction + card),
                         static_cast<std::uint64_t>(weight * 65536)});
    }
    return links;
  };
  for (int w = 0; w < nodes; ++w)
    system.workers.push_back(
        {.push = {uses(w, true), 4 * gigabyte}, .pull = {uses(w, false), 4 * gigabyte}});
  return run_servers(system).step;
}

}  // namespace

TEST_CASE("one worker waits for its own exchange alone", "[servers]") {
  ServerSystem system = one_server(1, gigabyte, gigabyte);
  system.latency = millisecond;
  for (ServerMessage& message : system.messages)
    message.update = 3 * millisecond;
  const ServerRun run = run_servers(system);
  // Out 10 ms from 10 to 20 (the first from 5 to 15: the second goes from 15 to 25), 1 ms on the
  // way, 3 of update, 1 on the way behind 10 back: the second is back at 25 + 1 + 3 + 10 + 1.
  CHECK(milliseconds(run.step) == Approx(40));
  CHECK(milliseconds(run.compute) == Approx(10));
  CHECK(milliseconds(run.exchange) == Approx(30));
  CHECK(run.staleness.mean() == 0);
  CHECK(run.staleness.quantile(1) == 0);
}

TEST_CASE("servers and links without limits leave every worker its own pace", "[servers]") {
  ServerSystem system = one_server(3, 1'000'000 * gigabyte, 1'000'000 * gigabyte);
  system.workers[1].slowness = 2;
  system.workers[2].slowness = 4;
  const ServerRun run = run_servers(system);
  // Steps of three workers in a time: 1 + 1/2 + 1/4 of one; a step is 3 over that.
  CHECK(milliseconds(run.step) == Approx(10 * 3 / 1.75).epsilon(0.02));
}

TEST_CASE("throughput is that of the workers or of the server's link, whichever is less",
          "[servers]") {
  for (const int workers : {1, 2, 4, 8, 16, 32}) {
    INFO(workers);
    ServerSystem system = one_server(workers, 100 * gigabyte, 10 * gigabyte);
    system.jitter = 0.3;  // else all would send at once, and then wait at once
    constexpr int pieces = 20;
    system.messages.clear();
    for (int i = 1; i <= pieces; ++i)
      system.messages.push_back({.ready = 10 * millisecond * i / pieces,
                                 .pushed = Bytes{20'000'000 / pieces},
                                 .pulled = Bytes{20'000'000 / pieces}});
    const ServerRun run = run_servers(system);
    // 20 MB of each worker in 10 GB/s: 2 ms.
    const double link = 2.0 * workers;
    CHECK(milliseconds(run.step) >= std::max(10.0, link) * 0.97);
    CHECK(milliseconds(run.step) <= 1.25 * std::max(10.0, link) + 1);
    if (workers == 32) CHECK(run.busiest_share > 0.9);
  }
}

TEST_CASE("equal workers are as stale as there are others", "[servers]") {
  for (const int workers : {2, 5, 12}) {
    INFO(workers);
    const ServerRun run = run_servers(one_server(workers, 100 * gigabyte, 10 * gigabyte));
    CHECK(run.staleness.mean() == Approx(workers - 1).margin(0.05));
  }
}

TEST_CASE("a bound keeps workers together, and tells who is waited for", "[servers]") {
  ServerSystem system = one_server(4, 1000 * gigabyte, 1000 * gigabyte);
  system.workers[2].slowness = 3;
  const ServerRun free = run_servers(system);
  CHECK(milliseconds(free.step) == Approx(10 * 4 / (3 + 1.0 / 3)).epsilon(0.03));
  system.mode = Servers::bounded;
  system.staleness = 2;
  const ServerRun bound = run_servers(system);
  CHECK(milliseconds(bound.step) == Approx(30).epsilon(0.03));
  CHECK(bound.others > Duration{});
  CHECK(bound.waited_for[2] == Approx(1));
  // Another worker is s steps behind at first and s + 1 ahead at last: 2 s + 2 of its updates.
  CHECK(bound.staleness.counts().size() <= 6 * 3 + 1);
}

TEST_CASE("synchronous servers wait for the slowest worker", "[servers]") {
  ServerSystem system = one_server(4, 1000 * gigabyte, 1000 * gigabyte);
  system.mode = Servers::synchronous;
  system.workers[1].slowness = 2;
  const ServerRun run = run_servers(system);
  CHECK(milliseconds(run.step) == Approx(20).epsilon(0.01));
  CHECK(run.staleness.empty());
}

TEST_CASE("a tail is behind the exchange", "[servers]") {
  ServerSystem system = one_server(1, gigabyte, gigabyte);
  const ServerRun without = run_servers(system);
  system.tail = 7 * millisecond;
  CHECK(run_servers(system).step == without.step + system.tail);
}

// Jiang et al. 2020 (BytePS), section 4.1: 2 n (n - 1) M / ((n^2 + n k - 2 k) B).
TEST_CASE("servers on workers and machines share the load as BytePS divides it", "[servers]") {
  for (const int nodes : {2, 4, 8}) {
    for (const int machines : {0, 1, 2, 4}) {
      if (machines > nodes) continue;
      CAPTURE(nodes, machines);
      Layout layout;
      layout.servers = Servers::synchronous;
      layout.server_machines = machines;
      layout.server_place = machines > 0 ? ServerPlace::balanced : ServerPlace::workers;
      const double n = nodes, k = machines;
      const double expected = 2 * n * (n - 1) / (n * n + n * k - 2 * k);
      CHECK(to_seconds(exchange_of(nodes, machines, share_on_workers(layout, nodes))) ==
            Approx(expected).epsilon(0.03));
    }
  }
  // As many machines as workers carry all of it: M / B.
  Layout layout;
  layout.servers = Servers::synchronous;
  layout.server_place = ServerPlace::balanced;
  layout.server_machines = 4;
  CHECK(share_on_workers(layout, 4) == 0);
}

TEST_CASE("the same system gives the same run", "[servers]") {
  ServerSystem system = one_server(5, 100 * gigabyte, 3 * gigabyte);
  system.jitter = 0.2;
  const ServerRun a = run_servers(system), b = run_servers(system);
  CHECK(a.step == b.step);
  CHECK(a.staleness == b.staleness);
  system.seed = 2;
  CHECK(run_servers(system).step != a.step);
}
