// Layouts that a search proposes under a framework run in that framework: each is written by its
// export, and read back.
#include "sim/search/framework_space.hpp"

#include <map>
#include <set>

#include "sim/base/input_error.hpp"
#include "sim/interop/handover.hpp"
#include "sim/search/candidates.hpp"
#include "tests/catch.hpp"
#include "tests/problems.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/search/small_search.hpp"

using namespace sim;

namespace {

SearchSpecification search_of(const std::string& framework, const std::string& model,
                              const std::string& search = "top: 3") {
  const std::string root = test::source_dir();
  const std::string layout = "sequence_length: 512, global_batch: 16";
  const std::string yaml = "model: " + root + "/models/" + model +
                           ".yaml\ncluster: {path: " + root +
                           "/topologies/dgx-h100.yaml, nodes: 2}\nlayout: {" + layout +
                           "}\nsearch: {" + search + "}\n" + framework;
  return load_search(ScenarioSources::of_text(yaml, root + "/s.yaml"));
}

// exported() exports the layout of every `stride`-th candidate, and counts them.
int exported(SearchSpecification asked, Target target, std::size_t stride) {
  const Candidates listed = list_candidates(asked);
  int count = 0;
  const Layout base = asked.workload.layout;
  for (std::size_t i = 0; i < listed.all.size(); i += stride) {
    const Layout layout = layout_of(asked, listed, static_cast<std::uint32_t>(i));
    CAPTURE(describe(layout), i);
    asked.workload.layout = layout;
    try {
      CHECK_FALSE(export_scenario(asked.workload, target, "").text.empty());
    } catch (const InputError& error) {
      FAIL(error.problems().front().what);
    }
    asked.workload.layout = base;
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("every layout that a search lists under a framework can be exported", "[search]") {
  struct Case {
    const char* framework;
    const char* model;
    Target target;
  };
  // The strides are prime, so that all dimensions are met.
  for (const Case& one :
       {Case{"framework: {name: megatron}\n", "llama-3.1-8b", Target::megatron},
        Case{"framework: {name: megatron_bridge}\n", "llama-3.1-8b", Target::nemo},
        Case{"framework: {name: torchtitan}\n", "llama-3.1-8b", Target::torchtitan},
        Case{"framework: {name: fsdp2}\n", "llama-3.1-8b", Target::torchtitan},
        Case{"framework: {name: deepspeed}\n", "llama-3.1-8b", Target::deepspeed},
        Case{"framework: {name: megatron_deepspeed}\n", "llama-3.1-8b", Target::deepspeed},
        Case{"framework: {name: megatron}\n", "mixtral-8x7b", Target::megatron}}) {
    CAPTURE(one.framework, one.model);
    const std::string name = one.framework;
    // FSDP2 is not torchtitan, whose tensor parallelism splits the sequence: FSDP alone here.
    const std::string only =
        name.find("fsdp2") != std::string::npos
            ? "tensor_parallel: 1, pipeline_parallel: 1, placement: [tp-cp-dp-pp], recompute: "
              "[none, full]"
            : "top: 3";
    CHECK(exported(search_of(one.framework, one.model, only), one.target, 37) > 0);
  }
}

TEST_CASE("a search under torchtitan replicates or shards all", "[search]") {
  const SearchSpecification asked = search_of("framework: {name: torchtitan}\n", "llama-3.1-8b");
  const Candidates listed = list_candidates(asked);
  std::set<int> stages;
  std::set<Recompute> recomputes;
  for (std::uint32_t i = 0; i < listed.all.size(); ++i) {
    const Layout layout = layout_of(asked, listed, i);
    stages.insert(layout.zero_stage);
    recomputes.insert(layout.recompute);
    if (layout.tensor_parallel > 1) REQUIRE(layout.sequence_parallel);
  }
  CHECK(stages == std::set<int>{0, 3});
  CHECK(recomputes == std::set<Recompute>{Recompute::none, Recompute::operators, Recompute::full});
  CHECK(listed.refused[static_cast<std::size_t>(Refusal::framework)] > 0);
}

TEST_CASE("a value that the framework never runs is refused where it is named", "[search]") {
  const auto problem = [](const std::string& framework, const std::string& search) {
    try {
      search_of(framework, "llama-3.1-8b", search);
    } catch (const InputError& error) {
      return error.problems().front().what;
    }
    return std::string{};
  };
  CHECK(problem("framework: {name: torchtitan}\n", "zero_stage: [1, 3]") ==
        "zero_stage 1 is not torchtitan's; allowed: 0, 3");
  CHECK(problem("framework: {name: megatron}\n", "schedule: gpipe") ==
        "schedule gpipe is not megatron's; allowed: 1f1b, interleaved");
  CHECK(problem("", "framework: deepspeed, schedule: [interleaved]") ==
        "schedule interleaved is not deepspeed's; allowed: 1f1b");
  CHECK(problem("", "schedule: gpipe").empty());  // no framework is named
}
