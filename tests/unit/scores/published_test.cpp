#include "sim/scores/published.hpp"

#include <filesystem>
#include <fstream>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

const std::string shipped = test::source_dir() + "/validation";

// A folder with bounds of one set, gone at the end.
class Folder {
 public:
  explicit Folder(const std::string& bounds) : path_{test::temporary_path("published")} {
    fs::create_directories(path_);
    std::ofstream{path_ / "bounds.yaml"} << bounds;
  }
  ~Folder() { fs::remove_all(path_); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

SetResult result_of(const std::string& set, RowUse use) {
  SetResult result;
  result.set.name = set;
  RowResult row;
  row.row.use = use;
  result.rows.push_back(row);
  return result;
}

}  // namespace

TEST_CASE("sets come in the order of their names, whatever the order in which they are asked for",
          "[published]") {
  const std::vector<MeasuredSet> sets = load_sets(shipped, {"sc21_table1", "korthikanti_tab5"});
  REQUIRE(sets.size() == 2);
  CHECK(sets[0].name == "korthikanti_tab5");
  CHECK(sets[1].name == "sc21_table1");
  CHECK_THROWS_WITH(load_sets(shipped, {"sc21_table2"}),
                    shipped +
                        "/published: error: there is no set 'sc21_table2'; did you mean "
                        "'sc21_table1'?");
}

TEST_CASE("each set is announced before its rows are forecast", "[published]") {
  std::vector<std::string> told;
  const std::vector<MeasuredSet> sets = load_sets(shipped, {"korthikanti_tab4_layer"});
  const std::vector<SetResult> results =
      validate_sets(sets, [&](const std::string& set) { told.push_back(set); });
  CHECK(told == std::vector<std::string>{"korthikanti_tab4_layer"});
  REQUIRE(results.size() == 1);
  CHECK(results[0].rows.size() == sets[0].rows.size());
}

TEST_CASE("a set with held-out rows must have a bound", "[published]") {
  const Folder folder{"sets:\n  other: {scored: 0}\n"};
  const std::vector<SetResult> fitted{result_of("mine", RowUse::fit)};
  CHECK(beyond_bounds(fitted, folder.path()).empty());
  const std::vector<SetResult> held_out{result_of("mine", RowUse::score)};
  CHECK_THROWS_WITH(beyond_bounds(held_out, folder.path()),
                    folder.path() + "/bounds.yaml: error: has no bound for the set mine");
}

TEST_CASE("rows that are no scenario are left out with the reason", "[published]") {
  const Folder folder{""};
  MeasuredSet set = load_sets(shipped, {"sc21_table1"}).front();
  set.rows.resize(2);
  set.rows[0].id = "a/b";
  set.rows[1].unreadable = "5:3: no number";
  const EmittedRows emitted = emit_rows(set, folder.path());
  CHECK(emitted.written == 0);
  REQUIRE(emitted.left_out.size() == 2);
  CHECK(emitted.left_out[0].row == "a/b");
  CHECK(emitted.left_out[0].why ==
        "the row_id is no name of a file: letters, digits, '-', '_' and '.' are");
  CHECK(emitted.left_out[1].why == "5:3: no number");
}

TEST_CASE("the shipped memory error is not that of a few rows", "[published]") {
  const std::vector<SetResult> few = validate_sets(load_sets(shipped, {"torchao"}));
  CHECK_FALSE(has_memory_error_of(shipped, few));
}

}  // namespace sim
