#include "sim/topology/device_of_gpu.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"

namespace sim {
namespace {

struct GpuName {
  std::string_view driver;  // the begin of the driver's name
  std::string_view device;
};
// In the words of RunPod's list of GPU types (docs.runpod.io/references/gpu-types, 2025-04-29) and
// of nvidia-smi on a GH200 (mredenti/PowerCapping, configuration/OpenCL_benchmark.md). GB200, B300,
// GB300, V100, H20, H800 and A800: as NVIDIA's products are called; GB10: as PyTorch prints it. The
// first that fits counts.
constexpr GpuName names[] = {
    {"NVIDIA H100 80GB HBM3", "h100_sxm"},
    {"NVIDIA H100 PCIe", "h100_pcie"},
    {"NVIDIA H100 NVL", "h100_nvl"},
    {"NVIDIA H800 PCIe", ""},  // another clock and power limit
    {"NVIDIA H800", "h800_sxm"},
    {"NVIDIA A800-SXM4-80GB", "a800_sxm4_80"},
    {"NVIDIA GB10", "gb10"},
    {"NVIDIA H200 NVL", ""},  // its power limit is another
    {"NVIDIA H200", "h200_sxm"},
    {"NVIDIA H20", "h20"},
    {"NVIDIA GH200", "gh200"},
    {"NVIDIA A100-SXM4-40GB", "a100_sxm4_40"},
    {"NVIDIA A100-SXM4-80GB", "a100_sxm4_80"},
    {"NVIDIA A100 80GB PCIe", "a100_pcie_80"},
    {"NVIDIA B200", "b200_sxm"},
    {"NVIDIA B300", "b300_sxm"},
    {"NVIDIA GB200", "gb200"},
    {"NVIDIA GB300", "gb300"},
    {"NVIDIA L40S", "l40s"},
    {"NVIDIA GeForce RTX 4090", "rtx_4090"},
    {"NVIDIA GeForce RTX 5090", "rtx_5090"},
    {"Tesla V100-SXM2-16GB", "v100_sxm2_16"},
    {"Tesla V100-SXM2-32GB", "v100_sxm2_32"},
};

// "NVIDIA H200" is not the beginning of "NVIDIA H2000".
bool begins_with(std::string_view name, std::string_view known) {
  return name.substr(0, known.size()) == known &&
         (name.size() == known.size() || name[known.size()] == ' ');
}

constexpr std::int64_t mib = 1 << 20;

}  // namespace

std::string device_of_gpu(std::string_view driver_name) {
  const auto* const found =
      std::find_if(std::begin(names), std::end(names),
                   [&](const GpuName& known) { return begins_with(driver_name, known.driver); });
  return found == std::end(names) ? "" : std::string{found->device};
}

std::vector<std::string_view> known_gpus() {
  std::vector<std::string_view> known;
  for (const GpuName& name : names)
    if (!name.device.empty()) known.push_back(name.driver);
  return known;
}

int shared_sms(int sms, int ranks) {
  SIM_CHECK(sms >= 1 && ranks >= 1, sms, ranks);
  if (ranks == 1) return sms;
  return sms * (100 / ranks) / 100 / 2 * 2;
}

Device share_of_gpu(const Device& device, int ranks) {
  SIM_CHECK(ranks >= 1, ranks);
  if (ranks == 1) return device;
  const int sms = shared_sms(device.sms, ranks);
  if (sms < 1)
    throw InputError(SourcePosition{.file = device.name},
                     fmt::format("{} ranks share {} SMs: there is none for each; allowed: at most "
                                 "{} ranks",
                                 ranks, device.sms, std::min(device.sms / 2, 50)));
  Device part = device;
  const double share = static_cast<double>(sms) / device.sms;
  part.name = fmt::format("{}, one of {} ranks ({} SMs)", device.name, ranks, sms);
  part.sms = sms;
  part.memory = Bytes{device.memory.count() / ranks / mib * mib};
  part.memory_bandwidth = device.memory_bandwidth * (1.0 / ranks);
  part.operand_feed = device.operand_feed * share;
  for (auto& model : part.gemm)
    if (model) model->peak = model->peak * share;
  part.measured_kernels.clear();
  return part;
}

}  // namespace sim
