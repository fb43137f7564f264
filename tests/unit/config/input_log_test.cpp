// An InputLog hears of every file that is read, and of nothing else.
#include "sim/config/input_log.hpp"

#include <fstream>
#include <thread>

#include "sim/config/reader.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace sim;

TEST_CASE("digests are those of FNV-1a", "[config]") {
  // Test vectors of the authors, isthe.com/chongo/tech/comp/fnv.
  CHECK(digest_of("") == "cbf29ce484222325");
  CHECK(digest_of("a") == "af63dc4c8601ec8c");
  CHECK(digest_of("foobar") == "85944171f73967e8");
}

TEST_CASE("files are logged once each while a log lives, on its thread", "[config]") {
  const std::string a = test::temporary_path("log-a.yaml").string();
  const std::string b = test::temporary_path("log-b.json").string();
  std::ofstream{a} << "a: 1\n";
  std::ofstream{b} << "{}";
  Document::load(a);
  const InputLog log;
  Document::load(b);
  {
    const InputLog inner;
    Document::load(a);
    Document::load(b, Syntax::json);
    CHECK(inner.files() == std::vector<InputFile>{{a, digest_of("a: 1\n")}, {b, digest_of("{}")}});
  }
  Document::parse_yaml("c: 1\n", "text");
  std::jthread{[&] { Document::load(a); }}.join();
  CHECK(log.files() == std::vector<InputFile>{{b, digest_of("{}")}, {a, digest_of("a: 1\n")}});
  std::remove(a.c_str());
  std::remove(b.c_str());
}
