// The report: metrics of a step from its Timeline and Plan, and their text, JSON and CSV.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/memory.hpp"
#include "sim/plan/plan.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/timeline/timeline.hpp"

namespace sim {

// Where the time of a rank goes. The parts sum to the step time exactly (integer picoseconds).
// Priority where several things happen at once: compute first; then communication by what the
// compute stream waits for (tensor, data, pipeline); waiting for other ranks inside pipeline
// receives is bubble; what is left before an operator that was not yet issued is host.
struct Breakdown {
  Duration compute{};
  Duration exposed_tensor{};
  Duration exposed_data{};
  Duration exposed_pipeline{};
  Duration bubble{};
  Duration host{};
  Duration total() const {
    return compute + exposed_tensor + exposed_data + exposed_pipeline + bubble + host;
  }
};

struct StageMemory {
  int stage = 0;
  MemoryUse use;
  Bytes total{};      // with the device's reservation
  Bytes capacity{};
  bool fits() const { return total <= capacity; }
};

struct WhatIf {
  std::string resource;  // "compute", "tensor communication", ...
  Duration step_time{};  // if it were infinitely fast
};

struct Report {
  std::string scenario, model, cluster;
  int ranks = 0;
  Duration step_time{};
  double tokens_per_second = 0;
  double tokens_per_second_per_gpu = 0;
  FlopRate model_rate_per_gpu{}, hardware_rate_per_gpu{};
  double mfu = 0, hfu = 0;
  std::string flop_formula;
  Breakdown breakdown;                      // mean over all ranks, weighted by class
  std::vector<Breakdown> stage_breakdown;   // one per pipeline stage
  double bubble_share = 0;                  // of the step
  double bubble_closed_form = 0;            // of the step, equal stages and free transfers
  std::vector<CollectiveSummary> collectives;
  std::vector<LinkLoad> busiest_links;
  std::vector<std::string> link_names;
  std::vector<StageMemory> memory;          // one per pipeline stage
  int worst_stage = 0;                      // index into `memory`
  std::vector<WhatIf> what_if;
  std::vector<std::string> provenance;      // parameter sets and their origin, seed, versions
  SimulationStats stats;
  bool fits() const;
};

Report make_report(const Scenario& scenario, const Plan& plan, const Simulation& simulation);

std::string to_table(const Report& report);
std::string to_json(const Report& report);
std::string to_csv(const Report& report);
std::string to_markdown(const Report& report);
// The answer when memory does not fit: which stage, which category, by how much, what would help.
std::string does_not_fit_text(const Report& report, const Scenario& scenario);

}  // namespace sim
