#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <variant>

#include "sim/economics/budget.hpp"
#include "sim/scenario/sources.hpp"

namespace sim {
namespace {

constexpr const char* given = "given";

// The keys of the section, read one after the other; each becomes an assumption.
class Reader {
 public:
  Reader(const Layered& section, std::vector<Assumption>& assumptions)
      : top_{section}, assumptions_{assumptions} {
    const ObjectReader* holder = section.holder("sources");
    if (!holder) return;
    const ObjectReader sources = holder->object("sources");
    for (const std::string& key : sources.keys())
      sources_.emplace(key, Source{sources.text(key), sources.at(key)});
  }

  bool has(const std::string& key) const { return section_of(key).has(leaf_of(key)); }
  void problem(const std::string& key, const std::string& what) const {
    section_of(key).problem(leaf_of(key), what);
  }

  // The value at `key` through `parse`, or the default. `text` writes it.
  template <class Value, class Read, class Text>
  Value value(const std::string& key, const Value& fallback, const std::string& source, Read read,
              Text text) {
    const Layered section = section_of(key);
    const ObjectReader* holder = section.holder(leaf_of(key));
    Value result = holder ? read(holder->at(leaf_of(key))) : fallback;
    note(key, text(result), holder ? given : source);
    return result;
  }

  Seconds time(const std::string& key, Seconds fallback, const std::string& source,
               Seconds least = Seconds{0}) {
    const auto read = [&](const ValueReader& at) {
      const Seconds result = parsed(at, parse_time, Seconds{1});
      if (result < least)
        at.problem(fmt::format("{} is too short; at least {}", key, exact_text(least)));
      return std::max(result, least);
    };
    return value(key, fallback, source, read, [](Seconds t) { return exact_text(t); });
  }
  // One that has an end.
  Seconds finite_time(const std::string& key, Seconds fallback, const std::string& source,
                      Seconds least = Seconds{0}) {
    const Seconds result = time(key, fallback, source, least);
    constexpr Seconds longest{365 * 86400.0 * 1000};
    if (result <= longest) return result;
    problem(key, fmt::format("{} is too long; at most {}", key, exact_text(longest)));
    return longest;
  }
  Bandwidth bandwidth(const std::string& key, Bandwidth fallback, const std::string& source) {
    const auto read = [&](const ValueReader& at) {
      const Bandwidth result = at.bandwidth();
      if (result.in_bytes_per_second() < 1) at.problem("must be 1 B/s or more");
      return result;
    };
    return value(key, fallback, source, read, [](Bandwidth b) { return exact_text(b); });
  }
  double power(const std::string& key, double watts, const std::string& source) {
    const auto read = [](const ValueReader& at) { return parsed(at, parse_power, Power{}); };
    return value(key, Power{watts}, source, read, [](Power p) { return exact_text(p); }).watts;
  }
  double real(const std::string& key, double fallback, RealRange range, const std::string& source) {
    const auto read = [&](const ValueReader& at) { return at.real(range); };
    return value(key, fallback, source, read, [](double d) { return fmt::format("{}", d); });
  }
  std::int64_t integer(const std::string& key, std::int64_t fallback, IntegerRange range,
                       const std::string& source) {
    const auto read = [&](const ValueReader& at) { return at.integer(range); };
    return value(key, fallback, source, read, [](auto n) { return std::to_string(n); });
  }
  bool boolean(const std::string& key, bool fallback, const std::string& source) {
    const auto read = [](const ValueReader& at) { return at.boolean(); };
    return value(key, fallback, source, read, [](bool b) { return b ? "true" : "false"; });
  }
  template <class Enum>
  Enum word_of(const std::string& key, Enum fallback, const std::string& source) {
    const Layered section = section_of(key);
    const Enum result = section.word_or(leaf_of(key), fallback);
    note(key, std::string{word(result)}, section.has(leaf_of(key)) ? given : source);
    return result;
  }
  // All prices are in one currency.
  std::optional<double> price(const std::string& key, std::string& currency) {
    if (!has(key)) return std::nullopt;
    const auto read = [&](const ValueReader& at) {
      Money money = parsed(at, parse_money, Money{0, currency});
      if (currency.empty()) currency = money.currency;
      if (money.currency != currency)
        at.problem(fmt::format("this price is in {}, another in {}", money.currency, currency));
      return money;
    };
    return value(key, Money{}, given, read, [](const Money& m) { return exact_text(m); }).amount;
  }

  void note(const std::string& key, std::string text, std::string source) {
    if (const auto named = sources_.find(key); named != sources_.end()) {
      source = named->second.text;
      named->second.used = true;
    }
    assumptions_.push_back({key, std::move(text), std::move(source)});
  }
  void refuse_unused_sources() const {
    for (const auto& [key, source] : sources_)
      if (!source.used)
        source.where.problem(fmt::format("there is no assumption '{}' to have a source", key));
  }

 private:
  struct Source {
    std::string text;
    ValueReader where;
    bool used = false;
  };

  template <class Value>
  static Value parsed(const ValueReader& at, Parsed<Value> (*parse)(std::string_view),
                      Value harmless) {
    const std::string text = at.text();
    Parsed<Value> result = parse(text);
    if (const auto* value = std::get_if<Value>(&result)) return *value;
    at.problem(std::get<QuantityError>(result).problem);
    return harmless;
  }

  static std::string leaf_of(const std::string& key) {
    const std::size_t dot = key.find('.');
    return dot == std::string::npos ? key : key.substr(dot + 1);
  }
  Layered section_of(const std::string& key) const {
    const std::size_t dot = key.find('.');
    return dot == std::string::npos ? top_ : top_.section(key.substr(0, dot));
  }

  Layered top_;
  std::vector<Assumption>& assumptions_;
  std::map<std::string, Source> sources_;
};

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

// host_copy() is the rate at which one GPU can copy to its host: its slowest PCIe link.
std::optional<Bandwidth> host_copy(const Cluster& cluster) {
  std::optional<Bandwidth> slowest;
  for (std::uint32_t i = 0; i < cluster.links_per_node(); ++i) {
    const Link& link = cluster.link(LinkId{i});
    if (link.kind == LinkKind::pcie && link.capacity.in_bytes_per_second() > 0)
      slowest = slowest ? std::min(*slowest, link.capacity) : link.capacity;
  }
  return slowest;
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
  const std::optional<Bandwidth> copy = host_copy(scenario.cluster);
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
  read_checkpoint(reader, scenario, budget.checkpoint);
  read_restart(reader, budget.restart);
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
