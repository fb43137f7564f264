// The `budget` section of a scenario: what a run shall do, what its GPUs cost and draw, how they
// fail. Every key but the work has a default; each default names its source.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/economics/published.hpp"
#include "sim/economics/quantities.hpp"
#include "sim/economics/run_model.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {

// A value that an answer rests on: "failures.gpu", "79231.9 h", and who says so.
struct Assumption {
  std::string key;    // of the section
  std::string value;  // as it is written in a file: reads back as exactly the same
  std::string source;
};

// RunWork is what the run shall do: one of three. Tokens are samples for models of layer lists.
struct RunWork {
  std::optional<double> tokens{};
  std::optional<std::int64_t> steps{};
  // To a target loss with batch B: minimum_steps x (1 + critical_batch / B), in tokens (McCandlish
  // et al. 2018, arXiv:1812.06162, equation 2.11).
  std::optional<double> minimum_steps{}, critical_batch{};
};

enum class IntervalRule : std::uint8_t { daly, young, given };

struct CheckpointRules {
  bool asynchronous = true;
  IntervalRule rule = IntervalRule::daly;
  Seconds interval{};          // of work, where the rule is `given`
  std::optional<Bytes> bytes;  // of a checkpoint; absent: of the plan's own memory
  Bandwidth node{};            // what one node writes and reads
  Bandwidth storage{};         // what the storage takes from all nodes, and gives
  Bandwidth copy{};            // from one GPU to its host
  Seconds overhead{};          // that training halts for beside the copy or the write
};

struct RestartTimes {
  Seconds detect{}, reschedule{};
  std::optional<Seconds> load;  // absent: what the ranks hold at what the storage gives
};

// SpareRules are nodes that stand by. They are paid for, and draw power, as the job's are.
struct SpareRules {
  std::optional<int> nodes;  // absent: as many as it takes, at no cost
  Seconds repair{};          // until a lost node is a spare again
  Seconds swap{};            // until processes run on a spare
};

// Where copies lie between the checkpoints in the storage: with the node's own host, which the
// failure of software leaves, or also with another node, which the loss of one node leaves.
enum class MemoryPlace : std::uint8_t { none, host, peer };
constexpr auto words_of(MemoryPlace) {
  return std::array{Word{MemoryPlace::none, "none"}, Word{MemoryPlace::host, "host"},
                    Word{MemoryPlace::peer, "peer"}};
}
struct MemoryRules {
  MemoryPlace place = MemoryPlace::none;
  std::optional<std::int64_t> every;  // steps; absent: as often as a copy takes
  Seconds overhead{};                 // that training halts for
  Bandwidth copy{}, network{};        // of one GPU to its host; of a node to others
};

// How the batch follows the number of replicas when that changes.
enum class Scaling : std::uint8_t { fixed_batch, fixed_batch_per_replica };
constexpr auto words_of(Scaling) {
  return std::array{Word{Scaling::fixed_batch, "fixed_batch"},
                    Word{Scaling::fixed_batch_per_replica, "fixed_batch_per_replica"}};
}

// ElasticRules say without how many nodes, beyond the spares, a job goes on with fewer replicas.
struct ElasticRules {
  int most_away = 0;
  Scaling batch{};   // kept, or smaller with the replicas
  Seconds resize{};  // that the job halts for when a node is back
};

// Corruption that no part reports: checks between steps, or a share of every step that finds it at
// once.
struct CorruptionRules {
  Seconds gpu = never;  // mean time between two of one GPU
  double share = 0;
  Seconds check_every{}, check{};
};

// FlapRules: the link of a NIC goes down for a moment, and a synchronous job waits for a retry of
// the transport, or fails with its connection (flap_outcome() of sim/topology/transport.hpp).
struct FlapRules {
  Seconds node = never;  // mean time between two of any NIC of one node
  Seconds stall{};       // of one that the connection survives, on average
  double fails = 0;      // chance that it does not
};

struct Prices {
  std::string currency;                       // of all of them; empty: none is given
  std::optional<double> gpu_hour, spot, kwh;  // spot: of a GPU-hour
};

struct Budget {
  RunWork work;
  Prices prices;
  double gpu_watts = 0, node_watts = 0;  // node: all but its GPUs
  double pue = 1;
  PartFailures failures;
  double weibull_shape = 1;
  Seconds preemption_every = never;  // of one node of spot capacity
  Seconds preemption_wait{};         // until there is another
  SlowSpells slow_node;              // `every`: of one node
  FlapRules flaps;
  CheckpointRules checkpoint;
  RestartTimes restart;
  SpareRules spares;
  MemoryRules memory;
  ElasticRules elastic;
  CorruptionRules corruption;
  std::optional<Seconds> finish_in;
  double step_factor = 1;  // on the forecast step: what other jobs and slow nodes add in the mean
  double confidence = 0.95;
  Scaling scaling = Scaling::fixed_batch;
  int max_gpus = 0;
  int runs = 0;
  std::uint64_t seed = 1;
  std::vector<Assumption> assumptions;  // in the order of the section
};

// Reads the section from the scenario's file with `overrides` on top. Throws InputError with every
// problem of the section.
Budget load_budget(const Scenario& scenario, const std::vector<std::string>& overrides = {});

// The same of sources that are at hand; `scenario` was loaded from them.
Budget load_budget(const Scenario& scenario, const ScenarioSources& sources);

// The scenario, every key written out, with every assumption of the budget, for a file in `folder`:
// `stepcast budget` of it gives the same answer.
std::string resolved_scenario(const Scenario& scenario, const Budget& budget,
                              const std::string& folder);

}  // namespace sim
