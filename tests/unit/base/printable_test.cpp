#include "sim/base/printable.hpp"

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"

namespace sim {

TEST_CASE("what commands a terminal is written as a number, and letters stay") {
  CHECK(printable("a\tb\n") == "a\tb\n");
  CHECK(printable("\x1b[31mred\x7f\r") == "\\x1b[31mred\\x7f\\x0d");
  CHECK(printable("\xc2\x9b"
                  "1m") ==
        "\xc2\\x9b"
        "1m");  // CSI in eight bits
  CHECK(printable("größer \xe2\x82\xac") == "größer \xe2\x82\xac");
}

TEST_CASE("the name of a file and what is said of it are printable") {
  CHECK(to_text(Problem{{"a\x1b[2J.yaml", 0, 0}, "no \x07", ""}) ==
        "a\\x1b[2J.yaml: error: no \\x07");
}

}  // namespace sim
