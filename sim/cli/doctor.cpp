// stepcast doctor: what this program was built with, what it finds on this machine, and what each
// missing part costs the user.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "real/cuda/cuda_backend.hpp"
#include "sim/cli/command.hpp"
#include "sim/distribute/communicator.hpp"

namespace sim {
namespace {

struct Finding {
  std::string part;
  std::string state;
  std::string cost;  // what does not work for want of it; empty where nothing is missing
};

std::string gpu_text(const real::GpuFacts& gpu) {
  return fmt::format("{}, {:.0f} GiB, compute capability {}.{}", gpu.name, gpu.memory_gib,
                     gpu.capability_major, gpu.capability_minor);
}

// Equal GPUs share a line.
std::vector<Finding> gpu_findings(const std::vector<real::GpuFacts>& gpus) {
  struct Kind {
    std::string text, problem;
    int count;
  };
  std::vector<Kind> kinds;
  for (const real::GpuFacts& gpu : gpus) {
    const std::string text = gpu_text(gpu);
    const auto known = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const Kind& kind) { return kind.text == text; });
    if (known == kinds.end())
      kinds.push_back({text, gpu.problem, 1});
    else
      ++known->count;
  }
  std::vector<Finding> findings;
  findings.reserve(kinds.size());
  for (const Kind& kind : kinds)
    findings.push_back({"GPUs", fmt::format("{} x {}", kind.count, kind.text),
                        kind.problem.empty() ? "" : "the GPU engine: " + kind.problem});
  return findings;
}

void add_cuda(std::vector<Finding>& findings) {
  const real::CudaFacts facts = real::cuda_facts();
  constexpr const char* no_run = "`run --backend cuda` and `calibrate` of GPUs";
  if (!facts.not_built.empty()) {
    findings.push_back({"GPU engine", "not built; " + facts.not_built, no_run});
    return;
  }
  findings.push_back({"GPU engine",
                      fmt::format("built with CUDA {}; cuBLASLt {}, NCCL {}; code for sm_{}",
                                  facts.toolkit, facts.cublaslt, facts.nccl, facts.architectures),
                      ""});
  for (const std::string& library : facts.missing)
    findings.push_back({"library", library, no_run});
  if (facts.driver.empty()) {
    findings.push_back({"GPU driver", "none found, so no GPU can be seen", no_run});
    return;
  }
  findings.push_back({"GPU driver", "takes CUDA up to " + facts.driver, ""});
  if (facts.gpus.empty()) findings.push_back({"GPUs", "none: " + facts.no_gpu, no_run});
  for (Finding& gpu : gpu_findings(facts.gpus))
    findings.push_back(std::move(gpu));
}

Finding data_finding(std::size_t models, std::size_t clusters) {
  Finding found{"data", fmt::format("{}: {} models, {} clusters", data_folder(), models, clusters),
                ""};
  if (models == 0 || clusters == 0)
    found.cost = "models and clusters by name; set STEPCAST_DATA to the folder that has them";
  return found;
}

// A part that a later version, or another configuration, builds: found by its target in the build.
Finding part_finding(const char* part, bool built, const char* cost) {
  return {part, built ? "built" : "not part of this build", built ? "" : cost};
}

std::vector<Finding> examine(std::size_t models, std::size_t clusters) {
  std::vector<Finding> findings{
      {"compiler", fmt::format("{} {}, C++ {}", STEPCAST_COMPILER, __VERSION__, __cplusplus), ""},
      {"build", STEPCAST_BUILD_TYPE, ""},
      {"threads", std::to_string(std::thread::hardware_concurrency()), ""},
      data_finding(models, clusters),
      {"CPU engine", "built: ranks as threads or processes, fp32", ""}};
  add_cuda(findings);
  const std::optional<std::string> mpi = mpi_library();
  findings.push_back({"MPI", mpi.value_or("not part of this build"),
                      mpi ? "" : "`mpirun stepcast search` and `sweep`; use --shard"});
  findings.push_back(
      part_finding("window", STEPCAST_HAS_WINDOW,
                   "`stepcast ui`; `simulate --picture` and `--trace` draw the step"));
  findings.push_back(part_finding("Python", STEPCAST_HAS_PYTHON,
                                  "`import stepcast`; every command has `-o json`"));
  return findings;
}

ExitCode report_findings() {
  const std::size_t models = data_files("models").size();
  const std::size_t clusters = data_files("topologies").size();
  std::string text = fmt::format("stepcast {}\n", STEPCAST_VERSION);
  for (const Finding& finding : examine(models, clusters)) {
    text += fmt::format("{:<12} {}\n", finding.part, finding.state);
    if (!finding.cost.empty()) text += fmt::format("{:<12} not available: {}\n", "", finding.cost);
  }
  print_result(text);
  return models > 0 && clusters > 0 ? ExitCode::done : ExitCode::failed;
}

}  // namespace

Command doctor_command() {
  return {.name = "doctor",
          .help = "what this program was built with, and what this machine has",
          .run = report_findings};
}

}  // namespace sim
