#include "sim/config/reader.hpp"

#include <array>
#include <string>
#include <vector>

#include "tests/catch.hpp"

namespace {

enum class Color { red, green };
constexpr auto words_of(Color) {
  return std::array{sim::Word{Color::red, "red"}, sim::Word{Color::green, "green"}};
}

TEST_CASE("a YAML file is read with types, lists and objects", "[config]") {
  const sim::Document document = sim::Document::parse_yaml(
      "name: 8B\n"
      "layers: 32\n"
      "rate: 0.5\n"
      "on: true\n"
      "memory: 80 GB\n"
      "link: 400 Gbps\n"
      "wait: 2.5 us\n"
      "peak: 989 TFLOP/s\n"
      "color: green\n"
      "sizes: [1, 2]\n"
      "inner:\n"
      "  deep: \"7\"\n"
      "nothing: ~\n",
      "a.yaml");
  const sim::ObjectReader top = document.root_object();
  CHECK(top.text("name") == "8B");
  CHECK(top.integer("layers", {.min = 1, .max = 100}) == 32);
  CHECK(top.real("rate") == 0.5);
  CHECK(top.boolean("on"));
  CHECK(top.bytes("memory") == sim::Bytes{80'000'000'000});
  CHECK(top.bandwidth("link") == sim::Bandwidth::bytes_per_second(50e9));
  CHECK(top.duration("wait") == sim::Duration{2'500'000});
  CHECK(top.flop_rate("peak") == sim::FlopRate::per_second(989e12));
  CHECK(top.word<Color>("color") == Color::green);
  CHECK(top.list("sizes")[1].integer() == 2);
  CHECK(top.object("inner").text("deep") == "7");
  CHECK(!top.has("nothing"));
  CHECK(top.integer_or("absent", 5) == 5);
  CHECK_NOTHROW(document.finish());
}

TEST_CASE("keys that are data come in the order of the file", "[config]") {
  const sim::Document document = sim::Document::parse_yaml("z: 1\na: 2\nm: 3\n", "a.yaml");
  CHECK(document.root_object().keys() == std::vector<std::string>{"z", "a", "m"});
  CHECK_NOTHROW(document.finish());
}

TEST_CASE("a large map of data is read in good time", "[config]") {
  std::string text;
  for (int i = 0; i < 50'000; ++i)
    text += "key" + std::to_string(i) + ": 1\n";
  const sim::Document document = sim::Document::parse_yaml(text, "a.yaml");
  const sim::ObjectReader top = document.root_object();
  std::int64_t sum = 0;
  for (const std::string& key : top.keys())
    sum += top.integer(key);
  CHECK(sum == 50'000);
  CHECK_NOTHROW(document.finish());
}

TEST_CASE("a file that cannot be read is an error with its name", "[config]") {
  CHECK_THROWS_WITH(sim::Document::load("no/such/file.yaml"),
                    "no/such/file.yaml: error: cannot read the file: No such file or directory");
  CHECK_THROWS_WITH(sim::Document::load("/"), "/: error: this is a directory, not a file");
}

TEST_CASE("paths in a file are relative to its folder", "[config]") {
  CHECK(sim::resolve_path("scenarios/a.yaml", "../models/m.json") == "models/m.json");
  CHECK(sim::resolve_path("a.yaml", "m.json") == "m.json");
  CHECK(sim::resolve_path("scenarios/a.yaml", "/data/m.json") == "/data/m.json");
}

}  // namespace
