#include "sim/config/data_folder.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

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

// The folder of the shared object that has this code: the Python module. Empty in a program.
fs::path folder_of_module() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&folder_of_program), &info) == 0 || !info.dli_fname)
    return {};
  const fs::path object{info.dli_fname};
  return object.extension() == ".so" ? object.parent_path() : fs::path{};
}

// Where the data may lie, the first choice first.
std::vector<fs::path> places() {
  std::error_code ignored;
  const fs::path program = folder_of_program(), module = folder_of_module();
  std::vector<fs::path> all{fs::current_path(ignored)};
  if (!module.empty()) all.push_back(module / "share/stepcast");
  if (!program.empty()) all.insert(all.end(), {program, program / "../share/stepcast"});
  all.insert(all.end(), {STEPCAST_SOURCE_DIR, STEPCAST_INSTALLED_DATA, "/usr/share/stepcast"});
  return all;
}

}  // namespace

std::string data_folder() {
  if (const char* chosen = std::getenv("STEPCAST_DATA"); chosen && *chosen) {
    if (holds_data(chosen)) return chosen;
    throw InputError{SourcePosition{chosen, 0, 0},
                     "STEPCAST_DATA names this, which is no folder with models/ and topologies/"};
  }
  for (const fs::path& folder : places())
    if (holds_data(folder)) return folder.lexically_normal().string();
  return STEPCAST_SOURCE_DIR;
}

std::string program_data_file(const std::string& path) {
  const fs::path first = fs::path{data_folder()} / path;
  std::error_code ignored;
  if (fs::exists(first, ignored)) return first.string();
  for (const fs::path& folder : places())
    if (fs::exists(folder / path, ignored)) return (folder / path).lexically_normal().string();
  return first.string();
}

}  // namespace sim
