#include "real/cuda/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/program/program.hpp"

namespace real {
namespace {

constexpr int most_queues = 16, channels = 128, channels_beside_queues = 8;
static_assert(sim::stream_count <= most_queues);

}  // namespace

int work_queues(int ranks_per_gpu) {
  return std::clamp(channels / std::max(1, ranks_per_gpu) - channels_beside_queues, 1, most_queues);
}

void set_cuda_environment(int ranks_per_gpu) {
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", fmt::format("{}", work_queues(ranks_per_gpu)).c_str(),
               0);
  (void)setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  (void)setenv("NCCL_ALGO", "", 0);
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
