#include "sim/config/reader.hpp"

#include <array>
#include <string>

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

}  // namespace
