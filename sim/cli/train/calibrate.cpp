// stepcast calibrate: device and cluster files from what was measured.
#include <memory>
#include <optional>

#include "sim/base/complete_file.hpp"
#include "sim/base/input_error.hpp"
#include "sim/calibration/calibrated_files.hpp"
#include "sim/calibration/measured_files.hpp"
#include "sim/cli/command.hpp"
#include "sim/config/input_log.hpp"
#include "sim/topology/device_of_gpu.hpp"

namespace sim {
namespace {

struct CalibrateRequest {
  MeasuredFiles files;
  std::string device_file, cluster_file, rows_file;  // to write
  MachineRequest here;  // without files; its bases count with files, too
};

void show(const CalibratedFile& file, const std::string& where) {
  for (const std::string& note : file.notes)
    print_note("note: " + note);
  print_result(file.summary);
  print_note(where);
}

// Rows of kernels name their GPU.
Device base_device(const CalibrateRequest& request, const MeasuredMachine& machine) {
  std::string name = request.here.base_device;
  if (name.empty() && !request.files.kernel_rows.empty()) name = device_of_gpu(machine.device);
  if (name.empty())
    throw InputError(SourcePosition{.file = "--base"},
                     "a device file needs a base for what was not measured: --base h100_sxm");
  return load_device(find_data_file("topologies/devices", name));
}

void write_device(const CalibrateRequest& request, const MeasuredMachine& machine) {
  show(write_device_file(request.device_file, base_device(request, machine), machine),
       "device file: " + request.device_file);
}

// How the rows of kernels compare with the base as it is.
void judge_base(const CalibrateRequest& request, const FilesOfMachine& read) {
  const Device base = base_device(request, read.machine);
  if (!request.rows_file.empty()) {
    refuse_to_overwrite_input(request.rows_file);
    write_complete_file(request.rows_file, [&](std::ostream& out) {
      out << forecast_csv(read.rows, base, static_cast<std::uint64_t>(request.files.seed));
    });
    print_note("rows: " + request.rows_file);
  }
  print_result(forecast_table(read.rows, base));
}

std::string base_cluster_path(const CalibrateRequest& request) {
  if (request.here.base_cluster.empty())
    throw InputError(SourcePosition{.file = "--cluster"},
                     "a cluster file needs a base that describes the machine: --cluster dgx-h100");
  return find_data_file("topologies", request.here.base_cluster);
}

void write_cluster(const CalibrateRequest& request, const MeasuredMachine& machine) {
  show(write_cluster_file({.path = request.cluster_file,
                           .base = base_cluster_path(request),
                           .base_name = request.here.base_cluster,
                           .device = request.device_file},
                          machine),
       "cluster file: " + request.cluster_file);
}

ExitCode calibrate(const CalibrateRequest& request, const MeasureMachine& measure) {
  const bool rows = !request.files.kernel_rows.empty();
  if (!rows && request.files.nccl_logs.empty() && request.files.kineto_traces.empty()) {
    if (measure.run) return measure.run(request.here);
    throw InputError(
        SourcePosition{.file = "calibrate"},
        "give --from-nccl-tests, --from-kineto or --from-kernels: this build cannot measure");
  }
  if (!rows && request.device_file.empty() && request.cluster_file.empty())
    throw InputError(SourcePosition{.file = "calibrate"},
                     "nothing to write: give --write-device, --write-cluster or both");
  std::optional<Cluster> cluster;
  if (!request.cluster_file.empty()) cluster = Cluster::load(base_cluster_path(request));
  const FilesOfMachine read = read_measured_files(request.files, cluster ? &*cluster : nullptr);
  for (const std::string& note : read.notes)
    print_note(note);
  if (rows) judge_base(request, read);
  if (!request.device_file.empty()) write_device(request, read.machine);
  if (!request.cluster_file.empty()) write_cluster(request, read.machine);
  return ExitCode::done;
}

Options hint_options(CalibrateRequest& request) {
  return {{.name = "--collective",
           .into = &request.files.nccl.collective,
           .form = "KIND",
           .help = "what a log measured, where it does not say: all_reduce, all_gather, ..."},
          {.name = "--ranks",
           .into = &request.files.nccl.ranks,
           .form = "N",
           .help = "ranks of a log that does not list them",
           .check = CountFrom{2, 1 << 24}},
          {.name = "--nodes",
           .into = &request.files.nccl.nodes,
           .form = "N",
           .help = "nodes of a log that does not list them, as the cluster counts them",
           .check = CountFrom{1, 1 << 17}},
          {.name = "--gpus-per-node",
           .into = &request.files.kineto.gpus_per_node,
           .form = "N",
           .help = "of a trace: which ranks of a process group share a node",
           .check = CountFrom{1, 256}}};
}

Options file_options(CalibrateRequest& request) {
  return {{.name = "--from-nccl-tests",
           .into = &request.files.nccl_logs,
           .form = "LOG...",
           .help = "logs of nccl-tests: curves of collectives"},
          {.name = "--from-kineto",
           .into = &request.files.kineto_traces,
           .form = "TRACE...",
           .help = "traces of the PyTorch profiler, of one rank each: kernels, collectives, "
                   "launches"},
          {.name = "--from-kernels",
           .into = &request.files.kernel_rows,
           .form = "CSV...",
           .help = "tables of kernels (validation/real/torch_kernels.py): beside the base's "
                   "forecasts, and to fit it to",
           .excludes = {"--from-kineto"}},
          {.name = "--seed",
           .into = &request.files.seed,
           .form = "N",
           .help = "of tables of kernels: which 30% of the shapes no fit sees; default 1",
           .check = NonNegative{},
           .needs = {"--from-kernels"}},
          {.name = "--base",
           .into = &request.here.base_device,
           .form = "DEVICE",
           .help = "device with what is not measured"},
          {.name = "--cluster",
           .into = &request.here.base_cluster,
           .form = "CLUSTER",
           .help = "cluster that describes the machine"},
          {.name = "--write-device",
           .into = &request.device_file,
           .form = "FILE",
           .help = "device file to write",
           .writes = Output::file},
          {.name = "--write-cluster",
           .into = &request.cluster_file,
           .form = "FILE",
           .help = "cluster file to write",
           .writes = Output::file},
          {.name = "--write-rows",
           .into = &request.rows_file,
           .form = "FILE",
           .help = "of tables of kernels: each row with the base's forecast (CSV)",
           .writes = Output::file,
           .needs = {"--from-kernels"}}};
}

}  // namespace

Command calibrate_command(const MeasureMachine& measure) {
  const auto request = std::make_shared<CalibrateRequest>();
  return {.name = "calibrate",
          .help = "device and cluster files from what was measured",
          .options = joined({measure.options ? measure.options(request->here) : Options{},
                             file_options(*request), hint_options(*request)}),
          .footer =
              "Example: stepcast calibrate --from-nccl-tests all_reduce.log --cluster dgx-h100 "
              "--write-cluster mine.yaml\n"
              "         stepcast calibrate --from-kineto rank0.json rank1.json --base h100_sxm "
              "--write-device mine-h100.yaml\n"
              "         stepcast calibrate --from-kernels torch-kernels.csv --write-device "
              "mine-h100.yaml",
          .run = [request, measure] { return calibrate(*request, measure); }};
}

}  // namespace sim
