// In place of the backend where the CUDA toolkit was not found.
#include <stdexcept>

#include "real/cuda/cuda_backend.hpp"

namespace real {

bool cuda_built() {
  return false;
}

std::string cuda_summary() {
  return "not built: the CUDA toolkit was not found when this program was configured";
}

std::unique_ptr<Backend> make_cuda_backend(const CudaSetup& /*setup*/) {
  throw std::runtime_error(
      "this program was built without CUDA: install the CUDA toolkit (12 or later) and NCCL, then "
      "configure with -DSTEPCAST_CUDA=ON");
}

}  // namespace real
