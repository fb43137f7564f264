// stepcast calibrate without files: measures this machine, fits, writes what `simulate` takes.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "real/calibrate/machine_facts.hpp"
#include "real/calibrate/measure_machine.hpp"
#include "real/cuda/cuda_backend.hpp"
#include "sim/base/input_error.hpp"
#include "sim/base/near_names.hpp"
#include "sim/calibration/cluster_file.hpp"
#include "sim/calibration/fit.hpp"
#include "sim/cli/engine.hpp"
#include "sim/cli/run_end.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/topology/device_of_gpu.hpp"
#include "sim/validation/real_suite.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

struct Wanted {
  Scenario scenario;
  Plan plan;
};

// What is measured for: scenarios of the command line, or of a suite with its backend and ranks.
struct Job {
  real::MeasureRequest request;
  std::vector<Wanted> wanted;
  CalibrationTargets targets;
};

void add(Job& job, Scenario scenario) {
  Plan plan = make_plan(scenario.model, scenario.layout);
  job.wanted.push_back({.scenario = std::move(scenario), .plan = std::move(plan)});
}

Job job_of(const CalibrationTargets& targets) {
  Job job;
  job.targets = targets;
  job.request.backend =
      targets.backend == "cuda" ? real::MeasuredBackend::cuda : real::MeasuredBackend::host;
  job.request.ranks_per_gpu = targets.ranks_per_gpu;
  job.request.seconds = targets.seconds;
  job.request.ranks = targets.ranks;
  for (const std::string& path : targets.scenarios)
    add(job, load_scenario(path));
  if (!targets.suite.empty()) {
    const RealSuite suite = load_real_suite(find_suite(targets.suite));
    job.request.backend = suite.backend == RealBackend::cuda ? real::MeasuredBackend::cuda
                                                             : real::MeasuredBackend::host;
    job.request.ranks_per_gpu = suite.ranks_per_gpu;
    job.request.ranks = suite.ranks;
    if (job.request.backend == real::MeasuredBackend::cuda && job.targets.base_cluster.empty())
      job.targets.base_cluster = suite.cluster;
    for (const SuiteScenario& one : suite.scenarios)
      add(job, load_scenario(one.base, overrides_of(suite, one)));
  }
  if (job.request.ranks == 0) {
    job.request.ranks = 1;
    for (const Wanted& one : job.wanted)
      job.request.ranks = std::max(job.request.ranks, one.plan.world_size());
  }
  for (const Wanted& one : job.wanted)
    job.request.plans.push_back(
        {.plan = &one.plan, .model = &one.scenario.model, .source = one.scenario.path});
  return job;
}

// The command line of a rank that is a process of its own.
std::vector<std::string> arguments_of(const CalibrationTargets& targets) {
  std::vector<std::string> words{"calibrate"};
  words.insert(words.end(), targets.scenarios.begin(), targets.scenarios.end());
  const auto option = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    words.emplace_back(name);
    words.push_back(value);
  };
  option("--suite", targets.suite);
  option("--backend", targets.backend);
  if (targets.ranks > 0) option("--measured-ranks", std::to_string(targets.ranks));
  if (targets.ranks_per_gpu > 0) option("--ranks-per-gpu", std::to_string(targets.ranks_per_gpu));
  option("--seconds", fmt::format("{}", targets.seconds));
  option("--base", targets.base_device);
  option("--cluster", targets.base_cluster);
  option("--gpu", targets.gpu);
  option("--folder", targets.folder);
  return words;
}

std::string cpu_vendor() {
  const std::string name = real::processor_name();
  return name.find("AMD") != std::string::npos ? "amd" : "intel";
}

// The device file of this machine's GPU, or of the one that the command line names.
std::string device_of_this_gpu(const CalibrationTargets& targets) {
  std::string gpu = targets.gpu;
  if (gpu.empty()) {
    const real::CudaFacts facts = real::cuda_facts();
    if (facts.gpus.empty()) {
      const std::string why = !facts.not_built.empty() ? "no CUDA: " + facts.not_built
                              : facts.driver.empty()   ? "no driver"
                                                       : facts.no_gpu;
      throw InputError(SourcePosition{.file = "calibrate"},
                       fmt::format("which GPU this machine has is not known ({}): name a base for "
                                   "what is not measured, --base h100_sxm",
                                   why));
    }
    gpu = facts.gpus.front().name;
  }
  const std::string device = device_of_gpu(gpu);
  if (device.empty())
    throw InputError(SourcePosition{.file = "calibrate"},
                     fmt::format("there is no device file for the GPU '{}': name a base for what "
                                 "is not measured, --base h100_sxm; {}",
                                 gpu, choices_text(gpu, known_gpus())));
  return find_data_file("topologies/devices", device);
}

// What the measurements are fitted to: the device that was named, else a core of this host, or this
// GPU or a rank's share of it.
Device base_device(const Job& job) {
  if (!job.targets.base_device.empty())
    return load_device(find_data_file("topologies/devices", job.targets.base_device));
  if (job.request.backend == real::MeasuredBackend::host) return host_base_device();
  return share_of_gpu(load_device(device_of_this_gpu(job.targets)),
                      std::max(1, job.request.ranks_per_gpu));
}

std::string write_files(const Job& job, const MeasuredMachine& machine) {
  const bool host = job.request.backend == real::MeasuredBackend::host;
  const Device base = base_device(job);
  fs::create_directories(job.targets.folder);
  const DeviceCalibration fit = calibrate_device(base, machine);
  const std::string device_file = job.targets.folder + "/device.yaml";
  const std::string cluster_file = job.targets.folder + "/cluster.yaml";
  write_text_file(device_file, device_yaml(fit, machine));
  ClusterFile file{.name = fmt::format("{}-{}", machine.host, job.request.ranks),
                   .device = "device.yaml",
                   .curves = measured_curves(machine.collectives),
                   .sources = {fmt::format("stepcast calibrate on {}, {}, {}", machine.host,
                                           machine.device, machine.date)}};
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (host && job.request.ranks > cores)
    file.sources.push_back(
        fmt::format("{} ranks shared {} cores: kernels take as long as a rank's turns let them, on "
                    "average",
                    job.request.ranks, cores));
  write_text_file(
      cluster_file,
      host && job.targets.base_cluster.empty()
          ? host_cluster_yaml(file, job.request.ranks, fit_links(machine.collectives), cpu_vendor())
          : cluster_yaml(find_data_file("topologies", job.targets.base_cluster), file,
                         job.targets.folder));
  static_cast<void>(Cluster::load(cluster_file));  // it must be readable
  std::string text = residual_table(fit);
  for (const std::string& note : fit.notes)
    print_note("note: " + note);
  return text + fmt::format("{} kernels, {} collectives; written: {}, {}\n", machine.kernels.size(),
                            machine.collectives.size(), device_file, cluster_file);
}

// Nothing measured.
MeasuredMachine nominal_machine(const Job& job) {
  MeasuredMachine machine;
  machine.host = real::host_name();
  machine.date = real::date_and_time();
  machine.device = base_device(job).name;
  return machine;
}

ExitCode measure(const CalibrationTargets& targets) {
  if (targets.folder.empty())
    throw InputError(SourcePosition{.file = "calibrate"},
                     "nothing to write: give a folder for what is measured here (-o), or "
                     "--from-nccl-tests or --from-kineto");
  Job job = job_of(targets);
  if (job.request.backend == real::MeasuredBackend::cuda) {
    if (job.targets.base_cluster.empty())
      throw InputError(
          SourcePosition{.file = "calibrate"},
          "GPUs need a cluster for what is not measured: --cluster single-h200, or the "
          "--suite that is measured for");
    static_cast<void>(base_device(job));  // refused now, not behind the measurement
  }
  if (targets.nominal) {
    print_result(write_files(job, nominal_machine(job)));
    return ExitCode::done;
  }
  job.request.arguments = arguments_of(targets);
  const real::RunResult result = real::measure_machine(
      job.request,
      [&](const MeasuredMachine& machine) { print_result(write_files(job, machine)); });
  return report_end(result);
}

}  // namespace

MeasureMachine machine_measurement() {
  return [](const CalibrationTargets& targets) {
    return run_among_ranks("calibrate", {}, [&] { return measure(targets); });
  };
}

}  // namespace sim
