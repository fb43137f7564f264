// The answers of a program that is built without CUDA.
#include <stdexcept>

#include "real/calibrate/bench.hpp"
#include "real/calibrate/reference.hpp"

namespace real {
namespace {

[[noreturn]] void refuse() {
  throw std::runtime_error(
      "this program was built without CUDA: install the CUDA toolkit (12 or later) and NCCL, then "
      "configure with -DSTEPCAST_CUDA=ON; or measure --backend host");
}

}  // namespace

std::unique_ptr<Bench> make_cuda_bench(Transport&, const CudaSeat&) {
  refuse();
}

std::unique_ptr<Reference> make_cuda_reference(int) {
  refuse();
}

}  // namespace real
