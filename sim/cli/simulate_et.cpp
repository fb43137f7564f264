#include "sim/cli/simulate_et.hpp"

#include "sim/base/rounding.hpp"
#include "sim/chakra/et_text.hpp"
#include "sim/cli/slow_note.hpp"
#include "sim/collective/load_cluster.hpp"

namespace sim {
namespace {

constexpr std::string_view et_prefix = "et:";

std::string cluster_file(const std::string& cluster) {
  if (cluster.empty())
    throw WrongUse{"et:FOLDER needs --cluster NAME: execution traces do not say where they run"};
  return find_data_file("topologies", cluster);
}

Cluster cluster_for(const std::string& path, int ranks) {
  return load_cluster(path, divide_up(ranks, Cluster::load(path).gpus_per_node()));
}

}  // namespace

std::optional<std::string> et_folder(const std::string& scenario) {
  if (!scenario.starts_with(et_prefix)) return std::nullopt;
  return scenario.substr(et_prefix.size());
}

ExitCode simulate_et(const std::string& folder, const std::string& cluster, OutputFormat output) {
  const std::string path = cluster_file(cluster);
  SlowNote slow;
  slow.is_at("reading");
  const EtRun run = read_et_folder(folder);
  const EtPlan planned = plan_of(run);
  const Cluster machine = cluster_for(path, run.world_size());
  // The traces hold what the host did; nothing is issued.
  const SimulationOptions options{.fold = false, .graphs = true, .record_all = true};
  const Simulation simulated = simulate(planned.plan, machine, options, slow.control());
  const EtReport report = report_of(run, planned, simulated, machine.name());
  print_result(in_format(output, report, et_table, et_json, et_csv, et_markdown));
  return ExitCode::done;
}

}  // namespace sim
