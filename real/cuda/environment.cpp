#include "real/cuda/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/program/program.hpp"

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

bool wants_graphs(const sim::Plan& plan) {
  const char* const value = std::getenv("STEPCAST_GRAPHS");
  const std::string_view choice = value == nullptr || *value == 0 ? "auto" : value;
  if (choice == "on" || choice == "off") return choice == "on";
  if (choice != "auto")
    throw sim::InputError(sim::SourcePosition{.file = "STEPCAST_GRAPHS"},
                          fmt::format("it is \"{}\"; allowed: auto, on, off", choice));
  return std::all_of(plan.programs.begin(), plan.programs.end(),
                     [](const sim::Program& program) { return program.host_waits.empty(); });
}

}  // namespace real
