// What an allocation costs: against the packed one, by the order of its ranks, over draws and
// hashes.
#include "sim/sweep/allocation_study.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/input_error.hpp"
#include "sim/base/table_text.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

// Nodes of 4 leaves of a fat tree over-subscribed 2:1.
ScenarioInput job_on(const std::string& where) {
  const std::string root = test::source_dir();
  return {root + "/job.yaml",
          "model: " + root + "/models/gpt2.yaml\ncluster: {path: " + root +
              "/topologies/dgx-h100-2to1.yaml, change: {nodes: 16}" + where +
              "}\nlayout: {sequence_length: 1024, global_batch: 256, micro_batch: 1}\n"};
}

AllocationStudy study(const std::string& where, const AllocationQuestion& question = {}) {
  return study_allocation(job_on(where), {}, question);
}

Duration step_of(const std::string& where) {
  return forecast_point(job_on(where), {}, LayoutMode::fixed).step_time;
}

std::string problem_of(const std::string& where) {
  return forecast_point(job_on(where), {}, LayoutMode::fixed).problem;
}

}  // namespace

TEST_CASE("a packed allocation takes the time of a machine of its size", "[sweep]") {
  for (const int nodes : {1, 3, 4, 8}) {
    const std::string n = std::to_string(nodes);
    const std::string root = test::source_dir();
    const ScenarioInput small{
        root + "/job.yaml",
        "model: " + root + "/models/gpt2.yaml\ncluster: {path: " + root +
            "/topologies/dgx-h100-2to1.yaml, nodes: " + n +
            "}\nlayout: {sequence_length: 1024, global_batch: 192, micro_batch: 1}\n"};
    const Duration alone = forecast_point(small, {}, LayoutMode::fixed).step_time;
    CHECK(forecast_point(small, {"cluster.allocation.kind=packed"}, LayoutMode::fixed).step_time ==
          alone);
    CHECK(forecast_point(small, {"cluster.node_list=[0-" + std::to_string(nodes - 1) + "]"},
                         LayoutMode::fixed)
              .step_time == alone);
  }
}

TEST_CASE("nodes at other leaves take longer, and other names of leaves do not", "[sweep]") {
  const Duration packed = step_of(", node_list: \"[0-3]\"");
  CHECK(step_of(", node_list: \"[8-11]\"") == packed);
  CHECK(step_of(", node_list: \"0,4,8,12\"") > packed);
  CHECK(step_of(", node_list: \"0,4,8,12\"") == step_of(", node_list: [3, 6, 9, 13]"));
}

TEST_CASE("a scenario says where its nodes are, or is told what is wrong", "[sweep]") {
  CHECK(problem_of(", nodes: 3, node_list: \"[0-3]\"").find("nodes is 3, but node_list names 4") !=
        std::string::npos);
  CHECK(problem_of(", node_list: \"[0-16]\"").find("allowed: 0 to 15") != std::string::npos);
  CHECK(problem_of(", node_list: \"1,2,1\"").find("twice") != std::string::npos);
  CHECK(problem_of(", node_list: []").find("names no node") != std::string::npos);
  CHECK(problem_of(", node_list: \"[0-3]\", allocation: {kind: packed}").find("draws nodes") !=
        std::string::npos);
  CHECK(problem_of(", nodes: 4, allocation: {kind: fragmented}").find("needs occupancy") !=
        std::string::npos);
  CHECK(problem_of(", nodes: 4, allocation: {kind: random, occupancy: 0.5}")
            .find("goes with kind: fragmented") != std::string::npos);
  CHECK(problem_of(", nodes: 8, allocation: {kind: fragmented, occupancy: 0.75}")
            .find("fewer than the 8 of this job") != std::string::npos);
  CHECK(problem_of(", nodes: 4, allocation: {kind: fragmented, occupancy: 0.5, seed: 3}").empty());
}

TEST_CASE("the study compares an allocation with the packed one", "[sweep]") {
  const AllocationStudy made = study(", node_list: \"n[0,4,8,12,1,5,9,13]\"");
  CHECK(made.nodes == 8);
  CHECK(made.machine_nodes == 16);
  CHECK(made.leaves == 4);
  CHECK(made.packed_leaves == 2);
  CHECK(made.packed.step_time == step_of(", nodes: 8, allocation: {kind: packed}"));
  CHECK(made.own.step_time == step_of(", node_list: \"n[0,4,8,12,1,5,9,13]\""));
  CHECK(made.own.step_time > made.packed.step_time);
  REQUIRE(made.orders.size() > 1);
  CHECK(std::ranges::is_sorted(made.orders, {},
                               [](const OrderedStep& one) { return one.step.step_time; }));
  // A ring that visits leaf after leaf crosses the fabric less often.
  CHECK(made.best().step_time < made.own.step_time);
  CHECK(made.best_nodes.size() == 8);
  CHECK_FALSE(made.loads.empty());
  CHECK(allocation_table(made).find("Fastest order") != std::string::npos);
  const auto json = nlohmann::json::parse(allocation_json(made));
  CHECK(json["packed"]["step_time_s"] == in_seconds(made.packed.step_time));
}

TEST_CASE("a local search keeps swaps that make the step shorter", "[sweep]") {
  const std::string where = ", node_list: \"[0,4,8,12,1,5,9,13]\"";
  const AllocationStudy plain = study(where);
  const AllocationStudy searched = study(where, {.swaps = 16});
  CHECK(searched.best().step_time <= plain.best().step_time);
}

TEST_CASE("draws and hashes are spreads of forecasts by seed", "[sweep]") {
  const AllocationStudy made = study(", nodes: 6, allocation: {kind: packed}",
                                     {.draws = 5, .occupancy = 0.5, .ecmp_seeds = 5});
  REQUIRE(made.drawn);
  REQUIRE(made.ecmp);
  CHECK(made.drawn->steps[2] ==
        step_of(", nodes: 6, allocation: {kind: fragmented, occupancy: 0.5, seed: 3}"));
  CHECK(made.ecmp->steps.size() == 5);
  CHECK(made.drawn->least <= made.drawn->median);
  CHECK(made.drawn->median <= made.drawn->most);
  // Adaptive routing is the limit of static ECMP.
  CHECK(made.ecmp->least >= made.spread->step_time);
  CHECK(made.spread->step_time == made.own.step_time);
  CHECK_THROWS_AS(
      study_allocation(job_on(", nodes: 6"), {"cluster.path=h100-roce"}, {.ecmp_seeds = 1}),
      InputError);
}

TEST_CASE("a rank file names a node for each rank", "[sweep]") {
  const std::vector<std::string> nodes{"b", "a"};
  CHECK(rank_file(nodes, 2, 3, Launcher::srun) == "b\nb\na\n");
  CHECK(rank_file(nodes, 2, 3, Launcher::mpirun) == "b slots=2\na slots=1\n");
}
