// Tokens of experts as measured: files of them, and what is wrong with one.
#include "sim/layout/expert_load.hpp"

#include <filesystem>
#include <fstream>

#include "sim/layout/layout_fields.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

using Lines = std::vector<std::string>;

class LoadFile {
 public:
  explicit LoadFile(const std::string& text) { std::ofstream{path_} << text; }
  ~LoadFile() { std::filesystem::remove(path_); }
  LoadFile(const LoadFile&) = delete;
  LoadFile& operator=(const LoadFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = test::temporary_path("loads.csv").string();
};

ExpertLoad::Rows rows_of(const std::string& text) {
  const LoadFile file{text};
  return read_expert_load(file.path()).rows();
}

Lines problems_of(const std::string& text) {
  const LoadFile file{text};
  try {
    read_expert_load(file.path());
  } catch (const InputError& error) {
    return test::lines_of(error);
  }
  return {};
}

}  // namespace

TEST_CASE("a file of the tokens of experts", "[layout][experts]") {
  const ExpertLoad::Rows rows{{12, 8, 0}, {9.5, 11, 1}};
  CHECK(rows_of("12,8,0\n9.5,11,1\n") == rows);
  CHECK(rows_of("# tokens\nlayer,expert_0,expert_1,expert_2\n3,12,8,0\n\n4, 9.5, 11 ,1") == rows);
  CHECK(rows_of("step,layer,micro_batch,a,b,c\r\n0,3,1,12,8,0\r\n1,3,1,9.5,11,1\r\n") == rows);
}

TEST_CASE("what is wrong with a file of tokens is told with its place", "[layout][experts]") {
  CHECK(problems_of("") ==
        Lines{"0:0: has no row; expected are lines of the tokens of each expert"});
  CHECK(problems_of("layer,e0,e1\n") ==
        Lines{"0:0: has no row; expected are lines of the tokens of each expert"});
  CHECK(problems_of("1,2\n3,4,5\n") ==
        Lines{"2:5: the line has 3 columns, and those before have 2"});
  CHECK(problems_of("1,2\n3, -4\n") ==
        Lines{"2:4: '-4' is no number of tokens; allowed: 0 or more"});
  CHECK(problems_of("1,2\n3,nan\n") ==
        Lines{"2:3: 'nan' is no number of tokens; allowed: 0 or more"});
  CHECK(problems_of("layer,a,b\n0,0,0\n") ==
        Lines{"2:1: no expert has a token in this line; allowed: at least one above 0"});
  CHECK_THROWS_AS(read_expert_load("no/such/file.csv"), InputError);
}

TEST_CASE("a distribution as a scenario and as JSON have it", "[layout][experts]") {
  Layout layout;
  const LayoutField& field = layout_field("moe.load");
  CHECK(value_text(layout, field) == "even");
  CHECK(value_json(layout, field) == "\"even\"");
  layout.expert_load = ExpertLoad{{{3, 1}}};
  CHECK(value_text(layout, field) == "[3, 1]");
  CHECK(value_json(layout, field) == "[3, 1]");
  layout.expert_load = ExpertLoad{{{3, 1}, {2, 2.5}}};
  CHECK(value_text(layout, field) == "[[3, 1], [2, 2.5]]");
  CHECK(layout.expert_load == ExpertLoad{{{3, 1}, {2, 2.5}}});
  CHECK_FALSE(layout.expert_load == ExpertLoad{{{3, 1}}});
  CHECK_FALSE(layout.expert_load == ExpertLoad{});
  layout.expert_load = ExpertLoad{{{3, 1}}, "loads \"a\".csv"};
  CHECK(value_text(layout, field) == "\"loads \\\"a\\\".csv\"");
  CHECK(value_json(layout, field) == value_text(layout, field));
}
