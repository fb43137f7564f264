// What a program without CUDA answers.
#include <stdexcept>

#include "real/calibrate/bench.hpp"

namespace real {

std::unique_ptr<Bench> make_cuda_bench(Transport&, int) {
  throw std::runtime_error("this program was built without CUDA: measure --backend host");
}

}  // namespace real
