// Writing a file that appears under its name only when it is complete.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace sim {

// Calls `write(std::ostream&)`. What is no ordinary file (a device, a pipe, a link) is written to,
// never replaced. Throws std::runtime_error when the file cannot be written.
template <class Write>
void write_complete_file(const std::string& path, Write write) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::symlink_status(path, ignored);
  const bool replaces = !std::filesystem::exists(status) || is_regular_file(status);
  const std::string partial = replaces ? path + ".part" : path;
  {
    std::ofstream file{partial, std::ios::binary};
    if (!file) throw std::runtime_error(fmt::format("cannot write {}", partial));
    write(static_cast<std::ostream&>(file));
    file.close();
    if (!file) throw std::runtime_error(fmt::format("cannot write {}", partial));
  }
  if (replaces && std::rename(partial.c_str(), path.c_str()) != 0)
    throw std::runtime_error(fmt::format("cannot rename {} to {}", partial, path));
}

}  // namespace sim
