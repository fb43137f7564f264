#include "sim/base/input_error.hpp"

#include <string>
#include <vector>

#include "tests/catch.hpp"

namespace {

std::string shown(int line, int column, const std::string& source_line) {
  sim::Problem problem;
  problem.where.file = "a.yaml";
  problem.where.line = line;
  problem.where.column = column;
  problem.what = "wrong";
  problem.source_line = source_line;
  return sim::to_text(problem);
}

TEST_CASE("a problem shows place, text, line and caret", "[input_error]") {
  CHECK(shown(3, 5, "tp:  x") == "a.yaml:3:5: error: wrong\n  tp:  x\n      ^");
  CHECK(shown(0, 0, "") == "a.yaml: error: wrong");
  CHECK(shown(2, 3, "\tx") == "a.yaml:2:3: error: wrong\n  \tx\n  \t ^");
}

TEST_CASE("the caret counts characters, not bytes", "[input_error]") {
  CHECK(shown(1, 4, "\u00e9\u00e9: x") == "a.yaml:1:4: error: wrong\n  \u00e9\u00e9: x\n     ^");
  // A column beyond the line stands at its end.
  CHECK(shown(1, 99, "abc") == "a.yaml:1:99: error: wrong\n  abc\n     ^");
}

TEST_CASE("of a long line only the part around the caret is shown", "[input_error]") {
  const std::string line = std::string(1000, 'a') + "X" + std::string(1000, 'b');
  CHECK(shown(1, 1001, line) == "a.yaml:1:1001: error: wrong\n  " + std::string(60, 'a') + "X" +
                                    std::string(59, 'b') + "\n  " + std::string(60, ' ') + "^");
}

TEST_CASE("an error carries all problems, one after the other", "[input_error]") {
  std::vector<sim::Problem> problems(2);
  problems[0].where = {"f", 1, 1};
  problems[0].what = "one";
  problems[1].where = {"f", 2, 1};
  problems[1].what = "two";
  const sim::InputError error{problems};
  CHECK(std::string{error.what()} == "f:1:1: error: one\nf:2:1: error: two");
  CHECK(error.problems().size() == 2);
}

TEST_CASE("the nearest name is near", "[input_error]") {
  CHECK(sim::nearest_name("bandwith", {"latency", "bandwidth"}) == "bandwidth");
  CHECK(sim::nearest_name("lyaers", {"layers", "heads"}) == "layers");  // a swap is one edit
  CHECK(sim::nearest_name("pp", {"tp", "dp"}) == "tp");                 // the first of equals
  CHECK(sim::nearest_name("xy", {"tp", "dp"}).empty());
  CHECK(sim::nearest_name("colour", {"layers", "heads"}).empty());
  CHECK(sim::nearest_name("", {"layers"}).empty());
  CHECK(sim::nearest_name(std::string(8'000'000, 'x'), {"layers"}).empty());
  CHECK(sim::nearest_name("layers", {}).empty());
}

}  // namespace
