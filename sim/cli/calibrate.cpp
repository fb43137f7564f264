// stepcast calibrate: device and cluster files from what was measured.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "sim/base/input_error.hpp"
#include "sim/calibration/cluster_file.hpp"
#include "sim/calibration/fit.hpp"
#include "sim/calibration/kineto.hpp"
#include "sim/calibration/nccl_tests.hpp"
#include "sim/cli/command.hpp"
#include "sim/topology/cluster_data.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

struct Request {
  CalibrationTargets targets;
  std::vector<std::string> nccl_logs, kineto_traces;
  std::string collective;
  int ranks = 0, nodes = 0, gpus_per_node = 0;
};

std::string base_cluster_path(const CalibrationTargets& targets) {
  if (targets.base_cluster.empty())
    throw InputError(SourcePosition{.file = "--cluster"},
                     "a cluster file needs a base that describes the machine: --cluster dgx-h100");
  return find_data_file("topologies", targets.base_cluster);
}

// The cluster whose nodes the logs are counted in; none where no cluster file is written.
std::optional<Cluster> base_cluster(const CalibrationTargets& targets) {
  if (targets.cluster_file.empty()) return std::nullopt;
  return Cluster::load(base_cluster_path(targets));
}

MeasuredMachine machine_from_files(const Request& request) {
  MeasuredMachine machine;
  if (!request.kineto_traces.empty()) {
    KinetoHints hints;
    if (request.gpus_per_node > 0) hints.gpus_per_node = request.gpus_per_node;
    KinetoResult result = read_kineto(request.kineto_traces, hints);
    for (const std::string& note : result.notes)
      print_note("note: " + note);
    machine = std::move(result.machine);
  }
  const std::optional<Cluster> cluster = base_cluster(request.targets);
  NcclTestsHints hints;
  if (cluster && cluster->data().trays > 1)
    hints.trays = TrayShape{.gpus = cluster->gpus_per_node() / cluster->data().trays,
                            .trays = cluster->data().trays};
  if (!request.collective.empty()) hints.collective = request.collective;
  if (request.ranks > 0) hints.ranks = request.ranks;
  if (request.nodes > 0) hints.nodes = request.nodes;
  for (const std::string& path : request.nccl_logs) {
    NcclTestsLog log = read_nccl_tests(path, hints);
    for (const std::string& note : log.notes)
      print_note("note: " + note);
    if (const std::string other = cluster ? other_device(*cluster, log.device) : ""; !other.empty())
      print_note(fmt::format("WARNING: {}: {}", path, other));
    machine.collectives.insert(machine.collectives.end(), log.points.begin(), log.points.end());
    machine.versions.insert(machine.versions.end(), log.versions.begin(), log.versions.end());
  }
  return machine;
}

void write_device(const CalibrationTargets& targets, const MeasuredMachine& machine) {
  if (targets.base_device.empty())
    throw InputError(SourcePosition{.file = "--base"},
                     "a device file needs a base for what was not measured: --base h100_sxm");
  const Device base = load_device(find_data_file("topologies/devices", targets.base_device));
  const DeviceCalibration fit = calibrate_device(base, machine);
  const std::string text = device_yaml(fit, machine);
  static_cast<void>(parse_device(text, targets.device_file));  // it must be readable
  write_text_file(targets.device_file, text);
  for (const std::string& note : fit.notes)
    print_note("note: " + note);
  print_result(residual_table(fit));
  print_note("device file: " + targets.device_file);
}

void write_cluster(const CalibrationTargets& targets, const MeasuredMachine& machine) {
  const std::string base = base_cluster_path(targets);
  const fs::path folder = fs::path{targets.cluster_file}.parent_path();
  ClusterFile file{.name = fs::path{targets.cluster_file}.stem().string(),
                   .device = "",
                   .curves = measured_curves(machine.collectives),
                   .sources = {}};
  if (file.curves.empty())
    throw InputError(SourcePosition{.file = targets.cluster_file},
                     "no collective was measured that a curve could hold");
  const Cluster cluster = Cluster::load(base);
  require_routes(cluster, file.curves, targets.base_cluster);
  for (const std::string& note : cluster.data().node_notes)
    print_note("note: " + note);
  if (!targets.device_file.empty())
    file.device = fs::absolute(targets.device_file)
                      .lexically_normal()
                      .lexically_relative(fs::absolute(folder.empty() ? "." : folder))
                      .lexically_normal()
                      .generic_string();
  write_text_file(targets.cluster_file, cluster_yaml(base, file, folder.string()));
  static_cast<void>(Cluster::load(targets.cluster_file));
  std::string text;
  for (const MeasuredCurve& curve : file.curves)
    text += fmt::format("{}{} of {} ranks on {} node{}: {} points\n", curve.collective,
                        curve.algorithm.empty() ? "" : " (" + curve.algorithm + ")", curve.ranks,
                        curve.nodes, curve.nodes == 1 ? "" : "s", curve.points.size());
  print_result(text);
  print_note("cluster file: " + targets.cluster_file);
}

ExitCode calibrate(const Request& request, const MeasureMachine& measure) {
  const CalibrationTargets& targets = request.targets;
  if (request.nccl_logs.empty() && request.kineto_traces.empty()) {
    if (measure) return measure(targets);
    throw InputError(SourcePosition{.file = "calibrate"},
                     "give --from-nccl-tests or --from-kineto: this build cannot measure");
  }
  if (targets.device_file.empty() && targets.cluster_file.empty())
    throw InputError(SourcePosition{.file = "calibrate"},
                     "nothing to write: give --write-device, --write-cluster or both");
  const MeasuredMachine machine = machine_from_files(request);
  if (!targets.device_file.empty()) write_device(targets, machine);
  if (!targets.cluster_file.empty()) write_cluster(targets, machine);
  return ExitCode::done;
}

Options hint_options(Request& request) {
  return {{.name = "--collective",
           .into = &request.collective,
           .form = "KIND",
           .help = "what a log measured, where it does not say: all_reduce, all_gather, ..."},
          {.name = "--ranks",
           .into = &request.ranks,
           .form = "N",
           .help = "ranks of a log that does not list them",
           .check = CountFrom{2, 1 << 24}},
          {.name = "--nodes",
           .into = &request.nodes,
           .form = "N",
           .help = "nodes of a log that does not list them, as the cluster counts them",
           .check = CountFrom{1, 1 << 17}},
          {.name = "--gpus-per-node",
           .into = &request.gpus_per_node,
           .form = "N",
           .help = "of a trace: which ranks of a process group share a node",
           .check = CountFrom{1, 256}}};
}

// Options of a measurement on this machine.
Options measuring_options(CalibrationTargets& targets) {
  return {{.name = "SCENARIO",
           .into = &targets.scenarios,
           .help = "scenarios whose kernels and collectives are measured here"},
          {.name = "--suite",
           .into = &targets.suite,
           .form = "SUITE",
           .help = "the scenarios of a suite of `validate real`, on its backend and ranks"},
          {.name = "--backend",
           .into = &targets.backend,
           .form = "host|cuda",
           .help = "what measures: host or cuda",
           .check = OneOf{"host", "cuda"}},
          {.name = "--measured-ranks",
           .into = &targets.ranks,
           .form = "N",
           .help = "ranks that measure at once",
           .check = CountFrom{1, 1024}},
          {.name = "--ranks-per-gpu",
           .into = &targets.ranks_per_gpu,
           .form = "N",
           .help = "ranks that share a GPU",
           .check = CountFrom{1, 64}},
          {.name = "--gpu",
           .into = &targets.gpu,
           .form = "NAME",
           .help = "the base is the device file of this GPU, in nvidia-smi's words; default: of "
                   "this machine's"},
          {.name = "--nominal",
           .into = &targets.nominal,
           .help = "measure nothing: write the figures of the bases"},
          {.name = "--seconds",
           .into = &targets.seconds,
           .form = "S",
           .help = "about what the measurement may take",
           .check = NumberFrom{1.0, 86'400.0}},
          {.name = "-o,--folder",
           .into = &targets.folder,
           .form = "FOLDER",
           .help = "where to write device.yaml and cluster.yaml of this machine"}};
}

Options file_options(Request& request) {
  return {{.name = "--from-nccl-tests",
           .into = &request.nccl_logs,
           .form = "LOG...",
           .help = "logs of nccl-tests: curves of collectives"},
          {.name = "--from-kineto",
           .into = &request.kineto_traces,
           .form = "TRACE...",
           .help = "traces of the PyTorch profiler, of one rank each: kernels, collectives, "
                   "launches"},
          {.name = "--base",
           .into = &request.targets.base_device,
           .form = "DEVICE",
           .help = "device with what is not measured"},
          {.name = "--cluster",
           .into = &request.targets.base_cluster,
           .form = "CLUSTER",
           .help = "cluster that describes the machine"},
          {.name = "--write-device",
           .into = &request.targets.device_file,
           .form = "FILE",
           .help = "device file to write"},
          {.name = "--write-cluster",
           .into = &request.targets.cluster_file,
           .form = "FILE",
           .help = "cluster file to write"}};
}

}  // namespace

Command calibrate_command(const MeasureMachine& measure) {
  const auto request = std::make_shared<Request>();
  return {.name = "calibrate",
          .help = "device and cluster files from what was measured",
          .options = joined({measure ? measuring_options(request->targets) : Options{},
                             file_options(*request), hint_options(*request)}),
          .footer =
              "Example: stepcast calibrate --from-nccl-tests all_reduce.log --cluster dgx-h100 "
              "--write-cluster mine.yaml\n"
              "         stepcast calibrate --from-kineto rank0.json rank1.json --base h100_sxm "
              "--write-device mine-h100.yaml",
          .run = [request, measure] { return calibrate(*request, measure); }};
}

}  // namespace sim
