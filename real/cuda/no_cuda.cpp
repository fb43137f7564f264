// In place of the backend where the CUDA toolkit was not found.
#include <stdexcept>

#include "real/cuda/cuda_backend.hpp"

namespace real {

bool cuda_built() {
  return false;
}

CudaFacts cuda_facts() {
  CudaFacts facts;
  facts.not_built = STEPCAST_CUDA_LEFT_OUT;
  return facts;
}

std::string cuda_summary() {
  return std::string{"not built: "} + STEPCAST_CUDA_LEFT_OUT;
}

std::unique_ptr<Backend> make_cuda_backend(const CudaSetup& /*setup*/) {
  throw std::runtime_error(
      "this program was built without CUDA: install the CUDA toolkit (12 or later) and NCCL, then "
      "configure with -DSTEPCAST_CUDA=ON");
}

}  // namespace real
