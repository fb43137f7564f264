// Single columns of a table of runs, as model and layout.
#include "sim/memory/memory.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/rows/run_cells.hpp"

namespace {

using namespace sim;
using test::cells_with, test::reason;

TEST_CASE("heads may be wider or narrower than hidden / heads", "[rows]") {
  // 4 layers of 4 h f and 4 h a d in 16 heads of 64; those of 128 double the latter.
  const auto parameters = [](const char* width) {
    return run_model(cells_with({{"model", "llama"}, {"head_dim", width}})).parameters();
  };
  CHECK(parameters("64") == parameters(""));
  CHECK(parameters("128") - parameters("64") == 4LL * 4 * 1024 * 16 * 64);
  CHECK(reason({{"heads", "48"}, {"kv_heads", "48"}, {"head_dim", "32"}}).empty());
  CHECK(reason({{"head_dim", "0"}}) == "head_dim is 0");
}

TEST_CASE("embeddings are tied and activations dropped as the row says, else as the family",
          "[rows]") {
  CHECK(run_model(cells_with({})).tied_embedding);
  CHECK_FALSE(run_model(cells_with({{"tied_embeddings", "False"}})).tied_embedding);
  CHECK(run_model(cells_with({{"model", "llama"}, {"tied_embeddings", "True"}})).tied_embedding);
  const auto masks = [](const char* rate) {
    const Scenario run = run_scenario(cells_with({{"dropout", rate}}), sim::test::source_dir());
    return memory_use(make_plan(run.model, run.layout).programs.front()).peak;
  };
  CHECK(masks("0") < masks("0.1"));
  CHECK(masks("") == masks("0.1"));
  CHECK(reason({{"dropout", "1"}}) == "dropout is 1; allowed: 0 to less than 1");
}

TEST_CASE("Qwen's families differ from Llama's by biases and norms of heads", "[rows]") {
  const auto parameters = [](const char* name) {
    return run_model(cells_with({{"model", name}, {"ffn", "2752"}})).parameters();
  };
  CHECK(parameters("Qwen2.5-72B") - parameters("llama") == 4LL * 3 * 1024);
  CHECK(parameters("qwen3-8b") - parameters("llama") == 4LL * 2 * 64);
  CHECK(parameters("mixtral") == parameters("llama"));
}

TEST_CASE("a family that columns cannot describe is not taken for another", "[rows]") {
  CHECK(reason({{"model", "gpt-oss-20b"}}).starts_with("gpt-oss in the name of the model: "));
  CHECK(reason({{"model", "Gemma-2-9B"}}).starts_with("gemma in the name of the model: "));
  CHECK(reason({{"model", "OLMo-7B"}, {"ffn", "2752"}}).empty());
}

TEST_CASE("the layers of every chunk may be listed", "[rows]") {
  const auto split = [](const char* layers) {
    return run_layout(cells_with({{"layers_per_chunk", layers}})).layers_per_chunk;
  };
  CHECK(split("1 3") == std::vector<int>{1, 3});
  CHECK(split("").empty());
  CHECK(reason({{"layers_per_chunk", "1 3"}}).empty());
  CHECK_FALSE(reason({{"layers_per_chunk", "1 2"}}).empty());
  CHECK_FALSE(reason({{"layers_per_chunk", "2 1 1"}}).empty());
  CHECK(reason({{"layers_per_chunk", "3 x"}}).starts_with("layers_per_chunk is '3 x'; allowed:"));
  CHECK(reason({{"layers_per_chunk", "5 -1"}}).starts_with("layers_per_chunk is '5 -1'; allowed:"));
}

TEST_CASE("a schedule is found by its name, and decides how messages go", "[rows]") {
  const auto layout = [](const char* schedule, const char* overlap = "", const char* vpp = "1") {
    return run_layout(cells_with({{"pp_schedule", schedule}, {"overlap", overlap}, {"vpp", vpp}}));
  };
  CHECK(layout("1F1B").schedule == Schedule::one_f_one_b);
  CHECK(layout("GPipe").schedule == Schedule::gpipe);
  CHECK(layout("zb-h1").schedule == Schedule::zb_h1);
  CHECK(layout("zb-h1").overlap_pipeline);
  CHECK_FALSE(layout("1F1B", "overlap_p2p_comm").overlap_pipeline);
  CHECK_FALSE(layout("interleaved-1F1B", "", "2").overlap_pipeline);
  CHECK(layout("interleaved-1F1B", "overlap_p2p_comm", "2").overlap_pipeline);
  CHECK_FALSE(layout("interleaved-1F1B", "overlap_p2p_comm False", "2").overlap_pipeline);
  CHECK(
      reason({{"pp_schedule", "ZB-2p"}}) ==
      "pp_schedule is 'ZB-2p', which is not known; allowed: 1F1B, interleaved 1F1B, gpipe, zb-h1, "
      "zb-v, v-half, v-min, interleaved-zb, dualpipe-v");
}

TEST_CASE("parameters may be waited for and gradients not", "[rows]") {
  const auto layout = [](const char* overlap) {
    return run_layout(cells_with({{"dist_optimizer", "True"}, {"overlap", overlap}}));
  };
  CHECK(layout("parameters not overlapped").overlap_gradients);
  CHECK_FALSE(layout("parameters not overlapped").overlap_parameters);
  CHECK_FALSE(layout("gradients not overlapped").overlap_gradients);
  CHECK(layout("gradients not overlapped").overlap_parameters);
  CHECK_FALSE(layout("gradients and parameters not overlapped").overlap_gradients);
  CHECK_FALSE(layout("gradients not overlapped; parameters not overlapped").overlap_gradients);
}

TEST_CASE("every k-th layer may be recomputed, and shards kept in groups", "[rows]") {
  const Layout layout = run_layout(cells_with({{"recompute", "full, every 2 layers"}}));
  CHECK(layout.recompute == Recompute::full);
  CHECK(layout.recompute_every == 2);
  CHECK(run_layout(cells_with({{"recompute", "full"}})).recompute_every == 1);
  const auto group = [](const char* strategy) {
    return run_layout(cells_with({{"shard_strategy", strategy}, {"zero_stage", "3"}})).shard_group;
  };
  CHECK(group("FSDP HYBRID_SHARD, groups of 8") == 8);
  CHECK(group("FSDP FULL_SHARD") == 0);
  CHECK(reason({{"shard_strategy", "HSDP"}}) == "hybrid sharding without the size of its groups");
  CHECK(reason({{"shard_strategy", "HSDP, groups of 0"}}) ==
        "hybrid sharding without the size of its groups");
}

TEST_CASE("8-bit parameters are told by their recipe or by name", "[rows]") {
  const auto eight = [](const char* precision) {
    return run_layout(cells_with({{"precision", precision}})).eight_bit_parameters;
  };
  CHECK(eight("fp8 (MXFP8, fp8 parameters gathered)"));
  CHECK_FALSE(eight("fp8 (MXFP8)"));
  CHECK_FALSE(eight("bf16, fp8 parameters"));
}

}  // namespace
