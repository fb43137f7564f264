#include "sim/config/data_folder.hpp"

#include <cstdlib>
#include <filesystem>

#include "sim/base/input_error.hpp"

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
  if (const char* chosen = std::getenv("STEPCAST_DATA"); chosen && *chosen) {
    if (holds_data(chosen)) return chosen;
    throw InputError{SourcePosition{chosen, 0, 0},
                     "STEPCAST_DATA names this, which is no folder with models/ and topologies/"};
  }
  std::error_code ignored;
  const fs::path program = folder_of_program();
  for (const fs::path& folder : {fs::current_path(ignored), program, program / "../share/stepcast",
                                 fs::path{STEPCAST_SOURCE_DIR}, fs::path{STEPCAST_INSTALLED_DATA},
                                 fs::path{"/usr/share/stepcast"}})
    if (!folder.empty() && holds_data(folder)) return folder.lexically_normal().string();
  return STEPCAST_SOURCE_DIR;
}

}  // namespace sim
