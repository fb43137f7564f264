#include "real/cuda/device_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace real {
namespace {

struct Target {
  int capability = 0;  // 90 for 9.0; 0: not a number ("native", "all")
  bool machine_code = true, ptx = true;
  bool alone = false, family = false;
};

Target target_of(std::string_view text) {
  Target target;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, target.capability);
  if (error != std::errc{}) return target;
  const std::string_view suffix{rest, static_cast<std::size_t>(end - rest)};
  target.alone = suffix.starts_with('a');
  target.family = suffix.starts_with('f');
  target.machine_code = !suffix.ends_with("-virtual");
  target.ptx = !suffix.ends_with("-real");
  return target;
}

bool runs(const Target& target, int major, int minor) {
  const int device = 10 * major + minor;
  if (target.capability == 0) return true;
  if (target.alone) return device == target.capability;
  const bool same_major = target.capability / 10 == major;
  if (target.machine_code && same_major && device >= target.capability) return true;
  if (target.family) return same_major && device >= target.capability;
  return target.ptx && device >= target.capability;
}

std::string version(int code) {
  return fmt::format("{}.{}", code / 1000, code % 1000 / 10);
}

}  // namespace

std::string capability_problem(std::string_view architectures, const std::string& device, int major,
                               int minor) {
  for (std::size_t at = 0; at <= architectures.size();) {
    const std::size_t end = std::min(architectures.find_first_of(",;", at), architectures.size());
    if (runs(target_of(architectures.substr(at, end - at)), major, minor)) return {};
    at = end + 1;
  }
  return fmt::format(
      "{} has compute capability {}.{}, but this program's kernels were built for {}: configure "
      "with -DCMAKE_CUDA_ARCHITECTURES={}{} and build again",
      device, major, minor, architectures, major, minor);
}

std::string driver_problem(int toolkit, int driver) {
  if (driver == 0)
    return "there is no NVIDIA driver: `nvidia-smi` should name one; in a container, start it with "
           "--gpus";
  if (driver / 1000 >= toolkit / 1000) return {};
  return fmt::format(
      "the driver takes CUDA up to {}, but this program was built with CUDA {}: install a driver "
      "for CUDA {} (`nvidia-smi` names the version), or build with a toolkit of CUDA {}",
      version(driver), version(toolkit), toolkit / 1000, driver / 1000);
}

}  // namespace real
