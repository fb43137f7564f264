// Files of execution traces: what is written is read again; what is none is refused.
#include "sim/chakra/nodes.hpp"

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/unit/chakra/traces.hpp"

using namespace sim;
using namespace sim::test;

TEST_CASE("execution traces: a file that was written is read as it was") {
  EtFile file{.path = "a.0.et", .version = "0.0.4", .nodes = {}};
  EtNode kernel = et_compute(7, 120, {3, 5});
  kernel.operations = 2e12;
  kernel.tensor_bytes = 4096;
  kernel.on_host = true;
  file.nodes = {kernel,
                et_collective(8, EtCollective::all_gather, std::uint64_t{3} << 32, {7}, "4"),
                et_message(9, EtType::send, 1, 2)};
  const EtFile read = parse_et(et_text(file), "a.0.et");
  REQUIRE(read.nodes.size() == 3);
  CHECK(read.version == "0.0.4");
  CHECK(read.nodes[0].dependencies == kernel.dependencies);
  CHECK(read.nodes[0].duration_micros == 120);
  CHECK(read.nodes[0].operations == 2e12);
  CHECK(read.nodes[0].tensor_bytes == 4096);
  CHECK(read.nodes[0].on_host);
  CHECK(read.nodes[1].collective == EtCollective::all_gather);
  CHECK(read.nodes[1].comm_bytes == std::uint64_t{3} << 32);
  CHECK(read.nodes[1].group == "4");
  CHECK(read.nodes[2].source == 1);
  CHECK(read.nodes[2].destination == 2);
}

TEST_CASE("execution traces: a number counts whatever its type") {
  // A node whose comm_size is a uint64: field 13 of the attribute.
  const std::string attribute = std::string{"\x0a\x09"} + "comm_size" + "\x68\x80\x10";
  std::string node = std::string{"\x08\x01\x18\x07\x52"} + static_cast<char>(attribute.size());
  node += attribute;
  std::string text = std::string{"\x07\x0a\x05"} + "0.0.4";
  text += static_cast<char>(node.size());
  text += node;
  const EtFile read = parse_et(text, "a.0.et");
  REQUIRE(read.nodes.size() == 1);
  CHECK(read.nodes[0].type == EtType::collective);
  CHECK(read.nodes[0].comm_bytes == 2048);
}

TEST_CASE("execution traces: what is cut off or none is refused") {
  const EtFile file{.path = {}, .version = "0.0.4", .nodes = {et_compute(1, 5), et_compute(2, 5)}};
  const std::string text = et_text(file);
  CHECK_THROWS_AS(parse_et(text.substr(0, text.size() - 1), "a.0.et"), InputError);
  CHECK_THROWS_WITH(parse_et(text.substr(0, text.size() - 1), "a.0.et"),
                    contains_text("message 3"));
  CHECK_THROWS_AS(parse_et("{\"traceEvents\": []}", "a.0.et"), InputError);
}
