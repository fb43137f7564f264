// The report: metrics of a step from its Timeline and Plan, and their text, JSON and CSV.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/engine/simulate.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/whole_groups.hpp"
#include "sim/report/memory_error.hpp"
#include "sim/report/software.hpp"
#include "sim/report/stage_memory.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/servers/server_run.hpp"
#include "sim/timeline/breakdown.hpp"
#include "sim/timeline/step_shares.hpp"
#include "sim/timeline/timeline.hpp"
#include "sim/topology/unvalidated.hpp"
#include "sim/uncertainty/time_interval.hpp"

namespace sim {

enum class FreedResource : std::uint8_t {
  compute,
  memory_traffic,
  host_issue,
  tensor_communication,
  context_communication,
  expert_communication,
  data_communication,
  pipeline_communication
};
constexpr auto words_of(FreedResource) {
  return std::array{Word{FreedResource::compute, "compute"},
                    Word{FreedResource::memory_traffic, "memory traffic of kernels"},
                    Word{FreedResource::host_issue, "host issue"},
                    Word{FreedResource::tensor_communication, "tensor communication"},
                    Word{FreedResource::context_communication, "context communication"},
                    Word{FreedResource::expert_communication, "expert communication"},
                    Word{FreedResource::data_communication, "data communication"},
                    Word{FreedResource::pipeline_communication, "pipeline communication"}};
}
struct WhatIf {
  FreedResource resource = FreedResource::compute;
  Duration step_time{};  // if it were infinitely fast
};

// CountedFlops are the FLOPs that MFU and HFU count.
enum class CountedFlops : std::uint8_t {
  listed,       // of a layer list: as the model file has them
  full,         // 2 m n k of every GEMM, attention without a discount for causal masks
  causal_half,  // the same, causal attention at half
};

// A what-if that leaves the step as it is.
struct UnmovedChange {
  std::string key, value;  // "cluster.change.node.nics.bandwidth", "x0.5"
  std::string reason;      // why_unmoved() of sim/forecast
};

// A window of attention that is shorter than the sequence.
struct AttentionWindow {
  std::int64_t tokens = 0, sequence = 0;
  std::int64_t layers = 0, of_layers = 0;  // those that have it
  bool skipped = false;                    // by the kernels, which compute nothing outside of it
};

// ExpertLoadFacts are about experts that get different numbers of tokens: a rank's choices over the
// average.
struct ExpertLoadFacts {
  double fullest = 1;       // the mean over rows of the fullest rank
  double held = 1;          // the mean over rows of rank `rank`, the fullest so
  int rank = 0, ranks = 1;  // of those that share the experts
  double dropped = 0;       // of all choices
  std::size_t rows = 0;     // of the distribution
  std::string from;         // "as measured", "drawn with cv 0.4 and seed 1"
};

// Provenance is what a forecast rests on.
struct Provenance {
  std::string scenario_path, model_path, model_source, cluster_path;
  std::vector<std::string> model_notes;      // what of the model's file is not in the model
  std::vector<std::string> cluster_sources;  // of the figures of the cluster's file
  std::string device_origin;                 // of the parameters of the kernel model
  std::optional<AttentionWindow> window;
  CollectiveModel collectives = CollectiveModel::fluid;
  bool folded = true;
  double jitter = 0, device_spread = 0;
  std::vector<Straggler> stragglers;
  std::vector<LinkFault> faults;
};

// MeetingTimes are about groups that train apart and meet once in layout.local_steps steps.
struct MeetingTimes {
  Duration exposed{};   // of all fragments' meetings in a round: what training waits for them
  Duration per_step{};  // its share of a step
  Bytes message{};      // parameters that a rank exchanges in a round
  std::vector<CollectiveSummary> collectives;
};

// PoolTime is the mean time of a GPU of a pool.
struct PoolTime {
  std::string name, device;
  int gpus = 0;
  Breakdown breakdown;
};

struct Report {
  std::string scenario, model, cluster, device;
  int ranks = 0, nodes = 0;
  int gpus_per_node = 0;   // that the job uses
  NodeRoom room;           // the machine's nodes
  std::string allocation;  // where they are: allocation_text(); empty: the job has the machine
  std::vector<CrossingGroups> crossing;
  int even_gpus_per_node = 0;  // that would fill racks alike; gpus_per_node: they are, or cannot be
  Layout layout;
  bool counts_samples = false;  // a layer list: its "tokens" are samples
  std::int64_t parameters = 0;
  std::int64_t tokens = 0;  // of one step
  // loads: for sequences of a data set. `tokens` are theirs, without padding. All ranks have the
  // times of the replica that is waited for.
  std::optional<BatchLoads> loads;
  Duration step_time{};
  std::optional<TimeInterval> interval;  // of `step_time`; nothing: no figures are shipped
  double tokens_per_second = 0;
  double tokens_per_second_per_gpu = 0;
  FlopRate model_rate_per_gpu{}, hardware_rate_per_gpu{};
  FlopRate peak_rate{};  // dense data-sheet rate of the compute dtype
  double mfu = 0, hfu = 0;
  CountedFlops counted_flops = CountedFlops::full;
  // With local steps: `step_time` is the mean over a round, a step and its share of the meetings,
  // which `breakdown` counts as exposed_data.
  std::optional<MeetingTimes> meetings;
  std::optional<ExpertLoadFacts> expert_load;
  // With parameter servers: `step_time` is what workers settle to. Kernels are those of the mean
  // worker; the wait for servers, and for other workers, is exposed_data.
  std::optional<ServerRun> servers;
  std::string servers_link;  // the busiest of their links; empty: all of it is within a node
  Breakdown breakdown;       // mean over all ranks, weighted by class
  std::vector<Breakdown> stage_breakdown;  // one per pipeline stage
  std::vector<PoolTime> pools;             // of a cluster of several that the job uses
  StepShares shares;                       // what the step is made of
  double bubble_share = 0;                 // of the step
  double bubble_closed_form = 0;           // of the step, equal stages and free transfers
  std::vector<CollectiveSummary> collectives;
  std::vector<LinkLoad> busiest_links;
  std::vector<std::string> link_names;
  std::vector<Bandwidth> link_capacities;
  std::vector<StageMemory> memory;          // one per pipeline stage
  int worst_stage = 0;                      // index into `memory`
  std::optional<MemoryError> memory_error;  // of the forecast; nothing: no figures are shipped
  std::vector<WhatIf> what_if;              // largest gain first
  std::vector<Unvalidated> not_validated;
  std::optional<Software> software;      // nothing: the report is of no scenario
  std::vector<Note> import_notes;        // of the import that the scenario was written by
  std::vector<Followed> followed;        // what followed a knob
  std::vector<UnmovedChange> unmoved;    // what-ifs that do not move the step
  std::optional<Provenance> provenance;  // of a report with times
  std::string engine;
  std::uint64_t seed = 0;
  SimulationStats stats;
  bool fits() const;
  // It fits, with an allocator that fills the device and returns segments, whenever it has to.
  bool fits_by_retries() const;
  int idle_gpus_per_node() const { return room.gpus - gpus_per_node; }
  Bytes memory_left() const { return worst_memory().capacity - worst_memory().total; }
  // It fits, but by less than the error of the forecast.
  bool memory_in_doubt() const;
  // The share of such runs that fit; nothing where no error is known.
  std::optional<double> fits_chance() const;
  // memory_range() is what nine in ten such runs need on the fullest GPU; nothing where no error is
  // known.
  std::optional<MemoryRange> memory_range() const;
  const StageMemory& worst_memory() const { return memory[static_cast<std::size_t>(worst_stage)]; }
};

// BesideStep is what a step has besides the part that was simulated.
struct BesideStep {
  std::optional<MeetingTimes> meetings{};
  std::optional<ServerRun> servers{};
};
// `memory`: of `plan`, or of the one whose memory counts in its place.
Report make_report(const Scenario& scenario, const Plan& plan, const Simulation& simulation,
                   PlanMemory& memory, BesideStep beside = {});

// A report of memory alone: everything but times is filled in.
Report make_memory_report(const Scenario& scenario, const Plan& plan, PlanMemory& memory);

// Facts in words.
std::string flop_formula(const Report& report);
std::vector<std::string> note_lines(const Report& report);
// How full rows are and who waits for whom, of sequences of a data set.
std::vector<std::string> load_lines(const Report& report);
std::vector<std::string> provenance_lines(const Report& report);

struct TextStyle {
  bool color = false;  // ANSI colours
};
std::string to_table(const Report& report, TextStyle style = {});
std::string to_json(const Report& report);
std::string to_csv(const Report& report);
std::string to_markdown(const Report& report);
// The same forms of a memory report.
std::string memory_table(const Report& report, TextStyle style = {});
std::string memory_json(const Report& report);
std::string memory_csv(const Report& report);
std::string memory_markdown(const Report& report);
// does_not_fit_text() is the answer when memory does not fit: which stage, which category, by how
// much, what would help. It reads the layout, the device's name and the memory of the report.
std::string does_not_fit_text(const Report& report, const Scenario& scenario);
// The same on another cluster than the scenario's.
std::string does_not_fit_text(const Report& report, const Scenario& scenario,
                              const Cluster& cluster);

// mean_peak() is the data-sheet rate of the first `ranks` GPUs, whatever pools they are of.
FlopRate mean_peak(const Cluster& cluster, int ranks, DType dtype);

}  // namespace sim
