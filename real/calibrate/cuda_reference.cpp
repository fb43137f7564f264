// The reference on a GPU: one GEMM in bf16 and one copy inside of the device, timed by events.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "real/calibrate/kernel_samples.hpp"
#include "real/calibrate/reference.hpp"
#include "real/cuda/device.hpp"
#include "real/cuda/gemm/algorithm_file.hpp"
#include "real/cuda/gemm/gemm.hpp"
#include "real/cuda/program_memory.hpp"
#include "sim/base/check.hpp"

namespace real {
namespace {

// A thousandth of the device's memory is copied: 80 MiB of an H100, beyond its L2 of 50 MB, in
// about 50 us. The operands of the GEMM lie in half of it: 3200^3 there, about 100 us.
constexpr std::int64_t copied_share = 1024;
constexpr std::int64_t side_step = 128;
// Some milliseconds: a clock moves slower than that, and nobody takes turns on a device.
constexpr int pieces_at_once = 16;

std::int64_t device_memory() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(total);
}

std::int64_t side_of(std::int64_t copied) {
  const double side = std::sqrt(static_cast<double>(copied) / 2 / (2 * 2));
  return std::max<std::int64_t>(side_step, static_cast<std::int64_t>(side) / side_step * side_step);
}

// As NVML names a GPU: domain, bus, device.
std::string pci_address() {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return fmt::format("{:08X}:{:02X}:{:02X}.0", properties.pciDomainID, properties.pciBusID,
                     properties.pciDeviceID);
}

// STEPCAST_NVML: another file than the one that the loader finds.
std::string nvml_library() {
  const char* const named = std::getenv("STEPCAST_NVML");
  return named != nullptr ? named : "libnvidia-ml.so.1";
}

double seconds_between(const DeviceEvent& begin, const DeviceEvent& end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
  return static_cast<double>(milliseconds) * 1e-3;
}

class CudaReference : public Reference {
 public:
  CudaReference()
      : copied_{device_memory() / copied_share / 512 * 512},
        side_{side_of(copied_)},
        from_{copied_, "the reference"},
        to_{copied_, "the reference"},
        workspace_{gemm_workspace, "the workspace of the reference"},
        gemms_{workspace_.at(0), algorithm_file_of_user()},
        stream_{DeviceStream::Priority::normal} {
    SIM_CHECK(std::int64_t{4} * side_ * side_ <= copied_, side_, copied_);
    // Signed numbers, as activations are: what a GEMM draws depends on its operands.
    std::vector<std::uint16_t> values(static_cast<std::size_t>(copied_ / 2));
    std::uint64_t bits = 1;
    for (std::uint16_t& value : values) {
      bits = bits * 6364136223846793005ULL + 1442695040888963407ULL;  // Knuth's MMIX generator
      const auto random = static_cast<std::uint32_t>(bits >> 40);
      value = static_cast<std::uint16_t>((random & 1) << 15 | (120 + random % 7) << 7 |
                                         ((random >> 8) & 0x7f));
    }
    check(cudaMemcpy(from_.at(0), values.data(), static_cast<std::size_t>(copied_),
                     cudaMemcpyHostToDevice),
          "numbers for the reference");
    plan_ =
        &gemms_.prepare({.tokens = side_, .in = side_, .out = side_}, operands(), stream_.get());
    check(cudaStreamSynchronize(stream_.get()), "the reference");
  }

  ReferenceRun run(int pieces) override {
    const auto count = static_cast<std::size_t>(pieces);
    SIM_CHECK(pieces > 0, pieces);
    while (events_.size() <= 2 * count)
      events_.emplace_back(DeviceEvent::Kind::timing);
    mark(0);
    for (std::size_t i = 0; i < count; ++i) {
      gemms_.run(*plan_, operands(), stream_.get());
      mark(2 * i + 1);
      check(cudaMemcpyAsync(to_.at(0), from_.at(0), static_cast<std::size_t>(copied_),
                            cudaMemcpyDeviceToDevice, stream_.get()),
            "the copy of the reference");
      mark(2 * i + 2);
    }
    check(cudaEventSynchronize(events_[2 * count].get()), "the reference");
    std::vector<double> products, copies;
    for (std::size_t i = 0; i < count; ++i) {
      products.push_back(seconds_between(events_[2 * i], events_[2 * i + 1]));
      copies.push_back(seconds_between(events_[2 * i + 1], events_[2 * i + 2]));
    }
    return {.typical = {.product = median(products), .copy = median(copies)},
            .whole = seconds_between(events_[0], events_[2 * count]) / pieces};
  }

  std::optional<GpuReading> state() const override { return state_.read(); }
  std::string no_state() const override { return state_.absent(); }
  int pieces_between_kernels() const override { return pieces_at_once; }
  int pieces_beside_step(double, double) const override { return pieces_at_once; }
  std::int64_t bytes() const override { return 2 * copied_ + gemm_workspace; }

 private:
  GemmOperands operands() const {
    return {.first = from_.at(0), .second = from_.at(2 * side_ * side_), .result = to_.at(0)};
  }
  void mark(std::size_t event) {
    check(cudaEventRecord(events_[event].get(), stream_.get()), "cudaEventRecord");
  }

  std::int64_t copied_, side_;
  DeviceMemory from_, to_, workspace_;
  Gemms gemms_;
  DeviceStream stream_;
  std::vector<DeviceEvent> events_;
  GpuState state_{pci_address(), nvml_library()};
  const Gemms::Plan* plan_ = nullptr;
};

}  // namespace

std::unique_ptr<Reference> make_cuda_reference(int device) {
  select_device(device);
  return std::make_unique<CudaReference>();
}

}  // namespace real
