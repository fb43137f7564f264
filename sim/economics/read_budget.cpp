#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "sim/economics/budget_reader.hpp"
#include "sim/economics/read_strategies.hpp"
#include "sim/topology/transport.hpp"

namespace sim {
namespace {

using budget_reading::given;
using budget_reading::Reader;

constexpr double most_tokens = 1e18;
constexpr std::int64_t most_steps = 1'000'000'000'000;

void read_work(Reader& reader, RunWork& work) {
  if (reader.has("tokens")) work.tokens = reader.real("tokens", 0, {1, most_tokens}, given);
  if (reader.has("steps")) work.steps = reader.integer("steps", 0, {1, most_steps}, given);
  if (reader.has("minimum_steps"))
    work.minimum_steps = reader.real("minimum_steps", 0, {1, 1e12}, given);
  if (reader.has("critical_batch"))
    work.critical_batch = reader.real("critical_batch", 0, {0, most_tokens}, given);
  const int ways = (work.tokens ? 1 : 0) + (work.steps ? 1 : 0) + (work.minimum_steps ? 1 : 0);
  if (ways != 1)
    reader.problem(work.tokens ? "tokens" : "steps",
                   "budget: say what the run shall do by one of: tokens; steps; minimum_steps and "
                   "critical_batch (both to the target loss)");
  if (work.minimum_steps.has_value() != work.critical_batch.has_value())
    reader.problem(work.minimum_steps ? "minimum_steps" : "critical_batch",
                   "minimum_steps and critical_batch (in tokens) go together");
}

void read_power(Reader& reader, const Scenario& scenario, Budget& budget) {
  const Device& device = scenario.cluster.device();
  budget.gpu_watts = reader.power("power.gpu", device.tdp_watts,
                                  fmt::format("TDP of the {}, all the time", device.name));
  // NVIDIA DGX H100 data sheet: 10.2 kW at most, of which 8 x 700 W are the GPUs.
  constexpr double beside_gpus = (10200.0 - 8 * 700) / (8 * 700);
  const double node = std::round(beside_gpus * device.tdp_watts * scenario.cluster.node_gpus());
  budget.node_watts =
      reader.power("power.node", node,
                   "0.82 of the TDP of its GPUs: DGX H100 data sheet, 10.2 kW at most in all");
  budget.pue =
      reader.real("power.pue", 1.09, {1, 10},
                  "Google's fleet in 2024; the world's average is 1.56 (Uptime Institute)");
}

void read_failures(Reader& reader, Budget& budget) {
  const PublishedFailures published =
      reader.word_of("failures.published", PublishedFailures::llama_3, "the largest run published");
  const PartFailures parts = published_failures(published);
  const std::string source = source_of(published);
  constexpr Seconds least{1};
  budget.failures.gpu = reader.time("failures.gpu", parts.gpu, source, least);
  budget.failures.node = reader.time("failures.node", parts.node, source, least);
  budget.failures.network = reader.time("failures.network", parts.network, source, least);
  budget.failures.software = reader.time("failures.software", parts.software, source, least);
  budget.weibull_shape =
      reader.real("failures.weibull_shape", 1, {0.3, 5},
                  "exponential; 0.7 to 0.8 in Schroeder and Gibson 2006 (HPC at Los Alamos)");
}

void read_trouble(Reader& reader, Budget& budget) {
  budget.preemption_every =
      reader.time("preemption.node", never, "none assumed: give one for spot", Seconds{1});
  budget.preemption_wait = reader.finite_time("preemption.wait", Seconds{0}, "none assumed");
  SlowSpells& slow = budget.slow_node;
  slow.every = reader.time("stragglers.node", never, "none assumed, beside those that the step has",
                           Seconds{1});
  slow.lasts = reader.finite_time("stragglers.found_after", Seconds{1800}, "assumed");
  slow.factor = reader.real("stragglers.factor", 1, {1, 100}, "none assumed");
}

void read_flaps(Reader& reader, const Cluster& cluster, FlapRules& flaps) {
  if (!reader.has("flaps.nic")) {
    if (reader.has("flaps.outage"))
      reader.problem("flaps.outage", "flaps.outage goes with flaps.nic");
    return;
  }
  const int nics = cluster.network().nics_per_node;
  if (nics == 0) {
    reader.problem("flaps.nic", "the nodes of this cluster have no NICs");
    return;
  }
  flaps.node = reader.time("flaps.nic", never, given, Seconds{1}) / nics;
  const Seconds outage = reader.finite_time("flaps.outage", Seconds{5}, "assumed", Seconds{0.001});
  const FlapOutcome outcome = flap_outcome(transport_of(cluster), outage.count());
  flaps.stall = Seconds{outcome.stall};
  flaps.fails = outcome.fails;
}

void read_interval(Reader& reader, CheckpointRules& rules) {
  const auto read = [&](const ValueReader& at) -> std::string {
    std::string text = at.text();
    if (text == "daly" || text == "young") return text;
    const Parsed<Seconds> time = parse_time(text);
    const auto* seconds = std::get_if<Seconds>(&time);
    if (!seconds || *seconds == never || *seconds <= Seconds{0}) {
      at.problem("allowed: daly, young, or the work between two checkpoints, such as 30 min");
      return "daly";
    }
    rules.rule = IntervalRule::given;
    rules.interval = *seconds;
    return exact_text(*seconds);
  };
  const std::string rule =
      reader.value("checkpoint.interval", std::string{"daly"}, "what costs least (Daly 2006)", read,
                   [](const std::string& text) { return text; });
  if (rule == "young") rules.rule = IntervalRule::young;
}

void read_checkpoint(Reader& reader, const Scenario& scenario, CheckpointRules& rules) {
  rules.asynchronous = reader.boolean("checkpoint.asynchronous", true,
                                      "as Megatron-Core and PyTorch DCP can (async_save)");
  read_interval(reader, rules);
  if (reader.has("checkpoint.bytes"))
    rules.bytes = reader.value(
        "checkpoint.bytes", Bytes{}, given, [](const ValueReader& at) { return at.bytes(); },
        [](Bytes b) { return exact_text(b); });
  // Planning, barriers, and what keeps a copy from the rate of its link.
  rules.overhead = reader.finite_time(
      "checkpoint.overhead", Seconds{3},
      "MegaScale (Jiang et al. 2024), section 4: training halts for several seconds");
  // Grattafiori et al. 2024, section 3.3.1: 2 TB/s sustained, for 2,048 nodes in a run.
  constexpr double sustained = 2e12;
  const char* storage = "Llama 3 report, section 3.3.1: 2 TB/s sustained";
  rules.node =
      reader.bandwidth("checkpoint.node_bandwidth", Bandwidth::bytes_per_second(sustained / 2048),
                       std::string{storage} + ", over 2,048 nodes");
  rules.storage = reader.bandwidth("checkpoint.storage_bandwidth",
                                   Bandwidth::bytes_per_second(sustained), storage);
  if (!rules.asynchronous) {
    if (reader.has("checkpoint.copy_bandwidth"))
      reader.problem("checkpoint.copy_bandwidth", "only asynchronous checkpoints are copied first");
    return;
  }
  const std::optional<Bandwidth> copy = budget_reading::host_copy(scenario.cluster);
  if (!copy && !reader.has("checkpoint.copy_bandwidth")) {
    reader.problem("checkpoint.copy_bandwidth",
                   "the cluster has no PCIe links: say what a device can copy to its host, or set "
                   "checkpoint.asynchronous to false");
    return;
  }
  rules.copy =
      reader.bandwidth("checkpoint.copy_bandwidth", copy.value_or(Bandwidth::bytes_per_second(1)),
                       "the slowest PCIe link of a node");
}

void read_restart(Reader& reader, RestartTimes& restart) {
  restart.detect = reader.finite_time(
      "restart.detect", Seconds{600},
      "MegaScale (Jiang et al. 2024): found and diagnosed in less than 10 min; NCCL's time-out");
  restart.reschedule = reader.finite_time("restart.reschedule", Seconds{120},
                                          "assumed: nodes in reserve, processes started anew");
  if (reader.has("restart.load"))
    restart.load = reader.finite_time("restart.load", Seconds{0}, given);
}

void read_finish(Reader& reader, const Scenario& scenario, Budget& budget) {
  if (!reader.has("finish_in")) {
    for (const char* key : {"confidence", "scaling", "max_gpus"})
      if (reader.has(key)) reader.problem(key, fmt::format("{} goes with finish_in", key));
    return;
  }
  budget.finish_in = reader.finite_time("finish_in", Seconds{0}, given, Seconds{1});
  budget.confidence = reader.real("confidence", 0.95, {0.01, 0.9999}, "usual");
  budget.scaling = reader.word_of("scaling", Scaling::fixed_batch, "the same training");
  // Enough to see where more no longer helps.
  constexpr std::int64_t many = 131'072;
  const std::int64_t here = scenario.layout.world_size();
  budget.max_gpus =
      static_cast<int>(reader.integer("max_gpus", std::max(many, here), {1, 1 << 21}, "assumed"));
  if (budget.scaling == Scaling::fixed_batch_per_replica && budget.work.steps)
    reader.problem("scaling",
                   "with another batch another number of steps is needed: give tokens, or "
                   "minimum_steps and critical_batch, instead of steps");
}

}  // namespace

Budget load_budget(const Scenario& scenario, const std::vector<std::string>& overrides) {
  return load_budget(scenario, ScenarioSources{scenario.path, overrides});
}

Budget load_budget(const Scenario& scenario, const ScenarioSources& sources) {
  const Layered section = sources.only_section("budget");
  Budget budget;
  Reader reader{section, budget.assumptions};
  read_work(reader, budget.work);
  budget.prices.gpu_hour = reader.price("price.gpu_hour", budget.prices.currency);
  budget.prices.spot = reader.price("price.spot_gpu_hour", budget.prices.currency);
  budget.prices.kwh = reader.price("price.kwh", budget.prices.currency);
  read_power(reader, scenario, budget);
  read_failures(reader, budget);
  read_trouble(reader, budget);
  read_flaps(reader, scenario.cluster, budget.flaps);
  read_checkpoint(reader, scenario, budget.checkpoint);
  read_restart(reader, budget.restart);
  budget_reading::read_strategies(reader, scenario, budget);
  budget.step_factor =
      reader.real("step_factor", 1, {0.1, 100}, "nothing disturbs: see `stepcast variability`");
  read_finish(reader, scenario, budget);
  if (budget.prices.spot && budget.preemption_every == never)
    reader.problem("price.spot_gpu_hour",
                   "spot capacity is taken away: say how often with preemption.node, the mean time "
                   "for one node");
  constexpr std::int64_t most_runs = 1'000'000;
  budget.runs = static_cast<int>(
      reader.integer("runs", 10'000, {100, most_runs}, "a standard error of 1% of the spread"));
  budget.seed = static_cast<std::uint64_t>(reader.integer("seed", 1, {}, "assumed"));
  reader.refuse_unused_sources();
  sources.finish();
  return budget;
}

}  // namespace sim
