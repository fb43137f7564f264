#include "sim/config/data_folder.hpp"

#include <cstdlib>
#include <filesystem>

namespace sim {
namespace {

namespace fs = std::filesystem;

bool holds_data(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder / "models", ignored) &&
         fs::is_directory(folder / "topologies", ignored);
}

// Empty where the system does not tell.
fs::path folder_of_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

}  // namespace

std::string data_folder() {
  if (const char* chosen = std::getenv("STEPCAST_DATA"); chosen && *chosen) return chosen;
  std::error_code ignored;
  for (const fs::path& folder : {fs::current_path(ignored), folder_of_program()})
    if (!folder.empty() && holds_data(folder)) return folder.string();
  return STEPCAST_SOURCE_DIR;
}

}  // namespace sim
