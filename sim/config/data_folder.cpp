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

}  // namespace

std::string data_folder() {
  if (const char* chosen = std::getenv("STEPCAST_DATA"); chosen && *chosen) return chosen;
  return holds_data(fs::current_path()) ? fs::current_path().string() : STEPCAST_SOURCE_DIR;
}

}  // namespace sim
