#include "sim/scores/alike_rows.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "sim/scenario/scenario.hpp"

namespace sim {
namespace {

// Everything of a scenario that its forecast depends on.
struct Job {
  bool timed = true;
  Layout layout;
  std::string cluster_path;
  int nodes = 0, gpus_per_node = 0;
  ClusterChanges changes;
  std::vector<LinkFault> faults;
  SimulationOptions options;
  std::vector<Note> notes;
  Framework framework;
  Model model;
  bool operator==(const Job&) const = default;
};

// Nothing: the row is alone.
std::optional<Job> job_of_row(const MeasuredSet& set, const MeasuredRow& row, Mechanism without) {
  if (!row.cells || !row.unreadable.empty()) return std::nullopt;
  try {
    Scenario it = row_scenario(set, row, without);
    return Job{.timed = row.outcome != Outcome::analytic,
               .layout = std::move(it.layout),
               .cluster_path = std::move(it.cluster_path),
               .nodes = it.cluster.nodes(),
               .gpus_per_node = it.cluster.gpus_per_node(),
               .changes = std::move(it.changes),
               .faults = std::move(it.faults),
               .options = std::move(it.options),
               .notes = std::move(it.notes),
               .framework = std::move(it.framework),
               .model = std::move(it.model)};
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::vector<std::size_t>> alike_rows(const MeasuredSet& set, Mechanism without) {
  std::vector<std::vector<std::size_t>> groups;
  std::vector<std::optional<Job>> jobs;  // of the groups
  for (std::size_t row = 0; row < set.rows.size(); ++row) {
    std::optional<Job> job = job_of_row(set, set.rows[row], without);
    const auto known = job ? std::find(jobs.begin(), jobs.end(), job) : jobs.end();
    if (known != jobs.end()) {
      groups[static_cast<std::size_t>(known - jobs.begin())].push_back(row);
    } else {
      groups.push_back({row});
      jobs.push_back(std::move(job));
    }
  }
  return groups;
}

}  // namespace sim
