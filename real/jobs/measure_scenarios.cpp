#include "real/jobs/measure_scenarios.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "real/calibrate/machine_facts.hpp"
#include "real/calibrate/measure_machine.hpp"
#include "real/cuda/cuda_backend.hpp"
#include "real/jobs/training_run.hpp"
#include "sim/base/complete_file.hpp"
#include "sim/base/input_error.hpp"
#include "sim/base/near_names.hpp"
#include "sim/calibration/cluster_file.hpp"
#include "sim/calibration/fit.hpp"
#include "sim/config/data_files.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scores/real/real_suite.hpp"
#include "sim/topology/device_of_gpu.hpp"

namespace real {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& why) {
  throw sim::InputError(sim::SourcePosition{.file = "calibrate"}, why);
}

struct Wanted {
  sim::Scenario scenario;
  sim::Plan plan;
};

// The request with what its suite says, and the scenarios read.
struct Measuring {
  sim::MachineRequest asked;
  MeasureRequest request;
  std::vector<Wanted> wanted;
};

void add(Measuring& job, sim::Scenario scenario) {
  sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  job.wanted.push_back({.scenario = std::move(scenario), .plan = std::move(plan)});
}

void add_suite(Measuring& job, const sim::RealSuite& suite) {
  job.request.backend =
      suite.backend == sim::RealBackend::cuda ? MeasuredBackend::cuda : MeasuredBackend::host;
  job.request.ranks_per_gpu = suite.ranks_per_gpu;
  job.request.ranks = suite.ranks;
  if (job.request.backend == MeasuredBackend::cuda && job.asked.base_cluster.empty())
    job.asked.base_cluster = suite.cluster;
  for (const sim::SuiteScenario& one : suite.scenarios)
    add(job, as_executed(sim::load_scenario(one.base, sim::overrides_of(suite, one))));
}

Measuring job_of(const sim::MachineRequest& asked) {
  Measuring job{.asked = asked,
                .request = {.backend = asked.backend == "cuda" ? MeasuredBackend::cuda
                                                               : MeasuredBackend::host,
                            .ranks = asked.ranks,
                            .ranks_per_gpu = asked.ranks_per_gpu,
                            .plans = {},
                            .seconds = asked.seconds,
                            .arguments = own_arguments()},
                .wanted = {}};
  for (const std::string& path : asked.scenarios)
    add(job, as_executed(sim::load_scenario(path)));
  if (!asked.suite.empty()) add_suite(job, sim::load_real_suite(sim::find_suite(asked.suite)));
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

std::string name_of_this_gpu() {
  const CudaFacts facts = cuda_facts();
  if (!facts.gpus.empty()) return facts.gpus.front().name;
  const std::string why = !facts.not_built.empty() ? "no CUDA: " + facts.not_built
                          : facts.driver.empty()   ? "no driver"
                                                   : facts.no_gpu;
  refuse(
      fmt::format("which GPU this machine has is not known ({}): name a base for what is not "
                  "measured, --base h100_sxm",
                  why));
}

// The device file of this machine's GPU, or of the one that is named.
std::string device_of_this_gpu(const sim::MachineRequest& asked) {
  const std::string gpu = asked.gpu.empty() ? name_of_this_gpu() : asked.gpu;
  const std::string device = sim::device_of_gpu(gpu);
  if (!device.empty()) return sim::find_data_file("topologies/devices", device);
  const std::vector<std::string> known = sim::known_gpus();
  refuse(
      fmt::format("there is no device file for the GPU '{}': name a base for what is not "
                  "measured, --base h100_sxm; {}",
                  gpu, sim::choices_text(gpu, {known.begin(), known.end()})));
}

// The device to which the measurements are fitted: the one that was named, else a core of this
// host, or this GPU or a rank's share of it.
sim::Device base_device(const Measuring& job) {
  if (!job.asked.base_device.empty())
    return sim::load_device(sim::find_data_file("topologies/devices", job.asked.base_device));
  if (job.request.backend == MeasuredBackend::host) return sim::host_base_device();
  return sim::share_of_gpu(sim::load_device(device_of_this_gpu(job.asked)),
                           std::max(1, job.request.ranks_per_gpu));
}

std::vector<std::string> sources_of(const Measuring& job, const sim::MeasuredMachine& machine) {
  std::vector<std::string> sources{
      fmt::format("stepcast calibrate on {}, {}, {}", machine.host, machine.device, machine.date)};
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (job.request.backend == MeasuredBackend::host && job.request.ranks > cores)
    sources.push_back(
        fmt::format("{} ranks shared {} cores: kernels take as long as a rank's turns let them, on "
                    "average",
                    job.request.ranks, cores));
  return sources;
}

std::string cluster_text(const Measuring& job, const sim::MeasuredMachine& machine) {
  const sim::ClusterFile file{.name = fmt::format("{}-{}", machine.host, job.request.ranks),
                              .device = "device.yaml",
                              .curves = sim::measured_curves(machine.collectives),
                              .sources = sources_of(job, machine)};
  if (job.request.backend == MeasuredBackend::cuda || !job.asked.base_cluster.empty())
    return sim::cluster_yaml(sim::find_data_file("topologies", job.asked.base_cluster), file,
                             job.asked.folder);
  const bool amd = processor_name().find("AMD") != std::string::npos;
  return sim::host_cluster_yaml(file, job.request.ranks, sim::fit_links(machine.collectives),
                                amd ? "amd" : "intel");
}

sim::CalibratedFile write_files(const Measuring& job, const sim::MeasuredMachine& machine) {
  const sim::Device base = base_device(job);
  fs::create_directories(job.asked.folder);
  const std::string device_file = job.asked.folder + "/device.yaml";
  const std::string cluster_file = job.asked.folder + "/cluster.yaml";
  sim::CalibratedFile written = sim::write_device_file(device_file, base, machine);
  sim::write_complete_file(cluster_file,
                           [&](std::ostream& out) { out << cluster_text(job, machine); });
  static_cast<void>(sim::Cluster::load(cluster_file));  // it must be readable
  written.summary +=
      fmt::format("{} kernels, {} collectives; written: {}, {}\n", machine.kernels.size(),
                  machine.collectives.size(), device_file, cluster_file);
  return written;
}

// Nothing measured.
sim::MeasuredMachine nominal_machine(const Measuring& job) {
  sim::MeasuredMachine machine;
  machine.host = host_name();
  machine.date = date_and_time();
  machine.device = base_device(job).name;
  return machine;
}

}  // namespace

RunResult measure_for_scenarios(const sim::MachineRequest& request,
                                const std::function<void(const sim::CalibratedFile&)>& done) {
  if (request.folder.empty())
    refuse(
        "nothing to write: give a folder for what is measured here (-o), or --from-nccl-tests or "
        "--from-kineto");
  const Measuring job = job_of(request);
  if (job.request.backend == MeasuredBackend::cuda) {
    if (job.asked.base_cluster.empty())
      refuse(
          "GPUs need a cluster for what is not measured: --cluster single-h200, or the --suite "
          "that is measured for");
    static_cast<void>(base_device(job));  // refused now, not behind the measurement
  }
  if (request.nominal) {
    done(write_files(job, nominal_machine(job)));
    return {};
  }
  return measure_machine(
      job.request, [&](const sim::MeasuredMachine& machine) { done(write_files(job, machine)); });
}

}  // namespace real
