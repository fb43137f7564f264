// Better hardware is never slower, and more sharding never needs more memory, but for what a rule
// says: on scenarios that are drawn by seed. A failure prints the scenario.
//   STEPCAST_INVARIANTS=1000 build/release/tests/property/test_invariants   more of them, by hand
//   STEPCAST_INVARIANTS_SEED=7                                               others
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/sweep/machine_parameters.hpp"
#include "tests/catch.hpp"
#include "tests/property/chosen.hpp"
#include "tests/property/pair_scenarios.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using namespace sim;
using namespace sim::test;

using Overrides = std::vector<std::string>;

// Nothing: a scenario with these overrides is refused.
std::optional<Scenario> with(const std::string& yaml, const Overrides& set) {
  try {
    return load_scenario(ScenarioSources::of_text(yaml, source_dir() + "/pair.yaml", set));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// Hosts decide the step of small models. Without them, and with longer sequences, the device and
// its links do.
const Overrides no_host{"simulation.graphs=true", "layout.sequence_length=2048"};

Overrides both(Overrides set, const Overrides& more) {
  set.insert(set.end(), more.begin(), more.end());
  return set;
}

// Calls `check` with so many drawn scenarios, by turns as drawn and without a host. `law` numbers
// the seeds.
template <class Check>
void for_drawn(std::uint64_t law, std::uint64_t share, Check check) {
  const std::uint64_t count = std::max<std::uint64_t>(1, chosen("STEPCAST_INVARIANTS", 40) / share);
  PairScenarios scenarios{law * 1'000'000 + chosen("STEPCAST_INVARIANTS_SEED", 1), all_pairs()};
  for (std::uint64_t i = 0; i < count; ++i) {
    const PairScenario drawn = scenarios.next();
    INFO(drawn.yaml);
    check(drawn.yaml, i % 2 == 0 ? no_host : Overrides{});
  }
}

struct Better {
  std::string_view parameter;  // of machine_parameters()
  double factor;
};
constexpr std::array betterments{Better{"NVLink bandwidth", 1.25},
                                 Better{"NIC bandwidth", 1.25},
                                 Better{"memory bandwidth", 1.25},
                                 Better{"matrix rate", 1.25},
                                 Better{"operand feed of the SMs", 1.25},
                                 Better{"NVLink latency", 0.5},
                                 Better{"NIC latency", 0.5},
                                 Better{"switch latency", 0.5},
                                 Better{"PCIe latency", 0.5},
                                 Better{"overhead per network message", 0.5},
                                 Better{"launch and tail of kernels", 0.5},
                                 Better{"host time per kernel", 0.5}};

// dearer_calls() is what the calls of `after` take beyond the same ones of `before`, on a path
// through all stages.
Duration dearer_calls(const Report& before, const Report& after) {
  Duration dearer{};
  for (const CollectiveSummary& call : after.collectives) {
    const auto same = std::ranges::find_if(before.collectives, [&](const auto& other) {
      return other.kind == call.kind && other.group == call.group && other.ranks == call.ranks &&
             other.bytes == call.bytes;
    });
    const Duration once = same == before.collectives.end() ? Duration{} : same->mean_time;
    dearer += std::max(Duration{}, call.mean_time - once) * static_cast<std::int64_t>(call.count);
  }
  return dearer * after.layout.pipeline_parallel;
}

Duration longest_call(const Report& report) {
  Duration longest{};
  for (const CollectiveSummary& call : report.collectives)
    longest = std::max(longest, call.mean_time);
  return longest;
}

Report without_interference(const std::string& yaml, const Overrides& set) {
  Scenario scenario =
      load_scenario(ScenarioSources::of_text(yaml, source_dir() + "/pair.yaml", set));
  scenario.options.interference = false;
  return forecast(scenario).report;
}

// Every operator's end is rounded to a picosecond.
Duration rounding(const Report& report) {
  return Duration{static_cast<std::int64_t>(report.stats.activities)};
}

// Calls `check` with the step of a drawn job, and with that on each better machine.
template <class Check>
void for_betterments(const std::string& yaml, const Overrides& set, bool interference,
                     Check check) {
  std::optional<Scenario> job = with(yaml, set);
  if (!job) return;
  job->options.interference = interference;
  Forecaster forecaster;
  const Report before = forecaster.run(*job).report;
  const auto parameters = machine_parameters(job->cluster_path, job->changes);
  for (const Better& better : betterments) {
    const auto found = std::ranges::find(parameters, better.parameter, &MachineParameter::name);
    if (found == parameters.end()) continue;
    const Overrides bettered = scaled(set, *found, better.factor);
    std::optional<Scenario> faster = with(yaml, bettered);
    if (!faster) continue;
    faster->options.interference = interference;
    const Report after = forecaster.run(*faster).report;
    CAPTURE(better.parameter, set, to_seconds(before.step_time), to_seconds(after.step_time));
    check(before, after, bettered);
  }
}

TEST_CASE("better hardware is never slower where algorithms are given and kernels lose nothing",
          "[invariants]") {
  const Overrides ring{"simulation.tensor_algorithm=ring", "simulation.data_algorithm=ring",
                       "simulation.tensor_protocol=simple", "simulation.data_protocol=simple"};
  for_drawn(81, 1, [&](const std::string& yaml, const Overrides& set) {
    for_betterments(yaml, both(set, ring), false,
                    [](const Report& before, const Report& after, const Overrides&) {
                      CHECK(after.step_time <= before.step_time + rounding(after));
                    });
  });
}

// sim/engine/RULES.md, "Better hardware": what NCCL then chooses, and what kernels then lose.
TEST_CASE("better hardware is slower by no more than calls cost and kernels lose", "[invariants]") {
  for_drawn(82, 1, [](const std::string& yaml, const Overrides& set) {
    for_betterments(
        yaml, set, true, [&](const Report& before, const Report& after, const Overrides& bettered) {
          Duration allowed = dearer_calls(before, after) + rounding(after);
          if (after.step_time > before.step_time + allowed)
            allowed +=
                (after.breakdown.compute - without_interference(yaml, bettered).breakdown.compute) *
                after.layout.pipeline_parallel;
          CHECK(after.step_time <= before.step_time + allowed);
        });
  });
}

TEST_CASE("fewer layers are never slower", "[invariants]") {
  int checked = 0;
  for_drawn(83, 1, [&](const std::string& yaml, const Overrides& set) {
    std::string fewer = yaml;
    const std::string layers = "layers: 8";
    const std::size_t at = fewer.find(layers);
    if (at == std::string::npos) return;
    fewer.replace(at, layers.size(), "layers: 4");
    const std::optional<Scenario> all = with(yaml, set), half = with(fewer, set);
    if (!all || !half) return;
    CHECK(forecast(*half).report.step_time <= forecast(*all).report.step_time);
    ++checked;
  });
  CHECK(checked > 0);
}

// Overlap costs kernels the SMs and the bandwidth that are held (message_overlap_test.cpp), and
// other communication a share of the links. Without these, it costs what smaller buckets add to the
// calls.
TEST_CASE("overlap costs no more than its calls where nothing is shared", "[invariants]") {
  const Overrides alone = both(no_host, {"framework.blocking_launches=false"});
  for_drawn(84, 1, [&](const std::string& yaml, const Overrides&) {
    for (const char* what : {"gradients", "parameters", "pipeline", "tensor_wgrad"}) {
      const std::string key = std::string{"layout.overlap."} + what;
      std::optional<Scenario> on = with(yaml, both(alone, {key + "=true"})),
                              off = with(yaml, both(alone, {key + "=false"}));
      if (!on || !off) continue;
      for (Scenario* scenario : {&*on, &*off})
        scenario->options.interference = scenario->options.link_contention = false;
      const Report with_it = forecast(*on).report, without = forecast(*off).report;
      CAPTURE(what, to_seconds(with_it.step_time), to_seconds(without.step_time));
      CHECK(with_it.step_time <= without.step_time + dearer_calls(without, with_it) +
                                     longest_call(with_it) + rounding(with_it));
    }
  });
}

struct Memory {
  std::vector<StageMemory> stages;
  Layout layout;
  Model model;
};

std::int64_t at_peak(const StageMemory& stage, BufferCategory category) {
  return stage.use.at_peak[static_cast<std::size_t>(category)].count();
}

std::int64_t most(const StageMemory& stage, BufferCategory category) {
  return stage.use.peak_of[static_cast<std::size_t>(category)].count();
}

// Units and buckets under way.
std::int64_t under_way(const StageMemory& stage) {
  return most(stage, BufferCategory::gathered_parameters) +
         most(stage, BufferCategory::communication);
}

// Shares are padded to equal sizes: an element on each rank, of each bucket or unit. No element is
// of more than four bytes.
std::int64_t padding(const Memory& memory) {
  return std::int64_t{4} * memory.layout.replicas() *
         (static_cast<std::int64_t>(memory.model.layers.size()) + 2);
}

std::optional<Memory> memory_of(const std::string& yaml, const Overrides& set) {
  const std::optional<Scenario> scenario = with(yaml, set);
  if (!scenario) return std::nullopt;
  const Report report = forecast_memory(*scenario).report;
  return Memory{report.memory, report.layout, scenario->model};
}

// Calls `check` with the memory of each two that follow each other and are not refused.
template <class Check>
void check_ladder(const std::string& yaml, const std::vector<Overrides>& ladder, Check check) {
  std::optional<Memory> before;
  for (const Overrides& set : ladder) {
    std::optional<Memory> after = memory_of(yaml, set);
    if (!after) continue;
    CAPTURE(set);
    if (before) check(*before, *after);
    before = std::move(after);
  }
}

// The needs of a higher stage in addition: sim/plan/rules/data-parallel-and-zero.md, "ZeRO stages".
TEST_CASE("a higher ZeRO stage needs no more but the buffers of its communication",
          "[invariants]") {
  for_drawn(85, 1, [](const std::string& yaml, const Overrides&) {
    std::vector<Overrides> levels;
    for (int stage = 0; stage <= 3; ++stage)
      levels.push_back({fmt::format("layout.zero_stage={}", stage)});
    check_ladder(yaml, levels, [](const Memory& before, const Memory& after) {
      for (std::size_t i = 0; i < after.stages.size(); ++i) {
        const StageMemory &low = before.stages[i], &high = after.stages[i];
        for (const BufferCategory category : {BufferCategory::weights, BufferCategory::optimizer}) {
          CAPTURE(word(category));
          CHECK(at_peak(high, category) <= most(low, category) + padding(after));
        }
        // At the peak of the lower stage fewer gradients may be there than at another time.
        const std::int64_t gradients =
            most(high, BufferCategory::gradients) - at_peak(low, BufferCategory::gradients);
        CHECK(high.use.peak.count() <= low.use.peak.count() + under_way(high) + 3 * padding(after) +
                                           std::max<std::int64_t>(0, gradients));
      }
    });
  });
}

TEST_CASE("full recomputation needs no more memory than none, but for the input of a layer",
          "[invariants]") {
  for_drawn(86, 1, [](const std::string& yaml, const Overrides&) {
    check_ladder(
        yaml, {{"layout.recompute=none"}, {"layout.recompute=full"}},
        [](const Memory& before, const Memory& after) {
          const Layout& layout = after.layout;
          const std::int64_t input = layout.sequence_length / layout.context_parallel *
                                     layout.micro_batch * after.model.shape->hidden *
                                     bytes_of(layout.activation_dtype);
          for (std::size_t i = 0; i < after.stages.size(); ++i)
            CHECK(after.stages[i].use.peak.count() <= before.stages[i].use.peak.count() + input);
        });
  });
}

TEST_CASE("more tensor or pipeline ranks hold no more weights and states each", "[invariants]") {
  for_drawn(87, 1, [](const std::string& yaml, const Overrides&) {
    for (const char* dimension : {"tensor", "pipeline"}) {
      std::vector<Overrides> ladder;
      for (const int size : {1, 2, 4})
        ladder.push_back({fmt::format("layout.{}_parallel={}", dimension, size),
                          fmt::format("cluster.gpus={}", 8 * size)});
      check_ladder(yaml, ladder, [](const Memory& before, const Memory& after) {
        if (before.layout.data_parallel != after.layout.data_parallel) return;
        for (const BufferCategory category : {BufferCategory::weights, BufferCategory::optimizer}) {
          std::int64_t held = 0, allowed = padding(after);
          for (const StageMemory& stage : after.stages)
            held = std::max(held, at_peak(stage, category));
          for (const StageMemory& stage : before.stages)
            allowed = std::max(allowed, most(stage, category) + padding(after));
          CAPTURE(word(category));
          CHECK(held <= allowed);
        }
      });
    }
  });
}

}  // namespace
