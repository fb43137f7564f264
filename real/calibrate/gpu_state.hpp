// Clock, power and temperature of a GPU, by NVML, whose library comes with the driver and is opened
// at run time: a program without it measures all the same, and says so.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace real {

struct GpuReading {
  double sm_mhz = 0, memory_mhz = 0;
  double watts = 0;
  double celsius = 0;
  unsigned long long limits = 0;  // why the clock is not higher, NVML's bits
};
// "power cap, thermal (driver)"; empty: nothing holds the clock back but that there is no work.
std::string limits_text(unsigned long long limits);

class GpuState {
 public:
  // The state of the GPU at this PCI address, "00000000:3B:00.0". `library`: the one that is
  // opened.
  explicit GpuState(const std::string& pci_address,
                    const std::string& library = "libnvidia-ml.so.1");
  ~GpuState();
  GpuState(const GpuState&) = delete;
  GpuState& operator=(const GpuState&) = delete;

  // Why there are no readings; empty: there are.
  const std::string& absent() const { return absent_; }
  // A figure that the driver does not tell is 0; nothing where it tells nothing.
  std::optional<GpuReading> read() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  void* device_ = nullptr;
  std::string absent_;
};

// The readings of a part of a measurement.
class GpuLog {
 public:
  void add(const GpuReading& reading) { readings_.push_back(reading); }
  bool empty() const { return readings_.empty(); }
  // "SM 1755 MHz (1695 to 1980), memory 2619 MHz, 512 W (340 to 690), 61 C at most, held by power
  // cap in 12 of 20": medians, ranges. REQUIRES: not empty.
  std::string text() const;

 private:
  std::vector<GpuReading> readings_;
};

}  // namespace real
