// Shipped files by their names, from any working folder.
#include "sim/config/data_files.hpp"

#include <filesystem>

#include "tests/catch.hpp"

using namespace sim;
namespace fs = std::filesystem;

namespace {

class WorkingFolder {
 public:
  explicit WorkingFolder(const fs::path& folder) { fs::current_path(folder); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;
  ~WorkingFolder() { fs::current_path(before_); }

 private:
  fs::path before_ = fs::current_path();
};

}  // namespace

TEST_CASE("A shipped scenario is found by its path or its name, from any folder", "[config]") {
  const WorkingFolder elsewhere{fs::temp_directory_path()};
  for (const char* given : {"scenarios/gpt2-124m-8-h100.yaml", "gpt2-124m-8-h100",
                            "scenarios/search/mixtral-8x7b-64-h100.yaml"}) {
    CAPTURE(given);
    const fs::path found = scenario_file(given);
    CHECK(fs::is_regular_file(found));
    CHECK(found.stem() == fs::path{given}.stem());
  }
  for (const char* given :
       {"", "no-such", "scenarios/no-such.yaml", "scenarios", "models/gpt2.yaml"})
    CHECK(scenario_file(given) == given);
}
