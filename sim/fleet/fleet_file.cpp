#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <stdexcept>

#include "sim/base/input_error.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/reader.hpp"
#include "sim/fleet/fleet.hpp"
#include "sim/topology/node_list.hpp"

namespace sim {
namespace {

constexpr int most_phases = 1000;
constexpr std::size_t most_jobs = 16;

// What an entry says of a job, before its scenario is loaded.
struct JobEntry {
  std::string name, scenario;
  std::vector<std::string> changes;
  SourcePosition where;
};

// `set` of a job or of all.
void add_changes(const ObjectReader& from, std::vector<std::string>& changes) {
  if (!from.has("set")) return;
  for (const ValueReader& change : from.list("set"))
    changes.push_back(change.text());
}

JobEntry read_job(const ObjectReader& entry) {
  JobEntry job{
      .name = "", .scenario = entry.text("scenario"), .changes = {}, .where = entry.where()};
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
std::string scenario_of(const JobEntry& job, const std::string& path) {
  const std::string beside = resolve_path(path, job.scenario);
  return std::filesystem::exists(beside) ? beside : scenario_file(job.scenario);
}

}  // namespace

Fleet load_fleet(const std::string& path) {
  const Document document = Document::load(path);
  const ObjectReader top = document.root_object();
  Fleet fleet{.name = top.text_or("name", std::filesystem::path{path}.stem().string()),
              .path = path,
              .phases = 8,
              .seed = 1,
              .jobs = {}};
  fleet.phases = static_cast<int>(top.integer_or("phases", 8, {1, most_phases}));
  fleet.seed = static_cast<std::uint64_t>(top.integer_or("seed", 1, {0, 1'000'000'000}));
  const std::string cluster = top.text("cluster");
  std::vector<std::string> of_all;
  add_changes(top, of_all);
  std::vector<JobEntry> entries;
  std::set<std::string> names;
  for (const ValueReader& value : top.list("jobs")) {
    entries.push_back(read_job(value.object()));
    if (!names.insert(entries.back().name).second)
      value.problem(fmt::format("two jobs are called '{}'; give each a name of its own",
                                entries.back().name));
  }
  if (entries.empty() || entries.size() > most_jobs)
    top.problem("jobs",
                fmt::format("jobs has {} entries; allowed: 1 to {}", entries.size(), most_jobs));
  document.finish();
  of_all.insert(of_all.begin(), "cluster.path=" + referenced_file(path, cluster, "topologies"));
  for (JobEntry& job : entries) {
    job.changes.insert(job.changes.begin(), of_all.begin(), of_all.end());
    fleet.jobs.push_back({job.name, load_scenario(scenario_of(job, path), job.changes)});
  }
  return fleet;
}

}  // namespace sim
