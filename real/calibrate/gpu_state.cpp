// Names, arguments and numbers are those of NVML's reference manual (docs.nvidia.com, "NVML API
// Reference Guide", sections Initialization and Cleanup, Device Queries, NvmlClocksEventReasons).
#include "real/calibrate/gpu_state.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "real/calibrate/kernel_samples.hpp"

namespace real {
namespace {

constexpr int success = 0;                // NVML_SUCCESS
constexpr int clock_sm = 1;               // NVML_CLOCK_SM
constexpr int clock_memory = 2;           // NVML_CLOCK_MEM
constexpr int temperature_of_device = 0;  // NVML_TEMPERATURE_GPU

struct Limit {
  unsigned long long bit;
  const char* text;
};
// nvmlClocksEventReason*. Bits 0x1 (idle) and 0x2 (the clocks that an administrator has set) are
// no matter of the load.
constexpr std::array<Limit, 6> limits_of_load{{{0x4, "power cap"},
                                               {0x8, "slowdown (hardware)"},
                                               {0x10, "sync boost"},
                                               {0x20, "thermal (driver)"},
                                               {0x40, "thermal (hardware)"},
                                               {0x80, "power brake"}}};

template <class Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

std::string limits_text(unsigned long long limits) {
  std::string text;
  for (const Limit& limit : limits_of_load)
    if ((limits & limit.bit) != 0) text += (text.empty() ? "" : ", ") + std::string{limit.text};
  return text;
}

struct GpuState::Library {
  void* handle = nullptr;
  int (*shutdown)() = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*temperature)(void*, int, unsigned*) = nullptr;
  int (*limits)(void*, unsigned long long*) = nullptr;

  ~Library() {
    if (shutdown != nullptr) static_cast<void>(shutdown());
    if (handle != nullptr) dlclose(handle);
  }
};

GpuState::GpuState(const std::string& pci_address, const std::string& library)
    : library_{std::make_unique<Library>()} {
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    absent_ = fmt::format("no NVML: {}", why != nullptr ? why : library);
    return;
  }
  library_->handle = handle;
  auto* const init = find<int()>(handle, "nvmlInit_v2");
  auto* const by_address =
      find<int(const char*, void**)>(handle, "nvmlDeviceGetHandleByPciBusId_v2");
  library_->clock = find<int(void*, int, unsigned*)>(handle, "nvmlDeviceGetClockInfo");
  library_->power = find<int(void*, unsigned*)>(handle, "nvmlDeviceGetPowerUsage");
  library_->temperature = find<int(void*, int, unsigned*)>(handle, "nvmlDeviceGetTemperature");
  // The name since driver 535, and the one before.
  for (const char* name :
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"})
    if (library_->limits == nullptr)
      library_->limits = find<int(void*, unsigned long long*)>(handle, name);
  if (init == nullptr || by_address == nullptr) {
    absent_ = fmt::format("{} has no nvmlInit_v2 or no nvmlDeviceGetHandleByPciBusId_v2", library);
    return;
  }
  if (const int result = init(); result != success) {
    absent_ = fmt::format("NVML does not start: error {}", result);
    return;
  }
  library_->shutdown = find<int()>(handle, "nvmlShutdown");
  if (const int result = by_address(pci_address.c_str(), &device_); result != success) {
    device_ = nullptr;
    absent_ = fmt::format("NVML knows no GPU at {}: error {}", pci_address, result);
  }
}

GpuState::~GpuState() = default;

std::optional<GpuReading> GpuState::read() const {
  if (device_ == nullptr) return std::nullopt;
  GpuReading reading;
  bool any = false;
  const Library& nvml = *library_;
  const auto number = [&](auto ask, double unit, double& into) {
    unsigned value = 0;
    if (ask(&value) != success) return;
    into = value * unit;
    any = true;
  };
  if (nvml.clock != nullptr) {
    number([&](unsigned* to) { return nvml.clock(device_, clock_sm, to); }, 1, reading.sm_mhz);
    number([&](unsigned* to) { return nvml.clock(device_, clock_memory, to); }, 1,
           reading.memory_mhz);
  }
  if (nvml.power != nullptr)
    number([&](unsigned* to) { return nvml.power(device_, to); }, 1e-3, reading.watts);
  if (nvml.temperature != nullptr)
    number([&](unsigned* to) { return nvml.temperature(device_, temperature_of_device, to); }, 1,
           reading.celsius);
  if (nvml.limits != nullptr && nvml.limits(device_, &reading.limits) != success)
    reading.limits = 0;
  return any ? std::optional{reading} : std::nullopt;
}

std::string GpuLog::text() const {
  std::vector<double> clocks, memory, watts;
  double hottest = 0;
  int held = 0;
  unsigned long long limits = 0;
  for (const GpuReading& reading : readings_) {
    clocks.push_back(reading.sm_mhz);
    memory.push_back(reading.memory_mhz);
    watts.push_back(reading.watts);
    hottest = std::max(hottest, reading.celsius);
    limits |= reading.limits;
    held += limits_text(reading.limits).empty() ? 0 : 1;
  }
  const auto range = [](const std::vector<double>& values) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return fmt::format("({:.0f} to {:.0f})", *least, *most);
  };
  std::string text = fmt::format(
      "SM {:.0f} MHz {}, memory {:.0f} MHz, {:.0f} W {}, {:.0f} C at most", median(clocks),
      range(clocks), median(memory), median(watts), range(watts), hottest);
  if (held > 0)
    text += fmt::format(", held by {} in {} of {}", limits_text(limits), held, readings_.size());
  return text;
}

}  // namespace real
