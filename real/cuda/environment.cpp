#include "real/cuda/environment.hpp"

#include <array>
#include <cstdlib>

#include "sim/plan/program.hpp"

namespace real {
namespace {

struct Variable {
  const char* name;
  const char* value;
};
constexpr std::array variables{Variable{"CUDA_DEVICE_MAX_CONNECTIONS", "16"},
                               Variable{"NCCL_RUNTIME_CONNECT", "0"}, Variable{"NCCL_ALGO", ""}};
static_assert(sim::stream_count <= 16);

}  // namespace

void set_cuda_environment() {
  for (const Variable& variable : variables)
    (void)setenv(variable.name, variable.value, 0);
}

}  // namespace real
