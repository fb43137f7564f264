// Whether this program's kernels run on a GPU and with a driver, told before anything is launched.
// CUDA-free.
#pragma once

#include <string>
#include <string_view>

namespace real {

// Why code for `architectures` does not run on a device of this compute capability, and what to do;
// empty: it does. Architectures as CMAKE_CUDA_ARCHITECTURES has them, with commas: "80,90-virtual",
// "90a". A plain number has machine code, for devices of its major version and at least its minor
// one, and PTX, for all later ones ("-real", "-virtual": one of them); "a" is for one capability
// alone, "f" for a family (CUDA C++ Programming Guide, "Application Compatibility"; nvcc,
// "GPU Feature List").
std::string capability_problem(std::string_view architectures, const std::string& device, int major,
                               int minor);

// Why a program that was built with CUDA `toolkit` does not run with a driver that takes CUDA up to
// `driver`, both as 13000 for 13.0; `driver` is 0 without one. A driver takes all versions of its
// major one ("CUDA Compatibility", minor version compatibility).
std::string driver_problem(int toolkit, int driver);

}  // namespace real
