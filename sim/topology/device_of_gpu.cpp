#include "sim/topology/device_of_gpu.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"
#include "sim/config/data_files.hpp"

namespace sim {
namespace {

// "NVIDIA H200" is not the beginning of "NVIDIA H2000".
bool begins_with(std::string_view name, std::string_view known) {
  return name.substr(0, known.size()) == known &&
         (name.size() == known.size() || name[known.size()] == ' ');
}

constexpr std::int64_t mib = 1 << 20;
const std::string devices = "topologies/devices";

}  // namespace

std::string device_of_gpu(std::string_view driver_name) {
  const auto is_one_of = [&](const std::vector<std::string>& names) {
    return std::ranges::any_of(
        names, [&](const std::string& known) { return begins_with(driver_name, known); });
  };
  for (const std::string& file : data_files(devices)) {
    const Device device = load_device(find_data_file(devices, file));
    if (is_one_of(device.aliases) && !is_one_of(device.unlike)) return file;
  }
  return {};
}

std::vector<std::string> known_gpus() {
  std::vector<std::string> known;
  for (const std::string& file : data_files(devices))
    for (std::string& name : load_device(find_data_file(devices, file)).aliases)
      known.push_back(std::move(name));
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
