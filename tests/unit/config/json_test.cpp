// The JSON parser: RFC 8259, with positions.
#include <string>

#include "sim/config/json_scan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/config/read.hpp"

namespace {

std::string refusal(std::string_view text) {
  return json_problems(text, take_all);
}

TEST_CASE("JSON values have their types and escapes", "[config][json]") {
  const sim::Document document = sim::Document::parse_json(
      "\xEF\xBB\xBF{\"i\": -3, \"f\": 1e5, \"r\": 1.5e-2, \"b\": false, \"n\": null,\n"
      " \"s\": \"\\u00e9\\ud83d\\ude00\\n\\/\\\"\\u007f\", \"l\": [[], {}], \"q\": \"80 GB\"}\n",
      "a.json");
  const sim::ObjectReader top = document.root_object();
  CHECK(top.integer("i", {.min = -5, .max = 5}) == -3);
  CHECK(top.integer("f") == 100'000);
  CHECK(top.real("r") == 0.015);
  CHECK(!top.boolean("b"));
  CHECK(!top.has("n"));
  CHECK(top.text("s") == "\u00e9\U0001F600\n/\"\x7f");
  CHECK(top.list("l").size() == 2);
  CHECK(top.bytes("q") == sim::Bytes{80'000'000'000});
  CHECK(top.where("q").line == 2);
  CHECK(top.where("q").column == 61);
  CHECK_NOTHROW(document.finish());
}

TEST_CASE("JSON that is refused says where and what was expected", "[config][json]") {
  CHECK(refusal("") == "the file is empty");
  CHECK(refusal("[]") == "1:1 the file is a list; expected an object (key: value)");
  CHECK(refusal("{\"a\": 1,\n}") == "2:1 not valid JSON: expected a key in double quotes");
  CHECK(refusal("{\"a\" 1}") == "1:6 not valid JSON: expected ':'");
  CHECK(refusal("{\"a\": 1 \"b\": 2}") == "1:9 not valid JSON: expected ',' or '}'");
  CHECK(refusal("{\"a\": [1 2]}") == "1:10 not valid JSON: expected ',' or ']'");
  CHECK(refusal("{\"a\":") == "1:6 not valid JSON: the file ends where a value is expected");
  CHECK(refusal("{\"a\": NaN}") == "1:7 not valid JSON: expected a value");
  CHECK(refusal("{\"a\": 01}") == "1:8 not valid JSON: a number must not begin with 0");
  CHECK(refusal("{\"a\": 1.}") == "1:9 not valid JSON: expected a digit");
  CHECK(refusal("{\"a\": +1}") == "1:7 not valid JSON: expected a value");
  CHECK(refusal("{} x") == "1:4 not valid JSON: nothing may follow the value");
  CHECK(refusal("{\"a\": \"x") == "1:9 not valid JSON: the file ends within a string");
  CHECK(refusal("{\"a\": \"x\n\"}") ==
        "1:9 not valid JSON: a string goes on over the end of the line or holds a tab");
  CHECK(refusal("{\"a\": \"\\x\"}") == "1:9 not valid JSON: unknown escape in a string");
  CHECK(refusal("{\"a\": \"\\u12g4\"}") == "1:10 not valid JSON: expected four hexadecimal digits");
  CHECK(refusal("{\"a\": \"\\ud800\"}") == "1:14 not valid JSON: half of a surrogate pair");
  CHECK(refusal("{\"a\": \"\\ud800\\u0041\"}") == "1:20 not valid JSON: half of a surrogate pair");
  CHECK(refusal("{\"a\": \"\\u0000\"}") ==
        "1:14 not valid JSON: the character U+0000 is not supported");
  CHECK(refusal("{\"a\": 1, \"a\": 2}") == "1:10 duplicate key 'a'; the first is on line 1");
  CHECK(refusal(std::string(1'000'000, '[')) == "1:65 values are nested deeper than 64 levels");
}

TEST_CASE("a walk over JSON reads strings as the reader does", "[config][json]") {
  const auto scanned = [](std::string_view text) {
    return problems_of([&] {
      sim::JsonScan scan{text, "a.json"};
      scan.object([&](std::string_view) { (void)scan.text(); });
      scan.finish();
    });
  };
  for (const std::string string :
       {"\"x", "\"x\n\"", "\"\\x\"", "\"\\", "\"\\u12g4\"", "\"\\u00", "\"\\ud800\"",
        "\"\\ud800\\u0041\"", "\"\\u0000\"", "\"\\ud83d\\ude00 \\/\\b\\u00e9\""}) {
    CAPTURE(string);
    CHECK(scanned("{\"a\": " + string + "}") == refusal("{\"a\": " + string + "}"));
  }
  sim::JsonScan scan{"\"\\ud83d\\ude00 \\/\\t\\u00e9\"", "a.json"};
  CHECK(scan.text() == "\U0001F600 /\t\u00e9");
}

TEST_CASE("in JSON text has quotes and numbers have none", "[config][json]") {
  CHECK(json_problems("{\"a\": 5, \"b\": \"5\", \"c\": 1.5, \"d\": 400, \"e\": \"true\"}",
                      [](const sim::ObjectReader& top) {
                        (void)top.text("a");
                        (void)top.integer("b");
                        (void)top.integer("c");
                        (void)top.duration("d");
                        (void)top.boolean("e");
                      }) ==
        "1:7 a is '5'; expected text | 1:15 b is the text '5'; expected an integer | "
        "1:25 c is '1.5'; expected an integer | "
        "1:35 '400' has no unit; allowed: ps, ns, us, ms, s, min, h | "
        "1:45 e is the text 'true'; expected true or false");
}

TEST_CASE("a file of a Hugging Face model is read", "[config][json]") {
  const sim::Document document = sim::Document::parse_json(R"({
  "architectures": [ "LlamaForCausalLM" ],
  "eos_token_id": [ 128001, 128008, 128009 ],
  "hidden_size": 16384,
  "rms_norm_eps": 1e-05,
  "rope_scaling": { "factor": 8.0, "rope_type": "llama3" },
  "rope_theta": 500000.0,
  "tie_word_embeddings": false
})",
                                                           "config.json");
  const sim::ObjectReader top = document.root_object();
  CHECK(top.list("architectures")[0].text() == "LlamaForCausalLM");
  CHECK(top.integer("hidden_size") == 16384);
  CHECK(top.real("rms_norm_eps") == 1e-5);
  CHECK(top.integer("rope_theta") == 500'000);
  top.ignore_unknown();
  CHECK_NOTHROW(document.finish());
}

}  // namespace
