#include "real/calibrate/machine_facts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <fstream>
#include <thread>

#include "real/cuda/cuda_backend.hpp"

namespace real {

std::string date_and_time() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text.data();
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string processor_name() {
  std::ifstream file{"/proc/cpuinfo"};
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.rfind("model name", 0) != 0 || colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "unknown processor";
}

std::string machine_name() {
  return fmt::format("{} ({})", host_name(), processor_name());
}

std::string machine_line(MeasuredBackend backend) {
  std::string line = fmt::format("{}: {}, {} cores", host_name(), processor_name(),
                                 std::thread::hardware_concurrency());
  if (backend == MeasuredBackend::cuda) line += "; " + cuda_summary();
  return line;
}

int device_of(const World& world, int ranks_per_gpu) {
  return ranks_per_gpu > 0 ? world.local_rank / ranks_per_gpu : world.local_rank;
}

}  // namespace real
