// Clock, power and temperature of a GPU, from a library of the driver that is there, or is not.
#include "real/calibrate/gpu_state.hpp"

#include "tests/catch.hpp"

namespace {

using namespace real;

TEST_CASE("NVML that is not there is said, and nothing is read") {
  const GpuState state{"00000000:3B:00.0", "libno-such-nvml.so.1"};
  CHECK(state.absent().find("no NVML: libno-such-nvml.so.1") != std::string::npos);
  CHECK_FALSE(state.read());
}

TEST_CASE("a library that is not NVML is refused by what it lacks") {
  const GpuState state{"00000000:3B:00.0", "libm.so.6"};
  CHECK(state.absent() == "libm.so.6 has no nvmlInit_v2 or no nvmlDeviceGetHandleByPciBusId_v2");
  CHECK_FALSE(state.read());
}

TEST_CASE("a GPU is found by its address, and read as often as one likes") {
  const GpuState none{"00000000:4C:00.0", STEPCAST_FAKE_NVML};
  CHECK(none.absent() == "NVML knows no GPU at 00000000:4C:00.0: error 6");
  CHECK_FALSE(none.read());
  const GpuState state{"00000000:3B:00.0", STEPCAST_FAKE_NVML};
  REQUIRE(state.absent().empty());
  GpuLog log;
  CHECK(log.empty());
  for (int i = 0; i < 3; ++i) {
    const std::optional<GpuReading> reading = state.read();
    REQUIRE(reading);
    log.add(*reading);
  }
  // 1980, 1755, 1755 MHz; 61, 62, 63 degrees; held back in the second and third.
  CHECK(log.text() ==
        "SM 1755 MHz (1755 to 1980), memory 2619 MHz, 690 W (690 to 690), 63 C at most, held by "
        "power cap, thermal (driver) in 2 of 3");
}

TEST_CASE("what holds a clock back is named, and an idle card is held by nothing") {
  CHECK(limits_text(0x1).empty());
  CHECK(limits_text(0x2).empty());
  CHECK(limits_text(0x4) == "power cap");
  CHECK(limits_text(0x48) == "slowdown (hardware), thermal (hardware)");
}

}  // namespace
