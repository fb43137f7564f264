#include "sim/calibration/measured_files.hpp"

#include <fmt/format.h>

#include "sim/calibration/cluster_file.hpp"
#include "sim/topology/cluster_data.hpp"

namespace sim {
namespace {

template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void add_notes(FilesOfMachine& read, const std::vector<std::string>& notes) {
  for (const std::string& note : notes)
    read.notes.push_back("note: " + note);
}

NcclTestsHints hints_for(const MeasuredFiles& files, const Cluster* cluster) {
  NcclTestsHints hints = files.nccl;
  if (cluster && cluster->trays() > 1)
    hints.trays =
        TrayShape{.gpus = cluster->gpus_per_node() / cluster->trays(), .trays = cluster->trays()};
  return hints;
}

void add_log(FilesOfMachine& read, const std::string& path, const NcclTestsHints& hints,
             const Cluster* cluster) {
  const NcclTestsLog log = read_nccl_tests(path, hints);
  add_notes(read, log.notes);
  const std::string other = cluster ? other_device(*cluster, log.device) : "";
  if (!other.empty()) read.notes.push_back(fmt::format("WARNING: {}: {}", path, other));
  append(read.machine.collectives, log.points);
  append(read.machine.versions, log.versions);
}

}  // namespace

FilesOfMachine read_measured_files(const MeasuredFiles& files, const Cluster* cluster) {
  FilesOfMachine read;
  if (!files.kineto_traces.empty()) {
    KinetoResult traces = read_kineto(files.kineto_traces, files.kineto);
    read.machine = std::move(traces.machine);
    add_notes(read, traces.notes);
  }
  if (!files.kernel_rows.empty()) {
    read.rows = read_kernel_rows(files.kernel_rows, static_cast<std::uint64_t>(files.seed));
    read.machine = read.rows.machine;
    add_notes(read, read.rows.notes);
  }
  const NcclTestsHints hints = hints_for(files, cluster);
  for (const std::string& path : files.nccl_logs)
    add_log(read, path, hints, cluster);
  return read;
}

}  // namespace sim
