// Fabrics of InfiniBand and Slurm; forms as those programs write them, machines made up.
#include "sim/topology/survey/survey.hpp"

#include <fmt/format.h>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

// A switch's line, and its ports: what is joined, and what is said of it.
std::string switch_of(const char* id, const std::string& ports) {
  return fmt::format(
             "\nvendid=0x2c9\nswitchguid=0x{}({})\nSwitch\t40 \"S-{}\"\t\t# \"sw {}\" lid 1\n", id,
             id, id, id) +
         ports;
}
std::string port_to(int port, const std::string& peer, const std::string& said) {
  return fmt::format("[{}]\t\"{}\"[1](0)\t\t# \"{}\" lid 5 4xHDR\n", port, peer, said);
}

// Two leaves with three nodes each, all ports of a node at one leaf, and two links up.
std::string two_leaves(const std::string& last = "n6 mlx5_0") {
  std::string text;
  for (const int leaf : {1, 2}) {
    std::string ports;
    for (int i = 0; i < 3; ++i)
      for (int card = 0; card < 2; ++card) {
        const std::string said = fmt::format("n{} mlx5_{}", 3 * (leaf - 1) + i + 1, card);
        ports += port_to(2 * i + card + 1, fmt::format("H-{}{}{}", leaf, i, card),
                         said == "n6 mlx5_0" ? last : said);
      }
    ports += port_to(30, "S-c", "sw c") + port_to(31, "S-c", "sw c");
    text += switch_of(leaf == 1 ? "a" : "b", ports);
  }
  return text + switch_of("c", port_to(1, "S-a", "a") + port_to(2, "S-a", "a") +
                                   port_to(3, "S-b", "b") + port_to(4, "S-b", "b"));
}

std::string text_of(const std::string& file) {
  std::string text;
  for (const FabricSurvey& survey : survey_fabric(file, "f"))
    text += describe(survey);
  return text;
}
bool says(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}
std::string problem_of(const std::string& file) {
  try {
    survey_fabric(file, "f");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("ibnetdiscover: levels, hosts, rates and what leads up", "[survey]") {
  const std::string text = text_of(two_leaves());
  CHECK(says(text, "ibnetdiscover: 6 nodes\n"));
  CHECK(says(text, "leaf switches         2, host ports: 6 each\n"));
  CHECK(says(text, "spine switches        1, links down: 4\n"));
  CHECK(says(text, "host ports            12 at 200 Gb/s\n"));
  CHECK(says(text, "oversubscription      3 to 1\n"));
  CHECK(says(text, "fabric: {kind: fat_tree, levels: 2, nodes_per_leaf: 3, oversubscription: 3}"));
}

TEST_CASE("ibnetdiscover: aggregation nodes and cards without a host", "[survey]") {
  const std::string text = text_of(two_leaves("Mellanox Technologies Aggregation Node"));
  CHECK(says(text, "not counted           1 port of aggregation nodes"));
  CHECK(says(text, "no fabric of a cluster file is exactly this: its leaves differ"));
  CHECK(says(text_of(two_leaves("MT4129 ConnectX7   Mellanox Technologies")),
             "1 of them without a host's name"));
}

TEST_CASE("ibnetdiscover: each port of a node at a leaf of its own", "[survey]") {
  std::string text;
  for (const char* leaf : {"a", "b"})
    text += switch_of(
        leaf, port_to(1, "H-1", "n1 x") + port_to(2, "H-2", "n2 x") + port_to(30, "S-c", "c"));
  text += switch_of("c", port_to(1, "S-a", "a") + port_to(2, "S-b", "b"));
  CHECK(says(text_of(text),
             "fabric: {kind: rail_optimised, levels: 2, nodes_per_leaf: 2, oversubscription: 2}"));
}

TEST_CASE("switches of one level that are joined are no Clos fabric", "[survey]") {
  CHECK(says(text_of(switch_of("a", port_to(1, "H-1", "n1 x") + port_to(2, "S-b", "b")) +
                     switch_of("b", port_to(1, "H-2", "n2 x") + port_to(2, "S-a", "a"))),
             "are of one level and joined: no Clos fabric"));
}

TEST_CASE("Slurm's topology.conf: hostlists, levels, comments", "[survey]") {
  const std::string text = text_of(
      "# fabric\nSwitchName=l1 Nodes=n[1-4],x7\nswitchname=l2 nodes=n[05-08,10] # end\n"
      "SwitchName=top \\\n  Switches=l[1-2]\n");
  CHECK(says(text, "Slurm topology/tree: 10 nodes\n"));
  CHECK(says(text, "leaf switches         2, nodes: 5 each\n"));
  CHECK(says(text, "spine switches        1, switches below: 2\n"));
  CHECK(says(text, "nodes_per_leaf: 5"));
  CHECK(says(text, "not in the file: links between switches"));
}

TEST_CASE("Slurm's blocks and trees in one topology.yaml", "[survey]") {
  const std::string text = text_of(
      "---\n- topology: racks\n  cluster_default: true\n  block:\n    block_sizes: [4, 8]\n"
      "    blocks:\n      - {block: a, nodes: 't[1-4]'}\n      - {block: b, nodes: 't[5-7]'}\n"
      "- topology: wires\n  tree:\n    switches:\n      - {switch: s, nodes: 't[1-7]'}\n");
  CHECK(says(text, "Slurm topology/block \"racks\": 7 nodes\n"));
  CHECK(says(text, "blocks                2, nodes: 4, 3\n"));
  CHECK(says(text, "sizes to plan with    4, 8\n"));
  CHECK(says(text, "Slurm topology/tree \"wires\": 7 nodes\n"));
}

TEST_CASE("mistakes in a fabric's file have their line", "[survey]") {
  CHECK(says(problem_of("SwitchName=a Nodes=n[1-\n"), "f:1:1: error: 'n[1-' is no list of names"));
  CHECK(says(problem_of("SwitchName=a\nSwitchName=b Switches=c\n"),
             "f:2:1: error: switch 'b' has 'c' below it, which is no switch of this file"));
  CHECK(says(problem_of("SwitchName=a Nodes=n[1-99999999]\n"), "is no list of names"));
  CHECK(says(problem_of("- topology: a\n  tree:\n    switches: 5\n"), "f:3:15"));
  CHECK(says(problem_of("switchguid=1\nSwitch 4 nothing\n"), "f:2:1: error: a switch without"));
  CHECK(says(problem_of("hello\n"), "is no fabric"));
}
