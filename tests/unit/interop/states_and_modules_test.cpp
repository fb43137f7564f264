// Modules that run again, and formats of optimizer states, in files of Megatron-LM.
#include "sim/interop/formats.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
using test::decoder;
using test::flag_problems;
using test::from_flags;

namespace {

using Lines = std::vector<std::string>;

Layout layout_of(const std::string& flags) {
  return from_flags(decoder(flags)).layout;
}

Exported written(const Layout& change, Target target) {
  Scenario scenario = load_scenario(test::source_dir() + "/scenarios/llama-3.1-70b-512-h100.yaml");
  scenario.layout.recompute = change.recompute;
  scenario.layout.recompute_modules = change.recompute_modules;
  scenario.layout.moment_dtype = change.moment_dtype;
  scenario.layout.second_moment_dtype = change.second_moment_dtype;
  scenario.layout.master_format = change.master_format;
  return export_scenario(scenario, target, "");
}

}  // namespace

TEST_CASE("modules of selective recomputation are read", "[interop]") {
  using enum RecomputeModule;
  const Layout layout = layout_of(
      "--recompute-granularity selective --recompute-modules mlp "
      "core_attn layernorm");
  CHECK(layout.recompute == Recompute::selective);
  CHECK(layout.recompute_modules == std::vector{mlp, core_attn, layernorm});
  const Imported routed = from_flags(decoder(
      "--num-experts 8 --moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall "
      "--disable-bias-linear --swiglu --moe-layer-recompute"));
  CHECK(routed.layout.recompute_modules == std::vector{core_attn, moe});
  const Layout bare = layout_of("--recompute-granularity selective");
  CHECK(bare.recompute == Recompute::selective);
  CHECK(bare.recompute_modules.empty());
  CHECK(layout_of("--recompute-modules mlp").recompute == Recompute::none);
  CHECK(flag_problems(decoder("--recompute-granularity selective --recompute-modules mhc")) ==
        Lines{"4:55: has mhc, which is not modelled; allowed: core_attn, mla_up_proj, mlp, moe, "
              "moe_act, shared_experts, layernorm"});
}

TEST_CASE("formats of the precision-aware optimizer are read", "[interop]") {
  const std::string aware = "--use-precision-aware-optimizer ";
  const Layout plain = layout_of(aware);
  CHECK(plain.master_format == MasterFormat::remainders);
  CHECK(plain.moment_bytes() == 8);
  CHECK(plain.gradient_dtype == DType::fp32);
  const Layout moments = layout_of(aware + "--exp-avg-dtype fp8 --exp-avg-sq-dtype bf16");
  CHECK(moments.moment_bytes() == 3);
  CHECK(moments.master_bytes() == 2);
  CHECK(layout_of(aware + "--main-params-dtype fp16").master_format == MasterFormat::fp16);
  CHECK(layout_of(aware + "--main-grads-dtype bf16").gradient_dtype == DType::bf16);
  CHECK(layout_of(aware + "--main-grads-dtype bf16").reduce_dtype == DType::bf16);
  CHECK(flag_problems(decoder(aware + "--main-params-dtype bf16")) ==
        Lines{"4:53: is 'bf16'; allowed: fp32, fp16"});
  CHECK(flag_problems(decoder("--exp-avg-dtype bf16")) ==
        Lines{"4:17: needs --use-precision-aware-optimizer"});
}

TEST_CASE("Muon is read and written", "[interop]") {
  CHECK(layout_of("--optimizer muon").optimizer == OptimizerKind::muon);
  CHECK(layout_of("--optimizer dist_muon --muon-num-ns-steps 5").zero_stage == 1);
  CHECK(flag_problems(decoder("--optimizer muon --muon-num-ns-steps 6")) ==
        Lines{"4:38: is 6; modelled: 5"});
  CHECK(flag_problems(decoder("--optimizer soap")).size() == 1);
}

TEST_CASE("recipes of 8-bit products are read", "[interop]") {
  const auto software = [](const std::string& flags) {
    return from_flags(decoder("--fp8-format hybrid " + flags)).framework.execution.eight_bit;
  };
  CHECK(software("") == EightBit::transformer_engine);
  CHECK(software("--fp8-recipe delayed") == EightBit::transformer_engine);
  CHECK(software("--fp8-recipe tensorwise") == EightBit::transformer_engine_tensorwise);
  CHECK(software("--fp8-recipe blockwise") == EightBit::transformer_engine_blockwise);
  CHECK(software("--fp8-recipe mxfp8") == EightBit::transformer_engine_mxfp8);
  CHECK(flag_problems(decoder("--fp8-format hybrid --fp8-recipe custom")) ==
        Lines{"4:34: is 'custom'; allowed: delayed, tensorwise, blockwise, mxfp8"});
  const Imported blocks =
      from_flags(decoder("--fp8-format e4m3 --fp8-recipe mxfp8 "
                         "--fp8-param-gather"));
  CHECK(blocks.layout.eight_bit_parameters);
}

TEST_CASE("modules and formats of states are written", "[interop]") {
  Layout layout;
  layout.recompute = Recompute::selective;
  layout.recompute_modules = {RecomputeModule::mlp, RecomputeModule::core_attn};
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(written(layout, Target::megatron).text, "--recompute-modules mlp core_attn\n"));
  CHECK(has(written(layout, Target::nemo).text, "recompute_modules: [mlp, core_attn]\n"));
  CHECK_THROWS(written(layout, Target::deepspeed));
  layout = {};
  layout.moment_dtype = DType::bf16;
  layout.second_moment_dtype = DType::fp32;
  layout.master_format = MasterFormat::remainders;
  const std::string text = written(layout, Target::megatron).text;
  CHECK(has(text, "--use-precision-aware-optimizer\n"));
  CHECK(has(text, "--exp-avg-dtype bf16\n"));
  CHECK(has(text, "--exp-avg-sq-dtype fp32\n"));
  CHECK_THROWS(written(layout, Target::nemo));
  CHECK_THROWS(written(layout, Target::deepspeed));
  layout.master_format = MasterFormat::fp32;  // Megatron-LM keeps remainders beside
  CHECK_THROWS(written(layout, Target::megatron));
}
