// Hybrid models in files of Megatron-LM: read, refused, and written again.
#include "sim/interop/formats.hpp"
#include "sim/model/transformer.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
using test::flag_problems;
using test::from_flags;

namespace {

std::string hybrid(const std::string& more) {
  return "ARGS=( --hidden-size 1024 --num-attention-heads 16 --seq-length 2048\n"
         "--group-query-attention --num-query-groups 8 --position-embedding-type none\n"
         "--vocab-size 50257 --attention-dropout 0.0 --hidden-dropout 0.0 --disable-bias-linear\n"
         "--normalization RMSNorm --squared-relu --micro-batch-size 2 --bf16\n"
         "--untie-embeddings-and-output-weights --use-distributed-optimizer\n" +
         more + "\n)\n";
}

std::string delta(const std::string& more) {
  return "ARGS=( --num-layers 8 --hidden-size 1024 --num-attention-heads 8 --seq-length 2048\n"
         "--position-embedding-type rope --rotary-percent 0.25 --vocab-size 50257 --qk-layernorm\n"
         "--attention-dropout 0.0 --hidden-dropout 0.0 --disable-bias-linear --swiglu\n"
         "--normalization RMSNorm --micro-batch-size 2 --bf16 --use-distributed-optimizer\n"
         "--attention-output-gate --experimental-attention-variant gated_delta_net\n" +
         more + "\n)\n";
}

bool says(const std::vector<std::string>& problems, std::string_view part) {
  return problems.size() == 1 && problems.front().find(part) != std::string::npos;
}

Scenario with_model(const std::string& name) {
  Scenario scenario = load_scenario(test::source_dir() + "/scenarios/llama-3.1-70b-512-h100.yaml");
  Model model = load_model(test::source_dir() + "/models/" + name + ".yaml");
  run_with(scenario.framework, model);
  scenario.model = model;
  Layout& layout = scenario.layout;
  layout.layers_per_chunk.clear();
  layout.schedule = Schedule::one_f_one_b;
  layout.pipeline_parallel = layout.virtual_stages = layout.tensor_parallel = 1;
  layout.sequence_parallel = false;
  layout.data_parallel = 512;
  layout.global_batch = 512;
  layout.micro_batch = 1;
  layout.recompute = Recompute::none;
  layout.overlap_tensor_products = false;
  return scenario;
}

}  // namespace

TEST_CASE("a pattern of layers is read, with the sizes of Mamba-2", "[interop]") {
  const std::string spec =
      "--spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec ";
  const Imported job = from_flags(hybrid(
      spec +
      "--num-layers 2 --hybrid-layer-pattern M-M* --mamba-num-heads 64 --mamba-state-dim 256"));
  CHECK(job.shape.layers == 4);  // of the pattern
  CHECK(pattern_of(job.shape.hybrid.layers) == "M-M*");
  CHECK(job.shape.hybrid.mamba == Mamba2{.heads = 64, .head_dim = 64, .groups = 8, .state = 256});
  CHECK(job.shape.positions == Positions::none);
  // Without a number of heads: 2 x 1024 / 64.
  CHECK(from_flags(hybrid("--hybrid-override-pattern MM*-")).shape.hybrid.mamba.heads == 32);
  const Imported ratio =
      from_flags(hybrid("--is-hybrid-model --num-layers 24 --hybrid-attention-ratio 0.125"));
  CHECK(pattern_of(ratio.shape.hybrid.layers) == pattern_from_ratios(24, 0.125, 0));
  const Imported mixed =
      from_flags(hybrid("--hybrid-layer-pattern 'MEM*EM' --num-experts 8 --moe-router-topk 2 "
                        "--moe-ffn-hidden-size 512 --moe-token-dispatcher-type alltoall"));
  CHECK(mixed.shape.experts.feed_forward == 512);
  CHECK(mixed.shape.feed_forward == 0);
}

TEST_CASE("bars in a pattern are the ends of pipeline stages", "[interop]") {
  const Imported job =
      from_flags(hybrid("--hybrid-layer-pattern 'M-M|*-M-M' --pipeline-model-parallel-size 2"));
  CHECK(job.layout.layers_per_chunk == std::vector<int>{3, 5});
  CHECK(says(
      flag_problems(hybrid("--hybrid-layer-pattern 'M-|M|*-' --pipeline-model-parallel-size 2")),
      "has 3 segments"));
}

TEST_CASE("depths of multi-token prediction stand behind slashes, or apart", "[interop]") {
  const Imported job =
      from_flags(hybrid("--hybrid-layer-pattern 'M-*-/M*/M*' --mtp-use-repeated-layer"));
  CHECK(job.shape.layers == 4);
  CHECK(job.shape.mtp_layers == 2);
  CHECK(pattern_of(job.shape.mtp_kinds) == "M*");
  CHECK(job.shape.mtp_repeated);
  CHECK_FALSE(job.shape.mtp_sixteen_bits);
  const Imported apart =
      from_flags(hybrid("--hybrid-layer-pattern 'M-*-' --mtp-hybrid-override-pattern 'M*' "
                        "--mtp-num-layers 2 --mtp-use-repeated-layer"));
  CHECK(apart.shape == job.shape);
}

TEST_CASE("what is not modelled of hybrid models is refused", "[interop]") {
  CHECK(says(flag_problems(hybrid("--hybrid-layer-pattern MD*-")), "has a layer 'D'"));
  CHECK(says(flag_problems(hybrid("--hybrid-layer-pattern 'M*/MM/M*'")), "that differ: 'MM/M*'"));
  CHECK(says(flag_problems(hybrid("--hybrid-layer-pattern 'M*/E'")), "whose sizes"));
  CHECK(says(flag_problems(hybrid("--hybrid-layer-pattern 'M*' --mtp-num-layers 1")),
             "needs the letters"));
  CHECK(says(flag_problems(hybrid("--hybrid-layer-pattern M* --hybrid-override-pattern M*")),
             "old name"));
  CHECK(says(flag_problems(hybrid("--hybrid-layer-pattern M*E")), "\"experts\" is absent"));
  CHECK(says(flag_problems(hybrid("--hybrid-layer-pattern M* --spec a.b gdp_stack_spec")),
             "hybrid_stack_spec"));
  CHECK(says(flag_problems(hybrid("--num-layers 4 --is-hybrid-model")), "needs"));
  CHECK(says(flag_problems(hybrid("--hybrid-layer-pattern MM --recompute-granularity selective "
                                  "--recompute-modules mlp")),
             "has no mlp"));
}

TEST_CASE("gated delta nets stand in the layers that their row says", "[interop]") {
  const Imported job = from_flags(delta("--linear-attention-freq 4 --linear-num-key-heads 8"));
  const Hybrid& layers = job.shape.hybrid;
  CHECK(layers.delta_net == GatedDeltaNet{.key_heads = 8, .value_heads = 32});
  std::string row;
  for (const LayerKind& kind : layers.layers)
    row += kind.mixer == Mixer::gated_delta_net ? '1' : '0';
  CHECK(row == "11101110");
  CHECK(job.shape.attention_gate);
  CHECK(job.shape.rotary_share == 0.25);
  CHECK(from_flags(delta("--linear-attention-freq '([1]*3+[0]*1)*2'")).shape.hybrid.layers ==
        layers.layers);
  CHECK(says(flag_problems(delta("")), "--linear-attention-freq"));
}

TEST_CASE("hybrid models are written for Megatron-LM and read back", "[interop]") {
  const std::string name = GENERATE("nemotron-h-8b", "nemotron-3-nano", "qwen3-next-80b-a3b");
  CAPTURE(name);
  const Scenario scenario = with_model(name);
  const Exported made = export_scenario(scenario, Target::megatron, "");
  CHECK(made.text.find(name == "qwen3-next-80b-a3b"
                           ? "--linear-attention-freq"
                           : "--hybrid-layer-pattern") != std::string::npos);
}

TEST_CASE("layers of sizes of their own are no arguments of Megatron-LM", "[interop]") {
  REQUIRE_THROWS_AS(
      export_scenario(with_model("llama-3.3-nemotron-super-49b"), Target::megatron, ""),
      InputError);
}
