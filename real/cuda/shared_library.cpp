#include "real/cuda/shared_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <stdexcept>

namespace real {
namespace {

namespace fs = std::filesystem;

constexpr const char* chosen_folders = "STEPCAST_CUDA_LIBRARIES";

std::vector<std::string> split(const std::string& list, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream{list};
  for (std::string part; std::getline(stream, part, separator);)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

std::string value_of(const Variables& variable, const char* name) {
  const char* value = variable(name);
  return value == nullptr ? "" : value;
}

// Prefixes of the interpreter that `python3` starts: the folder above its bin, as found and as
// linked.
std::vector<std::string> python_prefixes(const std::string& path) {
  for (const std::string& folder : split(path, ':')) {
    const fs::path program = fs::path{folder} / "python3";
    std::error_code ignored;
    if (!fs::is_regular_file(program, ignored)) continue;
    return {program.parent_path().parent_path().string(),
            fs::canonical(program, ignored).parent_path().parent_path().string()};
  }
  return {};
}

// Existing paths that match, those with the highest version first: "cuda-13.0" before "cuda-9.2".
std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), GLOB_BRACE, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  std::sort(paths.begin(), paths.end(), [](const std::string& a, const std::string& b) {
    return strverscmp(a.c_str(), b.c_str()) > 0;
  });
  return paths;
}

// "libnccl.so" of "libnccl.so.2".
std::string without_version(const std::string& name) {
  return name.substr(0, name.find(".so") + 3);
}

const char* environment(const char* name) {
  return std::getenv(name);
}

}  // namespace

std::vector<std::string> library_folders(const Variables& variable, const std::string& root) {
  std::vector<std::string> folders = split(value_of(variable, chosen_folders), ':');
  for (const char* toolkit : {"/usr/local/cuda/lib64", "/usr/local/cuda/lib",
                              "/usr/local/cuda-*/lib64", "/usr/local/cuda*/targets/*-linux/lib"})
    folders.push_back(root + toolkit);
  std::vector<std::string> prefixes{value_of(variable, "VIRTUAL_ENV"),
                                    value_of(variable, "CONDA_PREFIX")};
  for (const std::string& prefix : python_prefixes(value_of(variable, "PATH")))
    prefixes.push_back(prefix);
  if (const std::string home = value_of(variable, "HOME"); !home.empty())
    prefixes.push_back(home + "/.local");
  for (const char* system : {"/usr/local", "/usr", "/opt/*"})
    prefixes.push_back(root + system);
  for (const std::string& prefix : prefixes) {
    std::string folder = prefix + "/lib/python3*/{site,dist}-packages/nvidia/*/lib";
    if (!prefix.empty() && std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(std::move(folder));
  }
  return folders;
}

std::vector<std::string> library_files(const std::string& name,
                                       const std::vector<std::string>& folders) {
  std::vector<std::string> files;
  for (const std::string& folder : folders)
    for (std::string& file : matches(fmt::format("{}/{}", folder, name)))
      if (std::find(files.begin(), files.end(), file) == files.end())
        files.push_back(std::move(file));
  return files;
}

std::string not_found_text(const std::string& name, const std::vector<std::string>& folders,
                           const std::vector<std::string>& failures) {
  std::string text = fmt::format(
      "{} was not found: the loader knows none (LD_LIBRARY_PATH, ldconfig), and there is none that "
      "can be used in {}",
      name, fmt::join(folders, ", "));
  for (const std::string& failure : failures)
    text += fmt::format("; cannot be opened: {}", failure);
  const std::vector<std::string> others = library_files(without_version(name) + ".*", folders);
  if (!others.empty() && failures.empty())
    text += fmt::format("; another version is there: {}", others.front());
  return text + fmt::format("; name the folder that has it in {}", chosen_folders);
}

void* SharedLibrary::function(const char* name) {
  static std::mutex opening;
  const std::lock_guard lock{opening};
  if (handle_ == nullptr) {
    const std::vector<std::string> folders = library_folders(environment);
    std::vector<std::string> failures;
    const auto open = [&](const std::string& file) {
      handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return true;
      if (file != name_) failures.emplace_back(dlerror());
      return false;
    };
    // Files that the user has named, then the name that the loader looks up, then the rest.
    std::vector<std::string> files =
        library_files(name_, split(value_of(environment, chosen_folders), ':'));
    files.push_back(name_);
    for (std::string& file : library_files(name_, folders))
      files.push_back(std::move(file));
    if (std::none_of(files.begin(), files.end(), open))
      throw std::runtime_error(not_found_text(name_, folders, failures));
  }
  void* const address = dlsym(handle_, name);
  if (address == nullptr)
    throw std::runtime_error(
        fmt::format("{} of this machine has no function {}: it is too old or "
                    "too new for this program ({})",
                    name_, name, dlerror()));
  return address;
}

}  // namespace real
