#include "sim/base/machine_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

namespace sim {
namespace {

std::int64_t least_limit() {
  std::int64_t least = INT64_MAX;
  const auto limit = [&](std::int64_t bytes) {
    if (bytes > 0) least = std::min(least, bytes);
  };
  limit(std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE));
  // "max" where there is none: not read.
  if (std::int64_t bytes = 0; std::ifstream{"/sys/fs/cgroup/memory.max"} >> bytes) limit(bytes);
  rlimit space{};
  if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    limit(static_cast<std::int64_t>(std::min<rlim_t>(space.rlim_cur, INT64_MAX)));
  return least;
}

}  // namespace

Bytes machine_memory() {
  static const Bytes found{least_limit()};
  return found;
}

}  // namespace sim
