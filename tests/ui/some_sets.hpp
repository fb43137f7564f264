// A data folder with some of the published sets, for what takes a moment to forecast.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

namespace ui::test {

class SomeSets {
 public:
  explicit SomeSets(const std::vector<std::string>& names) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ / "validation");
    const std::filesystem::path source = sim::test::source_dir();
    for (const char* folder : {"models", "topologies", "scenarios"})
      std::filesystem::create_directory_symlink(source / folder, root_ / folder);
    std::filesystem::create_directory_symlink(source / "validation/machines",
                                              root_ / "validation/machines");
    std::filesystem::create_directories(root_ / "validation/published");
    for (const std::string& name : names)
      std::filesystem::copy(source / "validation/published" / name,
                            root_ / "validation/published" / name,
                            std::filesystem::copy_options::recursive);
  }
  ~SomeSets() { std::filesystem::remove_all(root_); }
  std::string folder() const { return (root_ / "validation/published").string(); }
  std::filesystem::path set(const std::string& name) const {
    return root_ / "validation/published" / name;
  }

 private:
  std::filesystem::path root_ = sim::test::temporary_path("sets");
};

}  // namespace ui::test
