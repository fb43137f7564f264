// Strict comma-separated values, with the exact text of each error.
#include "sim/rows/csv.hpp"

#include "tests/catch.hpp"

namespace {

using namespace sim;

std::string problems_of(std::string_view text) {
  try {
    CsvTable::parse(text, "t.csv");
  } catch (const InputError& error) {
    std::string all;
    for (const Problem& problem : error.problems())
      all += std::to_string(problem.where.line) + ":" + std::to_string(problem.where.column) +
             ": " + problem.what + "\n";
    return all;
  }
  return "";
}

TEST_CASE("fields are split at commas, and quotes hold commas, quotes and line ends", "[rows]") {
  const CsvTable table = CsvTable::parse("a,b\r\n1,\"x, \"\"y\"\"\nz\"\n,last", "t.csv");
  REQUIRE(table.header().size() == 2);
  REQUIRE(table.header()[1].text == "b");
  REQUIRE(table.records().size() == 2);
  REQUIRE(table.records()[0][1].text == "x, \"y\"\nz");
  REQUIRE(table.records()[0][1].line == 2);
  REQUIRE(table.records()[0][1].column == 3);
  REQUIRE(table.records()[1][0].text.empty());
  REQUIRE(table.records()[1][1].text == "last");
  REQUIRE(table.records()[1][0].line == 4);
}

TEST_CASE("a byte order mark before the header is not part of it", "[rows]") {
  REQUIRE(CsvTable::parse("\xEF\xBB\xBFuse\n", "t.csv").header()[0].text == "use");
}

TEST_CASE("malformed tables are refused at their place", "[rows]") {
  REQUIRE(problems_of("") == "0:0: is empty\n");
  REQUIRE(problems_of("a,b\n1\n1,2,3\n") ==
          "2:0: has 1 fields, the header has 2\n3:0: has 3 fields, the header has 2\n");
  REQUIRE(problems_of("a,a\n") == "1:3: two columns are named 'a'\n");
  REQUIRE(problems_of("a,\n") == "1:3: column 2 has no name\n");
  REQUIRE(problems_of("a,b\n1,\"2\n") == "2:3: the quote is never closed\n");
  REQUIRE(problems_of("a,b\n1,\"2\"3\n") == "2:6: text behind the closing quote\n");
  REQUIRE(problems_of("a,b\n1,2\"3\n") ==
          "2:4: a quote inside a field that does not begin with one; quote the field and double "
          "it\n");
  REQUIRE(problems_of("a,b\n\n1,2\n") == "2:1: the line is empty\n");
  REQUIRE_FALSE(problems_of("a,b\n1,\xFF\n").empty());
  REQUIRE_THROWS_AS(CsvTable::load("/nowhere/t.csv"), InputError);
}

}  // namespace
