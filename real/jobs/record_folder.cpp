#include "real/jobs/record_folder.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace real {

namespace fs = std::filesystem;

RecordFolder::RecordFolder(const std::string& named) : path_{named}, temporary_{named.empty()} {
  if (!temporary_) {
    fs::create_directories(path_);
    return;
  }
  path_ = (fs::temp_directory_path() / "stepcast-records-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr)
    throw std::runtime_error(fmt::format("cannot make a folder like {}", path_));
}

RecordFolder::~RecordFolder() {
  std::error_code ignored;
  if (temporary_) fs::remove_all(path_, ignored);
}

}  // namespace real
