// Which layouts a search lists: the legal ones, all of them, each once.
#include "sim/search/candidates.hpp"

#include <array>
#include <map>
#include <set>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/search/small_search.hpp"

using namespace sim;
using test::small_search;

namespace {

std::string first_problem(const std::string& search) {
  try {
    small_search(search);
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return "none";
}

}  // namespace

TEST_CASE("every candidate is legal, and no two are the same layout", "[search]") {
  const SearchSpecification asked = small_search("top: 3");
  const Candidates listed = list_candidates(asked);
  REQUIRE(listed.all.size() > 1000);
  std::set<std::string> seen;
  for (std::uint32_t i = 0; i < listed.all.size(); ++i) {
    const Layout layout = layout_of(asked, listed, i);
    REQUIRE(layout_problems(layout, asked.workload.model).empty());
    REQUIRE(layout.world_size() == 8);
    REQUIRE(seen.insert(describe(layout)).second);
  }
}

TEST_CASE("modules that run again, and Muon, stay with what goes with them", "[search]") {
  SearchSpecification asked = small_search("top: 3");
  asked.workload.layout.recompute = Recompute::selective;
  asked.workload.layout.recompute_modules = {RecomputeModule::mlp};
  asked.workload.layout.optimizer = OptimizerKind::muon;
  const Candidates listed = list_candidates(asked);
  int with_modules = 0, sharded = 0;
  for (std::uint32_t i = 0; i < listed.all.size(); ++i) {
    const Layout layout = layout_of(asked, listed, i);
    REQUIRE(layout_problems(layout, asked.workload.model).empty());
    const bool selective = layout.recompute == Recompute::selective;
    REQUIRE(layout.recompute_modules.empty() != selective);
    REQUIRE(layout.zero_stage < 2);
    with_modules += selective ? 1 : 0;
    sharded += layout.zero_stage;
  }
  CHECK(with_modules > 0);
  CHECK(sharded > 0);
}

TEST_CASE("messages of a candidate overlap as the framework does under its schedule", "[search]") {
  const auto count = [](const char* layout, const char* framework, Schedule schedule,
                        bool overlap) {
    const SearchSpecification asked = small_search(
        "pipeline_parallel: 2, zero_stage: 0, recompute: none, schedule: [1f1b, "
        "interleaved, zb-h1, zb-v]",
        layout, framework);
    const Candidates listed = list_candidates(asked);
    int found = 0;
    for (std::uint32_t i = 0; i < listed.all.size(); ++i) {
      const Layout made = layout_of(asked, listed, i);
      if (made.schedule == schedule && made.overlap_pipeline == overlap) ++found;
    }
    return found;
  };
  const char* batch = "global_batch: 16";
  CHECK(count(batch, "", Schedule::one_f_one_b, false) > 0);
  CHECK(count(batch, "", Schedule::one_f_one_b, true) == 0);
  CHECK(count(batch, "", Schedule::interleaved, true) > 0);
  CHECK(count(batch, "", Schedule::interleaved, false) == 0);
  CHECK(count(batch, "", Schedule::zb_h1, true) > 0);
  CHECK(count(batch, "", Schedule::zb_v, true) > 0);
  const char* torch = "framework: {name: pytorch}\n";
  CHECK(count(batch, torch, Schedule::interleaved, false) > 0);
  CHECK(count(batch, torch, Schedule::interleaved, true) == 0);
  // A key of the scenario is that of all candidates.
  const char* asks = "global_batch: 16, overlap: {pipeline: true}";
  CHECK(count(asks, "", Schedule::one_f_one_b, true) > 0);
  CHECK(count(asks, "", Schedule::one_f_one_b, false) == 0);
  const char* refuses = "global_batch: 16, overlap: {pipeline: false}";
  CHECK(count(refuses, "", Schedule::interleaved, false) > 0);
  CHECK(count(refuses, "", Schedule::zb_v, true) + count(refuses, "", Schedule::zb_v, false) == 0);
}

// Every product of 8 ranks by brute force, dimension by dimension.
TEST_CASE("the list has every legal split of the ranks, batch and stages", "[search]") {
  const SearchSpecification asked = small_search(
      "zero_stage: 0, sequence_parallel: false, recompute: none, schedule: 1f1b, placement: "
      "tp-cp-dp-pp");
  const Candidates listed = list_candidates(asked);
  std::size_t legal = 0;
  for (int tensor = 1; tensor <= 8; ++tensor)
    for (int stages = 1; stages <= 8; ++stages)
      for (int data = 1; data <= 8; ++data)
        for (int micro_batch = 1; micro_batch <= 16; ++micro_batch) {
          if (tensor * stages * data != 8) continue;
          Layout layout = asked.workload.layout;
          layout.tensor_parallel = tensor;
          layout.pipeline_parallel = stages;
          layout.data_parallel = data;
          layout.micro_batch = micro_batch;
          layout.layers_per_chunk = split_layers(asked.workload.model, stages).layers;
          if (layout_problems(layout, asked.workload.model).empty()) ++legal;
        }
  CHECK(listed.all.size() == legal);
}

TEST_CASE("a dimension that is named takes these values alone", "[search]") {
  const SearchSpecification asked = small_search(
      "tensor_parallel: [2, 4], pipeline_parallel: 1, micro_batch: 1, zero_stage: 3, "
      "shard_group: [0, 2], recompute: full, recompute_every: 2");
  const Candidates listed = list_candidates(asked);
  REQUIRE(!listed.all.empty());
  for (std::uint32_t i = 0; i < listed.all.size(); ++i) {
    const Layout layout = layout_of(asked, listed, i);
    CHECK((layout.tensor_parallel == 2 || layout.tensor_parallel == 4));
    CHECK(layout.pipeline_parallel == 1);
    CHECK(layout.zero_stage == 3);
    CHECK(layout.recompute_every == 2);
  }
}

TEST_CASE("ways to share a sequence are compared where it is shared", "[search]") {
  const std::string rest =
      "pipeline_parallel: 1, micro_batch: 1, zero_stage: 0, schedule: 1f1b, recompute: none, "
      "sequence_parallel: false, placement: tp-cp-dp-pp, context_parallel: [1, 2, 4]";
  const auto count = [&](const std::string& search, const std::string& layout) {
    const SearchSpecification asked = small_search(search + rest, "global_batch: 16" + layout);
    const Candidates listed = list_candidates(asked);
    std::map<ContextExchange, int> found;
    for (std::uint32_t i = 0; i < listed.all.size(); ++i) {
      const Layout one = layout_of(asked, listed, i);
      if (one.context_parallel > 1) ++found[one.context_exchange];
    }
    return found;
  };
  using enum ContextExchange;
  // tp 1, 2, 4 with cp 2; 1, 2 with cp 4: of 12 heads, 4 x 2 ranks are too many.
  CHECK(count("", "") == std::map<ContextExchange, int>{{ring, 5}});
  CHECK(count("", ", context_exchange: all_to_all") ==
        std::map<ContextExchange, int>{{all_to_all, 3}});
  CHECK(count("context_exchange: [ring, all_to_all], ", "") ==
        std::map<ContextExchange, int>{{ring, 5}, {all_to_all, 3}});
}

TEST_CASE("experts are spread over what divides them and their ranks", "[search]") {
  const auto listed = [](const std::string& search) {
    const std::string path = test::temporary_path("mixture.yaml").string();
    const std::string root = sim::test::source_dir();
    std::ofstream{path} << "model: " << root
                        << "/models/mixtral-8x7b.yaml\ncluster: {path: " << root
                        << "/topologies/dgx-h100.yaml, nodes: 2}\nlayout: {sequence_length: 4096, "
                           "global_batch: 16}\nsearch: {pipeline_parallel: 1, recompute: none, "
                           "micro_batch: 1"
                        << search << "}\n";
    const SearchSpecification asked = load_search(ScenarioSources{path});
    std::filesystem::remove(path);
    const Candidates all = list_candidates(asked);
    std::set<std::array<int, 3>> found;
    std::set<int> stages;
    for (std::uint32_t i = 0; i < all.all.size(); ++i) {
      const Layout layout = layout_of(asked, all, i);
      CHECK(layout_problems(layout, asked.workload.model).empty());
      stages.insert(layout.zero_stage);
      CHECK(layout.sequence_parallel == (layout.tensor_parallel > 1));
      found.insert({layout.tensor_parallel, layout.expert_parallel, layout.expert_tensor()});
    }
    CHECK(stages == std::set{0, 1, 2, 3});
    return found;
  };
  using Found = std::set<std::array<int, 3>>;
  CHECK(listed(", tensor_parallel: 1") == Found{{1, 1, 1}, {1, 2, 1}, {1, 4, 1}, {1, 8, 1}});
  CHECK(listed(", tensor_parallel: 4") ==
        Found{{4, 1, 1}, {4, 2, 1}, {4, 4, 1}, {4, 8, 1}, {4, 1, 4}, {4, 2, 4}, {4, 4, 4}});
  CHECK(listed(", tensor_parallel: 4, expert_parallel: [4, 16], expert_tensor_parallel: 2") ==
        Found{{4, 4, 2}});
}

TEST_CASE("layers that do not divide leave the last and the first chunks one short", "[search]") {
  const SearchSpecification asked = small_search("top: 1");  // 12 layers
  CHECK(split_layers(asked.workload.model, 4).layers.empty());
  CHECK(split_layers(asked.workload.model, 8).layers == std::vector{1, 1, 1, 2, 2, 2, 2, 1});
  CHECK(split_layers(asked.workload.model, 14).layers ==
        std::vector{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0});
  CHECK(!split_layers(asked.workload.model, 15).possible);
}

TEST_CASE("what the section search gets wrong is said where it stands", "[search]") {
  CHECK(first_problem("top: 3") == "none");
  CHECK(first_problem("tops: 3") == "unknown key 'tops'; did you mean 'top'?");
  CHECK(first_problem("memory_margin: -1") == "memory_margin is -1; allowed: 0 to 10");
  CHECK(first_problem("memory_margin: 5%") ==
        "'5%' has the unknown unit '%'; allowed: B, KB, MB, GB, TB, PB, KiB, MiB, GiB, TiB, PiB");
  CHECK(first_problem("memory_margin: 80 GiB") ==
        "is a fraction of what a layout needs (0.05; 0: none), or an amount below the 79.6 GiB of "
        "the device");
  CHECK(first_problem("memory_margin: [1]").find("memory_margin is a list; expected") == 0);
  CHECK(first_problem("schedule: 1f2b") ==
        "'1f2b' is none of 1f1b, gpipe, interleaved, zb-h1, zb-v, v-half, v-min, interleaved-zb, "
        "dualpipe-v");
  CHECK(first_problem("zero_stage: [0, 4]") == "zero_stage[1] is 4; allowed: 0 to 3");
  CHECK(first_problem("micro_batch: []") == "is an empty list: leave the key out for all values");
  CHECK(first_problem("placement: tp-dp-pp") ==
        "'tp-dp-pp' is no order of ranks; write tp, cp, dp and pp once each, fastest first: "
        "tp-cp-dp-pp");
  CHECK(first_problem("expert_parallel: 2") == "gpt2 has no experts");
  CHECK(first_problem("gpus: 16") == "gpus is 16; allowed: 1 to 8");
  CHECK_THROWS_AS(small_search("top: 1", "global_batch: 16", "simulation: {jitter: 0.1}\n"),
                  InputError);
}

TEST_CASE("cut products keep tensor ranks on a node, whatever the order of ranks", "[search]") {
  SearchSpecification asked = small_search(
      "zero_stage: 0, recompute: none, schedule: 1f1b, placement: [tp-cp-dp-pp, dp-tp-cp-pp]",
      "global_batch: 16, overlap: {tensor_products: true}");
  asked.workload.cluster = Cluster::load(sim::test::source_dir() + "/topologies/dgx-h100.yaml", 2);
  asked.space.gpus = {16};
  const Candidates listed = list_candidates(asked);
  std::set<std::pair<int, bool>> tensor;
  for (std::uint32_t i = 0; i < listed.all.size(); ++i) {
    const Layout layout = layout_of(asked, listed, i);
    if (layout.tensor_parallel == 1) continue;
    const bool first = layout.placement.front() == Dimension::tensor;
    tensor.insert({layout.tensor_parallel, first});
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      RankCoordinates at = coordinates_of(layout, RankId{static_cast<std::uint32_t>(rank)});
      at.tensor = 0;
      REQUIRE(rank_of(layout, at).value / 8 == static_cast<std::uint32_t>(rank) / 8);
    }
  }
  CHECK(tensor.contains({4, true}));
  CHECK(tensor.contains({4, false}));  // two replicas between
  CHECK(listed.refused[static_cast<std::size_t>(Refusal::nodes)] > 0);
}

TEST_CASE("what lies on the host is a dimension, with all keys of what is not there gone",
          "[search]") {
  const SearchSpecification asked = small_search(
      "offload: [none, optimizer, activations, optimizer+parameters], placement: tp-cp-dp-pp",
      "global_batch: 16, offload: {optimizer: cpu, fraction: 0.5, activations: cpu, layers: 2}");
  const Candidates listed = list_candidates(asked);
  std::map<OffloadParts, int> found;
  for (std::uint32_t i = 0; i < listed.all.size(); ++i) {
    const Layout layout = layout_of(asked, listed, i);
    REQUIRE(layout_problems(layout, asked.workload.model).empty());
    ++found[offload_parts(layout)];
    REQUIRE(layout.offload_fraction == (layout.offloads() ? 0.5 : 1));
    REQUIRE(layout.offload_layers == (layout.offloads_activations() ? 2 : 0));
  }
  CHECK(found[OffloadParts::none] > found[OffloadParts::activations]);  // no split backward pass
  CHECK(found[OffloadParts::none] == found[OffloadParts::optimizer]);
  CHECK(found[OffloadParts::activations] > 0);
  // The host updates parameters that lie there as a whole: not with a fraction.
  CHECK(found[OffloadParts::optimizer_and_parameters] == 0);
  CHECK(listed.refused[static_cast<std::size_t>(Refusal::offload)] > 0);
}

TEST_CASE("parameters on the host are ZeRO-3's, also of one rank", "[search]") {
  const SearchSpecification asked =
      small_search("gpus: [1, 2], offload: optimizer+parameters", "global_batch: 16");
  const Candidates listed = list_candidates(asked);
  REQUIRE_FALSE(listed.all.empty());
  std::set<int> gpus;
  for (std::uint32_t i = 0; i < listed.all.size(); ++i) {
    const Layout layout = layout_of(asked, listed, i);
    REQUIRE(layout_problems(layout, asked.workload.model).empty());
    REQUIRE(layout.zero_stage == 3);
    REQUIRE(layout.pipeline_parallel == 1);
    gpus.insert(layout.world_size());
  }
  CHECK(gpus == std::set<int>{1, 2});
}

TEST_CASE("a key without a bound is refused with the reason", "[search]") {
  try {
    small_search("top: 1",
                 "global_batch: 16, packing: {lengths: lognormal, mean: 100, sigma: 1, method: "
                 "pad_to_longest}");
    FAIL("no error");
  } catch (const InputError& error) {
    CHECK_THAT(std::string{error.what()}, contains_text("micro-batches of different lengths"));
  }
}
