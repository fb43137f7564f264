// The engine as `stepcast doctor` shows it.
#include <fmt/format.h>

#include <algorithm>

#include "real/cuda/cuda_backend.hpp"
#include "sim/cli/train/engine.hpp"

namespace sim {
namespace {

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

}  // namespace

std::vector<Finding> engine_findings() {
  std::vector<Finding> findings{{"CPU engine", "built: ranks as threads or processes, fp32", ""}};
  add_cuda(findings);
  return findings;
}

}  // namespace sim
