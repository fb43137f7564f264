// YAML that is let in, and YAML that is not.
#include <sstream>
#include <string>

#include "tests/catch.hpp"
#include "tests/unit/config/read.hpp"

namespace {

std::string refusal(std::string_view text) {
  return yaml_problems(text, take_all);
}

TEST_CASE("YAML that is refused as a whole says where and why", "[config][yaml]") {
  CHECK(refusal("") == "the file is empty");
  CHECK(refusal(" \n# only a comment\n") == "the file is empty");
  CHECK(refusal("5") == "1:1 the file is '5'; expected an object (key: value)");
  CHECK(refusal("- 1\n") == "1:1 the file is a list; expected an object (key: value)");
  CHECK(refusal("a: 1\nb: 2\na: 3\n") == "3:1 duplicate key 'a'; the first is on line 1");
  CHECK(refusal("a: 1\n---\nb: 2\n") ==
        "2:1 a second YAML document begins here; allowed: one per file");
  CHECK(refusal("a: &x [1, *x]\n") == "1:11 cyclic alias: it refers to a value around it");
  CHECK(refusal("a: *x\n") == "1:4 not valid YAML: the referenced anchor is not defined");
  CHECK(refusal("a: !!int 3\n") == "1:4 YAML tags are not supported");
  CHECK(refusal("? [a]\n: 1\n") == "1:3 a key must be text, not a list or an object");
  CHECK(refusal(": 1\n") == "1:1 a key is empty; expected 'key: value'");
  CHECK(refusal("a: b: c\n") == "1:5 not valid YAML: illegal map value");
  CHECK(refusal("a:\n\tb: 1\n") ==
        "2:3 not valid YAML: illegal map value; the line is indented with a tab, use spaces");
  CHECK(refusal("a: \"x\nb: 1\n") ==
        "1:4 not valid YAML: the quote that opens here is never closed");
  CHECK(refusal("a: &n 'it''s\n") ==
        "1:4 not valid YAML: the quote that opens here is never closed");
}

TEST_CASE("bytes that are no text are refused before parsing", "[config][yaml]") {
  using namespace std::string_view_literals;  // NOLINT(google-build-using-namespace): literals
  CHECK(refusal("\xff\xfe\x61\x00"sv) == "1:1 byte 0xff is not UTF-8 text");
  CHECK(refusal("a: 1\nb: \0"sv) == "2:4 control character U+0000 in a text file");
  CHECK(refusal("a: \x1b[31m") == "1:4 control character U+001B in a text file");
  CHECK(refusal("a: \xc0\xaf") == "1:4 byte 0xc0 is not UTF-8 text");          // overlong
  CHECK(refusal("a: \xed\xa0\x80") == "1:4 byte 0xed is not UTF-8 text");      // surrogate
  CHECK(refusal("a: \xf4\x90\x80\x80") == "1:4 byte 0xf4 is not UTF-8 text");  // > U+10FFFF
  CHECK(refusal("a: \xe2\x82") == "1:4 byte 0xe2 is not UTF-8 text");          // cut off
  CHECK(refusal("\xEF\xBB\xBFk: \u20ac\r\n") == "none");
  CHECK(refusal(std::string((std::size_t{16} << 20) + 1, ' ')) == "the file is larger than 16 MiB");
}

TEST_CASE("nesting ends at 64 levels, in any style", "[config][yaml]") {
  std::string block;
  for (int level = 0; level < 65; ++level)
    block += std::string(static_cast<std::size_t>(level), ' ') + "a:\n";
  CHECK(refusal(block + std::string(65, ' ') + "b: 1\n") ==
        "65:65 values are nested deeper than 64 levels");
  CHECK(refusal("a: " + std::string(63, '[') + std::string(63, ']')) == "none");
  CHECK(refusal("a: " + std::string(64, '[') + std::string(64, ']')) ==
        "1:67 values are nested deeper than 64 levels");
  std::string dashes;
  for (int i = 0; i < 100'000; ++i)
    dashes += "- ";
  CHECK(refusal(dashes) == "1:129 values are nested deeper than 64 levels");
  CHECK(refusal(std::string(5'000'000, '[')) == "1:4097 values are nested deeper than 64 levels");
}

TEST_CASE("an alias refers to a finished value, and a bomb of them stays small", "[config][yaml]") {
  std::ostringstream bomb;
  bomb << "a0: &a0 [1, 2]\n";
  for (int i = 1; i < 60; ++i)
    bomb << 'a' << i << ": &a" << i << " [*a" << i - 1 << ", *a" << i - 1 << "]\n";
  CHECK(refusal(bomb.str()) == "none");
  const sim::Document document = sim::Document::parse_yaml("a: &x {n: 7}\nb: *x\n", "a.yaml");
  const sim::ObjectReader top = document.root_object();
  CHECK(top.object("a").integer("n") == 7);
  CHECK(top.object("b").integer("n") == 7);
  CHECK_NOTHROW(document.finish());
}

TEST_CASE("a mistake seen over two aliases is reported once", "[config][yaml]") {
  CHECK(yaml_problems("a: &x {n: 0}\nb: *x\n", [](const sim::ObjectReader& top) {
          (void)top.object("a").integer("n", {.min = 1, .max = 9});
          (void)top.object("b").integer("n", {.min = 1, .max = 9});
        }) == "1:11 n is 0; allowed: 1 to 9");
}

TEST_CASE("columns count characters", "[config][yaml]") {
  CHECK(yaml_problems("\u00e9\u00e9: x\n", [](const sim::ObjectReader& top) {
          (void)top.integer("\u00e9\u00e9");
        }) == "1:5 \u00e9\u00e9 is 'x'; expected an integer");
}

}  // namespace
