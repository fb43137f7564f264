// NVML played by the CPU, as a library of its own that is opened at run time. One GPU, at
// 00000000:3B:00.0; clock and temperature change from reading to reading, as those of a card under
// load do.
#include <atomic>
#include <cstring>

namespace {

constexpr int success = 0, not_found = 6, not_supported = 3;
int device = 0;
std::atomic<unsigned> readings{0};
std::atomic<int> open{0};

}  // namespace

extern "C" {

int nvmlInit_v2() {
  ++open;
  return success;
}
int nvmlShutdown() {
  --open;
  return success;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** handle) {
  if (open <= 0 || std::strcmp(address, "00000000:3B:00.0") != 0) return not_found;
  *handle = &device;
  return success;
}
// 1980 MHz at first, then 1755; the memory 2619.
int nvmlDeviceGetClockInfo(void* handle, int kind, unsigned* mhz) {
  if (handle != &device) return not_found;
  if (kind == 2) {
    *mhz = 2619;
    return success;
  }
  if (kind != 1) return not_supported;
  *mhz = readings++ == 0 ? 1980 : 1755;
  return success;
}
int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) {
  *milliwatts = 690'500;
  return handle == &device ? success : not_found;
}
int nvmlDeviceGetTemperature(void* handle, int kind, unsigned* celsius) {
  *celsius = 60 + readings;
  return handle == &device && kind == 0 ? success : not_found;
}
// The name of drivers before 535 only: the newer one is not there.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* handle, unsigned long long* reasons) {
  *reasons = readings > 1 ? 0x24 : 0x1;  // power cap and thermal; at first idle
  return handle == &device ? success : not_found;
}
}
