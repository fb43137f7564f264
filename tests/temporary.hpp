// Places for files that a test writes: of this process alone, so that runs side by side and of
// different users do not meet.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

namespace sim::test {

inline std::filesystem::path temporary_path(const std::string& name) {
  return std::filesystem::temp_directory_path() /
         ("stepcast-" + std::to_string(getpid()) + "-" + name);
}

}  // namespace sim::test
