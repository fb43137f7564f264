// Finding a shared library when it is first needed: a program that only forecasts starts without
// CUDA's libraries, and one that was built elsewhere finds them where this machine keeps them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace real {

// Value of an environment variable, or null.
using Variables = std::function<const char*(const char*)>;

// Folders that may hold CUDA's libraries, as patterns of glob(3), in the order of the search:
//  1. $STEPCAST_CUDA_LIBRARIES (a list with colons)
//  2. the toolkit: /usr/local/cuda*/lib64, .../lib, .../targets/*/lib
//  3. Python packages (nvidia/*/lib): of $VIRTUAL_ENV, $CONDA_PREFIX, the python3 on $PATH, the
//     user, the system, /opt
// `root` stands in front of the absolute ones (for tests; normally empty).
std::vector<std::string> library_folders(const Variables& variable, const std::string& root = "");

// Files named `name` in those folders that exist, each once, in order; of several toolkits the
// newest first.
std::vector<std::string> library_files(const std::string& name,
                                       const std::vector<std::string>& folders);

// Why there is no `name`: where it was looked for, other versions that lie there, what to do.
std::string not_found_text(const std::string& name, const std::vector<std::string>& folders,
                           const std::vector<std::string>& failures);

// A library that is opened at first use and stays open.
class SharedLibrary {
 public:
  // `name` as the loader knows it, such as "libnccl.so.2". Nothing is opened yet.
  explicit SharedLibrary(std::string name) : name_{std::move(name)} {}
  // Address of a function. The first call opens the library: a file in
  // $STEPCAST_CUDA_LIBRARIES, else what the loader finds, else the first of library_files() that
  // can be opened. Throws std::runtime_error: not_found_text(), or that the library lacks it.
  void* function(const char* name);

 private:
  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace real
