// Messages of a program about a GPU or a driver that it was not built for, before it launches
// anything.
#include "real/cuda/device_check.hpp"

#include "tests/catch.hpp"
#include "tests/unit/real_cuda/cases.hpp"

using namespace cuda_test;  // NOLINT(google-build-using-namespace)

TEST_CASE("machine code runs in its major version, PTX on what comes later", "[real_cuda]") {
  const auto runs = [](const char* architectures, int major, int minor) {
    return real::capability_problem(architectures, "it", major, minor).empty();
  };
  CHECK(runs("90", 9, 0));
  CHECK(runs("90", 10, 0));  // by PTX
  CHECK(runs("80,90", 8, 9));
  CHECK_FALSE(runs("90", 8, 0));
  CHECK_FALSE(runs("80-real", 9, 0));
  CHECK(runs("80-real;90-virtual", 12, 0));
  CHECK_FALSE(runs("86-virtual", 8, 0));
  CHECK(runs("90a", 9, 0));
  CHECK_FALSE(runs("90a", 10, 0));
  CHECK(runs("100f", 10, 3));
  CHECK_FALSE(runs("100f", 12, 0));
  CHECK(runs("native", 7, 5));
}

TEST_CASE("a GPU that the kernels were not built for is refused before anything is launched",
          "[real_cuda]") {
  ToyRun run = base(false);
  run.behaviour.capability = 80;
  const ToyResult result = run_toy(run);
  CHECK(result.failures[0] ==
        "CUDA: GPU 0 (played by the CPU) has compute capability 8.0, but this program's kernels "
        "were built for 90: configure with -DCMAKE_CUDA_ARCHITECTURES=80 and build again");
}

TEST_CASE("a driver that is too old, or is not there, is refused", "[real_cuda]") {
  ToyRun run = base(false);
  run.behaviour.driver = 12080;
  CHECK(run_toy(run).failures[0] ==
        "CUDA: the driver takes CUDA up to 12.8, but this program was built with CUDA 13.0: "
        "install a driver for CUDA 13 (`nvidia-smi` names the version), or build with a toolkit of "
        "CUDA 12");
  run.behaviour.driver = 0;
  CHECK_THAT(run_toy(run).failures[0],
             Catch::Matchers::StartsWith("CUDA: there is no NVIDIA driver"));
  CHECK(real::driver_problem(12040, 13000).empty());
  CHECK(real::driver_problem(13000, 13000).empty());
}
