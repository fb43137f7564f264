// Changed values: what a file means with them, and what is refused.
#include "read.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

constexpr std::string_view file =
    "name: box\n"
    "fabric: {kind: flat, link: 400 Gbps, share: 0.5}\n"
    "same: &same {peak: 10}\n"
    "also: *same\n";

Document changed(const std::vector<Change>& changes) {
  Document document = Document::parse_yaml(file, "a.yaml");
  document.change(changes);
  return document;
}

std::string problems_with(const std::vector<Change>& changes) {
  return problems_of([&] {
    const Document document = changed(changes);
    const ObjectReader fabric = document.root_object().object("fabric");
    static_cast<void>(document.root_object().keys());
    static_cast<void>(fabric.text("kind"));
    static_cast<void>(fabric.bandwidth("link"));
    static_cast<void>(fabric.real("share", {.min = 0, .max = 1}));
    static_cast<void>(fabric.integer_or("levels", 2, {.min = 2, .max = 3}));
    document.finish();
  });
}

}  // namespace

TEST_CASE("a changed value stands in for that of the file", "[config]") {
  const Document document = changed({{"fabric.link", "200 Gbps"}, {"name", "other"}});
  const ObjectReader top = document.root_object();
  CHECK(top.object("fabric").bandwidth("link") == Bandwidth::bits_per_second(200e9));
  CHECK(top.text("name") == "other");
  CHECK(top.object("fabric").text("kind") == "flat");
}

TEST_CASE("a change multiplies where it begins with x", "[config]") {
  const Document document = changed({{"fabric.link", "x0.5"}, {"fabric.share", "x1.5"}});
  const ObjectReader fabric = document.root_object().object("fabric");
  CHECK(fabric.bandwidth("link") == Bandwidth::bits_per_second(200e9));
  CHECK(fabric.real("share") == 0.75);
}

TEST_CASE("a change may add a key, and reaches what an alias shares", "[config]") {
  const Document document = changed({{"fabric.levels", "3"}, {"also.peak", "20"}});
  const ObjectReader top = document.root_object();
  CHECK(top.object("fabric").integer("levels") == 3);
  CHECK(top.object("fabric").real("share") == 0.5);
  CHECK(top.object("same").integer("peak") == 20);
}

TEST_CASE("what an alias shares is multiplied once", "[config]") {
  const Document document = changed({{"same.peak", "x2"}, {"also.peak", "x2"}});
  CHECK(document.root_object().object("same").integer("peak") == 20);
}

TEST_CASE("a mistake in a change names the change", "[config]") {
  CHECK(problems_with({{"fabric.link", "200 Gbps"}}) == "none");
  CHECK(problems_with({{"fabric.share", "2"}}) ==
        "share is 2; allowed: 0 to 1 (where 'fabric.share' is changed to '2')");
  CHECK(problems_with({{"fabric.lnk", "2 Gbps"}}) ==
        "unknown key 'lnk'; did you mean 'link'? (where 'fabric.lnk' is changed to '2 Gbps')");
  CHECK(problems_with({{"fabrik.link", "2 Gbps"}}) ==
        "there is no section 'fabrik' (where 'fabrik.link' is changed to '2 Gbps')");
  CHECK(problems_with({{"fabric.kind", "x2"}}) ==
        "'kind' is no number to multiply (where 'fabric.kind' is changed to 'x2')");
  CHECK(problems_with({{"fabric.levels", "x2"}}) ==
        "the file has no 'levels' to multiply (where 'fabric.levels' is changed to 'x2')");
  CHECK(problems_with({{"fabric", "x2"}}) ==
        "'fabric' is no number to multiply (where 'fabric' is changed to 'x2')");
}

TEST_CASE("a scaled quantity keeps its unit", "[config]") {
  CHECK(scaled_text("400 Gbps", 0.5) == "200 Gbps");
  CHECK(scaled_text("81559 MiB", 2) == "163118 MiB");
  CHECK(scaled_text("2.5us", 1) == "2.5us");
  CHECK(scaled_text("fat_tree", 2).empty());
}
