#include "sim/fleet/fleet_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <stdexcept>

#include "sim/base/input_error.hpp"
#include "sim/config/data_files.hpp"
#include "sim/topology/node_list.hpp"

namespace sim {
namespace {

constexpr int most_phases = 1000;
constexpr std::size_t most_jobs = 16;

// `set` of a job or of all.
void add_changes(const ObjectReader& from, std::vector<std::string>& changes) {
  if (!from.has("set")) return;
  for (const ValueReader& change : from.list("set"))
    changes.push_back(change.text());
}

JobText read_job(const ObjectReader& entry) {
  JobText job{.name = "", .scenario = entry.text("scenario"), .changes = {}};
  job.name = entry.text_or("name", std::filesystem::path{job.scenario}.stem().string());
  if (entry.has("node_list")) {
    const std::string list = entry.text("node_list");
    try {
      job.changes.push_back(fmt::format("cluster.nodes={}", expand_node_list(list).size()));
    } catch (const std::invalid_argument& error) {
      entry.problem("node_list", error.what());
    }
    job.changes.push_back("cluster.node_list=" + list);
  }
  add_changes(entry, job.changes);
  return job;
}

// A path from the fleet's file, or a shipped scenario.
std::string scenario_of(const JobText& job, const std::string& path) {
  const std::string beside = resolve_path(path, job.scenario);
  return std::filesystem::exists(beside) ? beside : scenario_file(job.scenario);
}

}  // namespace

FleetText read_fleet(const Document& document) {
  const ObjectReader top = document.root_object();
  FleetText fleet;
  fleet.name = top.text_or("name", std::filesystem::path{document.name()}.stem().string());
  fleet.cluster = top.text("cluster");
  fleet.phases = static_cast<int>(top.integer_or("phases", 8, {1, most_phases}));
  fleet.seed = static_cast<std::uint64_t>(top.integer_or("seed", 1, {0, 1'000'000'000}));
  add_changes(top, fleet.changes);
  std::set<std::string> names;
  for (const ValueReader& value : top.list("jobs")) {
    fleet.jobs.push_back(read_job(value.object()));
    if (!names.insert(fleet.jobs.back().name).second)
      value.problem(fmt::format("two jobs are called '{}'; give each a name of its own",
                                fleet.jobs.back().name));
  }
  if (fleet.jobs.empty() || fleet.jobs.size() > most_jobs)
    top.problem("jobs",
                fmt::format("jobs has {} entries; allowed: 1 to {}", fleet.jobs.size(), most_jobs));
  document.finish();
  return fleet;
}

Fleet load_fleet(const std::string& path) {
  const FleetText text = read_fleet(Document::load(path));
  Fleet fleet{
      .name = text.name, .path = path, .phases = text.phases, .seed = text.seed, .jobs = {}};
  std::vector<std::string> of_all = text.changes;
  of_all.insert(of_all.begin(),
                "cluster.path=" + referenced_file(path, text.cluster, "topologies"));
  for (const JobText& job : text.jobs) {
    std::vector<std::string> changes = of_all;
    changes.insert(changes.end(), job.changes.begin(), job.changes.end());
    fleet.jobs.push_back({job.name, load_scenario(scenario_of(job, path), changes)});
  }
  return fleet;
}

}  // namespace sim
