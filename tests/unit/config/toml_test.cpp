// TOML: what the library says of a text, with its place.
#include <string>

#include "tests/catch.hpp"
#include "tests/unit/config/read.hpp"

namespace {

std::string toml_problems(std::string_view text) {
  return problems_of([&] { sim::Document::parse(text, "a.toml", sim::Syntax::toml); });
}

}  // namespace

TEST_CASE("TOML: a table or a key begins with a letter or a quote", "[config]") {
  CHECK(toml_problems("[\"a b\"]\nc = 1\n") == "none");
  CHECK(toml_problems("a = 1\n[@]\n").starts_with("2:2 not valid TOML: "));
  CHECK(toml_problems("a = 1\n@ = 2\n").starts_with("2:1 not valid TOML: "));
}

TEST_CASE("TOML: Arabic presentation forms are text, and no key", "[config]") {
  CHECK(toml_problems("a = \"\xef\xb1\xbf\"\n") == "none");
  CHECK(toml_problems("a = 1\nb\xef\xb1\xbf = 2\n").starts_with("2:2 not valid TOML: "));
}
