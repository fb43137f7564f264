// The exact texts of what a reader reports, and how reports stay short.
#include <array>
#include <string>

#include "tests/catch.hpp"
#include "tests/unit/config/read.hpp"

namespace {

using sim::ObjectReader;

enum class Algorithm { ring, tree };
constexpr auto words_of(Algorithm) {
  return std::array{sim::Word{Algorithm::ring, "ring"}, sim::Word{Algorithm::tree, "tree"}};
}

std::string integer_problem(const std::string& value) {
  return yaml_problems("layers: " + value + "\n", [](const ObjectReader& top) {
    CHECK(top.integer("layers", {.min = 1, .max = 10'000}) == 1);  // harmless
  });
}

TEST_CASE("an integer is digits in its range and nothing else", "[config]") {
  CHECK(integer_problem("0") == "1:9 layers is 0; allowed: 1 to 10000");
  CHECK(integer_problem("-3") == "1:9 layers is -3; allowed: 1 to 10000");
  CHECK(integer_problem("abc") == "1:9 layers is 'abc'; expected an integer");
  CHECK(integer_problem("1e3") == "1:9 layers is '1e3'; expected an integer");
  CHECK(integer_problem("1_000") == "1:9 layers is '1_000'; expected an integer");
  CHECK(integer_problem("0x10") == "1:9 layers is '0x10'; expected an integer");
  CHECK(integer_problem("8.0") == "1:9 layers is '8.0'; expected an integer");
  CHECK(integer_problem("\"8\"") == "1:9 layers is the text '8'; expected an integer");
  CHECK(integer_problem("[8]") == "1:9 layers is a list; expected an integer");
  CHECK(integer_problem("{a: 1}") == "1:9 layers is an object; expected an integer");
  CHECK(integer_problem("~") == "1:9 layers is empty; expected an integer");
  CHECK(integer_problem("010") ==
        "1:9 layers is 010, which some programs read as octal; write it without leading zeros");
  CHECK(integer_problem("99999999999999999999") ==
        "1:9 layers is 99999999999999999999, beyond what can be represented; allowed: 1 to 10000");
  CHECK(integer_problem(".nan") ==
        "1:9 layers is .nan, which is not a number; expected an integer");
}

TEST_CASE("a range that is open on one side says so", "[config]") {
  CHECK(yaml_problems("a: -1\nb: 5\n", [](const ObjectReader& top) {
          (void)top.integer("a");
          (void)top.integer("b", {.min = std::numeric_limits<std::int64_t>::min(), .max = 3});
        }) == "1:4 a is -1; allowed: 0 or more | 2:4 b is 5; allowed: at most 3");
}

TEST_CASE("reals, booleans and quantities are strict too", "[config]") {
  CHECK(yaml_problems("a: .inf\nb: 1.5.2\nc: 1e999\nd: 2\ne: yes\nf: 007\n",
                      [](const ObjectReader& top) {
                        (void)top.real("a");
                        (void)top.real("b");
                        (void)top.real("c");
                        (void)top.real("d", {.min = 0, .max = 1});
                        (void)top.boolean("e");
                        (void)top.real("f");
                      }) ==
        "1:4 a is .inf, which is not a number; expected a number | "
        "2:4 b is '1.5.2'; expected a number | "
        "3:4 c is 1e999, beyond what can be represented; allowed: 0 or more | "
        "4:4 d is 2; allowed: 0 to 1 | 5:4 e is 'yes'; expected true or false | "
        "6:4 f is 007, which some programs read as octal; write it without leading zeros");
  CHECK(
      yaml_problems("link: 400\n", [](const ObjectReader& top) { (void)top.bandwidth("link"); }) ==
      "1:7 '400' has no unit; allowed: bps, Kbps, Mbps, Gbps, Tbps, B/s, KB/s, MB/s, GB/s, TB/s, "
      "KiB/s, MiB/s, GiB/s, TiB/s");
  CHECK(yaml_problems("link: [400]\n", [](const ObjectReader& top) {
          (void)top.bandwidth("link");
        }) == "1:7 link is a list; expected a bandwidth such as 400 Gbps or 50 GB/s");
}

TEST_CASE("an unknown key is answered with the nearest name or the allowed ones", "[config]") {
  const Read read = [](const ObjectReader& top) {
    (void)top.bandwidth_or("bandwidth", sim::Bandwidth::bytes_per_second(1));
    (void)top.duration_or("latency", sim::Duration{1});
  };
  CHECK(yaml_problems("bandwith: 400 Gbps\n", read) ==
        "1:1 unknown key 'bandwith'; did you mean 'bandwidth'?");
  CHECK(yaml_problems("colour: red\n", read) ==
        "1:1 unknown key 'colour'; allowed: bandwidth, latency");
  CHECK(yaml_problems("<<: {latency: 1 us}\n", read) ==
        "1:1 unknown key '<<'; merge keys are not supported");
}

TEST_CASE("of many keys an unknown one is answered with the three nearest", "[config]") {
  const Read read = [](const ObjectReader& top) {
    for (const char* key : {"tensor_parallel", "pipeline_parallel", "data_parallel", "micro_batch"})
      (void)top.integer_or(key, 1);
  };
  CHECK(yaml_problems("parallelism: 2\n", read) ==
        "1:1 unknown key 'parallelism'; nearest of 4: data_parallel, "
        "pipeline_parallel, tensor_parallel");
  CHECK(yaml_problems("zzz: 2\n", read) ==
        "1:1 unknown key 'zzz'; allowed: tensor_parallel, pipeline_parallel, data_parallel and 1 "
        "more");
}

TEST_CASE("a key at the wrong level is told where it belongs", "[config]") {
  const Read read = [](const ObjectReader& top) {
    (void)top.text_or("name", "");
    const ObjectReader layout = top.object("layout");
    (void)layout.integer_or("tensor_parallel", 1);
    for (const sim::ValueReader& item : top.list("items"))
      (void)item.object().integer_or("width", 1);
  };
  CHECK(yaml_problems("tensor_parallel: 2\nlayout: {name: x}\nitems: []\n", read) ==
        "1:1 unknown key 'tensor_parallel'; it belongs in 'layout' | "
        "2:10 unknown key 'name'; it belongs at the top of the file");
  // An item of a list is no place of its own.
  CHECK(yaml_problems("layout: {width: 2}\nitems: [{width: 1}]\n", read) ==
        "1:10 unknown key 'width'; allowed: tensor_parallel");
}

TEST_CASE("the keys of one object that are missing are one problem", "[config]") {
  const Read read = [](const ObjectReader& top) {
    (void)top.text("model");
    (void)top.text("cluster");
    const ObjectReader layout = top.object("layout");
    (void)layout.integer("batch");
    (void)layout.integer("sequence");
  };
  CHECK(yaml_problems("{}\n", read) == "1:1 missing keys 'model', 'cluster' and 'layout'");
  CHECK(yaml_problems("model: a\nlayout: {}\n", read) ==
        "1:1 missing key 'cluster' | 2:9 missing keys 'batch' and 'sequence'");
  CHECK(yaml_problems("modell: a\nlayout: {batch: 1}\n", read) ==
        "1:1 missing key 'cluster' | 1:1 unknown key 'modell'; did you mean 'model'? | "
        "2:9 missing key 'sequence'");
}

TEST_CASE("a key that is there twice is not unknown, too", "[config]") {
  CHECK(yaml_problems("a: 1\na: 2\n", [](const ObjectReader& top) { (void)top.integer("a"); }) ==
        "2:1 duplicate key 'a'; the first is on line 1");
}

TEST_CASE("a file of nothing but mistakes is answered in no time", "[config]") {
  std::string text;
  for (int i = 0; i < 200'000; ++i)
    text += 'k' + std::to_string(i) + ": {}\n";
  const std::string problems = yaml_problems(text, [](const ObjectReader& top) {
    for (int i = 0; i < 50; ++i)
      (void)top.has("some_key_" + std::to_string(i));
    for (const std::string& key : {std::string{"k7"}, std::string{"k8"}})
      for (int i = 0; i < 100; ++i)
        (void)top.object(key).integer("missing_" + std::to_string(i));
  });
  CHECK(problems.find("1:1 unknown key 'k0'; ") == 0);
  CHECK(problems.find("more problems") != std::string::npos);
}

TEST_CASE("a missing key is one problem, a misspelt one too", "[config]") {
  const Read read = [](const ObjectReader& top) {
    const ObjectReader layout = top.object("layout");
    (void)layout.integer("layers", {.min = 1});
    (void)layout.word<Algorithm>("algorithm");
  };
  CHECK(yaml_problems("layout:\n  algorithm: ring\n", read) == "2:3 missing key 'layers'");
  CHECK(yaml_problems("layout:\n  algorithm: ring\n  lyaers: 3\n", read) ==
        "3:3 unknown key 'lyaers'; did you mean 'layers'?");
  // Nothing is said about what a missing object lacks.
  CHECK(yaml_problems("{}\n", read) == "1:1 missing key 'layout'");
  CHECK(yaml_problems("layout: 5\n", read) == "1:9 layout is '5'; expected an object (key: value)");
}

TEST_CASE("an unknown word names the allowed ones and the nearest", "[config]") {
  const Read read = [](const ObjectReader& top) { (void)top.word<Algorithm>("algorithm"); };
  CHECK(yaml_problems("algorithm: rnig\n", read) ==
        "1:12 algorithm is 'rnig'; did you mean 'ring'? allowed: ring, tree");
  CHECK(yaml_problems("algorithm: fastest\n", read) ==
        "1:12 algorithm is 'fastest'; allowed: ring, tree");
  CHECK(yaml_problems("algorithm: [ring]\n", read) == "1:12 algorithm is a list; expected text");
  CHECK(yaml_problems("{}\n", read) == "1:1 missing key 'algorithm'");
}

TEST_CASE("after an unknown word, keys of the other way are not called unknown", "[config]") {
  const Read read = [](const ObjectReader& top) {
    if (top.word<Algorithm>("algorithm") == Algorithm::ring)
      (void)top.integer_or("channels", 1);
    else
      (void)top.integer("depth");
  };
  CHECK(yaml_problems("algorithm: fastest\ndepth: 3\n", read) ==
        "1:12 algorithm is 'fastest'; allowed: ring, tree");
  CHECK(yaml_problems("depth: 3\n", read) == "1:1 missing key 'algorithm'");
  CHECK(yaml_problems("algorithm: fastest\nchanels: 3\n", read) ==
        "1:12 algorithm is 'fastest'; allowed: ring, tree | "
        "2:1 unknown key 'chanels'; did you mean 'channels'?");
}

TEST_CASE("keys in an object that nobody opened are not reported one by one", "[config]") {
  CHECK(yaml_problems("layers: 0\nextra:\n  a: 1\n  b: 2\n", [](const ObjectReader& top) {
          (void)top.integer("layers", {.min = 1, .max = 2});
        }) == "1:9 layers is 0; allowed: 1 to 2 | 2:1 unknown key 'extra'; allowed: layers");
}

TEST_CASE("at most 20 problems of a file are shown, in its order", "[config]") {
  std::string text;
  for (int i = 0; i < 25; ++i)
    text += "unknown" + std::to_string(i) + ": 1\n";
  const std::string problems =
      yaml_problems(text, [](const ObjectReader& top) { (void)top.has("a"); });
  CHECK(problems.find("1:1 unknown key 'unknown0'; allowed: a | 2:1 unknown") == 0);
  CHECK(problems.find("20:1 ") != std::string::npos);
  CHECK(problems.find("21:1 ") == std::string::npos);
  CHECK(problems.find(" | and 5 more problems") != std::string::npos);
}

TEST_CASE("a program's own problem stands at the value, once", "[config]") {
  CHECK(yaml_problems(
            "tp: 3\nstages: [1, x]\n",
            [](const ObjectReader& top) {
              (void)top.integer("tp");
              top.problem("tp", "tp is 3, which does not divide 16 heads; allowed: 1, 2, 4, 8, 16");
              top.problem("tp", "a second look");
              for (const sim::ValueReader& stage : top.list("stages"))
                (void)stage.integer();
              top.problem("the layout does not fit the cluster");
            }) ==
        "1:1 the layout does not fit the cluster | "
        "1:5 tp is 3, which does not divide 16 heads; allowed: 1, 2, 4, 8, 16 | "
        "2:13 stages[1] is 'x'; expected an integer");
}

}  // namespace
