#include "sim/economics/read_strategies.hpp"

#include "sim/topology/transport.hpp"

namespace sim::budget_reading {
namespace {

void read_spares(Reader& reader, const Budget& budget, SpareRules& spares) {
  if (!reader.has("spares.nodes")) {
    for (const char* key : {"spares.repair", "spares.swap"})
      if (reader.has(key)) reader.problem(key, fmt::format("{} goes with spares.nodes", key));
    return;
  }
  constexpr std::int64_t most = 100'000;
  spares.nodes = static_cast<int>(reader.integer("spares.nodes", 0, {0, most}, given));
  spares.repair = reader.finite_time("spares.repair", Seconds{86400}, "assumed", Seconds{1});
  spares.swap = reader.finite_time("spares.swap", budget.restart.reschedule,
                                   "as restart.reschedule; less where spares are kept warm");
}

void read_memory(Reader& reader, const Scenario& scenario, MemoryRules& memory) {
  memory.place = reader.word_of("memory_checkpoint.place", MemoryPlace::none,
                                "checkpoints go to the storage alone");
  if (memory.place == MemoryPlace::none) {
    for (const char* key : {"every", "overhead", "copy_bandwidth", "network_bandwidth"})
      if (const std::string full = fmt::format("memory_checkpoint.{}", key); reader.has(full))
        reader.problem(full,
                       fmt::format("{} goes with memory_checkpoint.place: host or peer", full));
    return;
  }
  constexpr std::int64_t most = 1'000'000'000;
  if (reader.has("memory_checkpoint.every"))
    memory.every = reader.integer("memory_checkpoint.every", 1, {1, most}, given);
  memory.overhead = reader.finite_time(
      "memory_checkpoint.overhead", Seconds{0},
      "Gemini (Wang et al. 2023): the copy is hidden in the idle time of the network");
  const std::optional<Bandwidth> copy = host_copy(scenario.cluster);
  const Bandwidth network = network_of(scenario.cluster);
  const auto rate = [&](const char* key, std::optional<Bandwidth> links, const char* source) {
    if ((!links || links->in_bytes_per_second() < 1) && !reader.has(key))
      reader.problem(key, "the cluster has no such links: give the bandwidth");
    return reader.bandwidth(key, links.value_or(Bandwidth::bytes_per_second(1)), source);
  };
  memory.copy = rate("memory_checkpoint.copy_bandwidth", copy, "the slowest PCIe link of a node");
  memory.network = rate("memory_checkpoint.network_bandwidth", network, "the NICs of a node");
}

void read_elastic(Reader& reader, const Scenario& scenario, const Budget& budget,
                  ElasticRules& elastic) {
  constexpr std::int64_t most = 64;
  elastic.most_away = static_cast<int>(
      reader.integer("elastic.nodes", 0, {0, most}, "the job waits for the nodes that it needs"));
  if (elastic.most_away == 0) {
    for (const char* key : {"elastic.batch", "elastic.resize"})
      if (reader.has(key)) reader.problem(key, fmt::format("{} goes with elastic.nodes", key));
    return;
  }
  if (!budget.spares.nodes)
    reader.problem(
        "elastic.nodes",
        "a job goes on without nodes where no spare is left: say how many there are with "
        "spares.nodes (0 is allowed)");
  if (scenario.layout.data_parallel < 2)
    reader.problem("elastic.nodes", "the job has one replica: it cannot go on with fewer");
  elastic.batch = reader.word_of("elastic.batch", Scaling::fixed_batch, "the same training");
  elastic.resize = reader.finite_time("elastic.resize", budget.restart.reschedule,
                                      "as restart.reschedule: processes started anew");
}

void read_corruption(Reader& reader, CorruptionRules& corruption) {
  corruption.gpu = reader.time(
      "corruption.gpu", never,
      "none assumed, beside the 6 that stopped Llama 3's run (in failures.gpu)", Seconds{1});
  if (corruption.gpu == never) {
    for (const char* key : {"corruption.check_every", "corruption.check", "corruption.share"})
      if (reader.has(key)) reader.problem(key, fmt::format("{} goes with corruption.gpu", key));
    return;
  }
  corruption.share =
      reader.real("corruption.share", 0, {0, 0.99}, "none: checks between the steps alone");
  if (corruption.share > 0) {
    for (const char* key : {"corruption.check_every", "corruption.check"})
      if (reader.has(key))
        reader.problem(key, "with corruption.share every step is checked: give one of both");
    return;
  }
  corruption.check_every =
      reader.finite_time("corruption.check_every", Seconds{86400}, "assumed", Seconds{1});
  corruption.check = reader.finite_time("corruption.check", Seconds{300}, "assumed");
}

}  // namespace

Bandwidth network_of(const Cluster& cluster) {
  const NetworkTraits& traits = cluster.network();
  return Bandwidth::bytes_per_second(traits.nic_rate.in_bytes_per_second() *
                                     traits.network_efficiency * traits.nics_per_node /
                                     farthest_path(cluster).sends);
}

std::optional<Bandwidth> host_copy(const Cluster& cluster) {
  std::optional<Bandwidth> slowest;
  for (std::uint32_t i = 0; i < cluster.links_per_node(); ++i) {
    const Link& link = cluster.link(LinkId{i});
    if (link.kind == LinkKind::pcie && link.capacity.in_bytes_per_second() > 0)
      slowest = slowest ? std::min(*slowest, link.capacity) : link.capacity;
  }
  return slowest;
}

void read_strategies(Reader& reader, const Scenario& scenario, Budget& budget) {
  read_spares(reader, budget, budget.spares);
  read_memory(reader, scenario, budget.memory);
  read_elastic(reader, scenario, budget, budget.elastic);
  read_corruption(reader, budget.corruption);
}

}  // namespace sim::budget_reading
