// Adapters, NVFP4, layers in 16 bits and windows of attention, in files of Megatron-LM and
// Megatron-Bridge.
#include "sim/interop/bridge/bridge_recipe.hpp"
#include "sim/interop/formats.hpp"
#include "sim/model/transformer.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
using test::decoder;
using test::flag_problems;
using test::from_flags;
using test::from_yaml;

namespace {

using Lines = std::vector<std::string>;

std::string recipe(const std::string& more) {
  return "model: {num_layers: 12, hidden_size: 768, num_attention_heads: 12, vocab_size: 50304,\n"
         "  seq_length: 1024, position_embedding_type: rope}\n"
         "train: {micro_batch_size: 1, global_batch_size: 8}\n" +
         more;
}

}  // namespace

TEST_CASE("NVFP4 is read", "[interop]") {
  const Layout flags = from_flags(decoder("--fp4-format e2m1 --fp4-param-gather")).layout;
  CHECK(flags.compute_dtype == DType::nvfp4);
  CHECK(flags.activation_dtype == DType::bf16);
  CHECK(flags.eight_bit_parameters);
  CHECK(flag_problems(decoder("--fp4-format e2m1 --fp4-recipe mine")) ==
        Lines{"4:32: is 'mine'; modelled: nvfp4"});
  CHECK(flag_problems(decoder("--fp4-format e2m1 --fp8-format hybrid")).size() == 1);
  const Layout bridge = from_yaml(recipe("mixed_precision: bf16_with_nvfp4_mixed\n"), 8).layout;
  CHECK(bridge.compute_dtype == DType::nvfp4);
}

TEST_CASE("layers at the ends in 16 bits are read, one each by default", "[interop]") {
  const std::string eight = "--fp8-format hybrid --first-last-layers-bf16 ";
  const Layout one = from_flags(decoder(eight)).layout;
  CHECK(one.first_bf16_layers == 1);
  CHECK(one.last_bf16_layers == 1);
  const Layout many = from_flags(decoder(eight + "--num-layers-at-end-in-bf16 4")).layout;
  CHECK(many.last_bf16_layers == 4);
  CHECK(from_flags(decoder("--first-last-layers-bf16")).layout.first_bf16_layers == 0);
  CHECK(flag_problems(decoder(eight + "--num-layers-at-end-in-bf16 24")).size() == 1);
  const Layout bridge = from_yaml(recipe("mixed_precision: bf16_with_fp8_current_scaling_mixed\n"
                                         "ddp: {use_distributed_optimizer: true}\n"),
                                  8)
                            .layout;
  CHECK(bridge.first_bf16_layers == 1);
}

TEST_CASE("adapters of Megatron-Bridge are read, not passed over", "[interop]") {
  const Layout named = from_yaml(recipe("peft: lora\n"), 8).layout;
  CHECK(named.lora_rank == 32);
  CHECK(named.lora_modules == Layout{}.lora_modules);
  const Layout said =
      from_yaml(recipe("peft: {_target_: megatron.bridge.peft.lora.LoRA, dim: 16, alpha: 32,\n"
                       "  target_modules: [linear_qkv]}\n"),
                8)
          .layout;
  CHECK(said.lora_rank == 16);
  CHECK(said.lora_modules == std::vector{LoraModule::linear_qkv});
  CHECK(from_yaml(recipe("peft: null\n"), 8).layout.lora_rank == 0);
  const auto refused = [](const std::string& peft) {
    return test::problems([&] { return from_yaml(recipe(peft), 8); });
  };
  CHECK(refused("peft: dora\n") == Lines{"4:7: peft is 'dora'; modelled: lora"});
  CHECK(refused("peft: {_target_: a.b.DoRA}\n") == Lines{"4:18: is 'a.b.DoRA'; modelled: LoRA"});
  CHECK(refused("peft: {target_modules: [lm_head]}\n").size() == 1);
}

TEST_CASE("adapters of experts are read, shared where nothing is said", "[interop]") {
  const auto experts = [](const std::string& peft) {
    const std::string text =
        "model: {num_layers: 4, hidden_size: 512, num_attention_heads: 8, vocab_size: 50304,\n"
        "  seq_length: 1024, position_embedding_type: rope, num_moe_experts: 8,\n"
        "  moe_ffn_hidden_size: 1024, moe_router_topk: 2, expert_model_parallel_size: 4,\n"
        "  normalization: RMSNorm, gated_linear_unit: true, add_bias_linear: false,\n"
        "  activation_func: {_target_: torch.nn.functional.silu},\n"
        "  moe_grouped_gemm: true, moe_token_dispatcher_type: alltoall}\n"
        "train: {micro_batch_size: 1, global_batch_size: 8}\n" +
        peft;
    return from_yaml(text, 8);
  };
  CHECK(experts("peft: lora\n").layout.expert_adapters == ExpertAdapters::shared);
  CHECK(experts("peft: {share_expert_adapters: false}\n").layout.expert_adapters ==
        ExpertAdapters::each);
  CHECK(experts("peft: {target_modules: [linear_qkv]}\n").layout.expert_adapters ==
        ExpertAdapters::none);
  CHECK(from_yaml(recipe("peft: lora\n"), 8).layout.expert_adapters == ExpertAdapters::none);
  const auto refused = [&](const std::string& peft) {
    return test::problems([&] { return experts(peft); });
  };
  CHECK(refused("peft: {experts_shared_outer_loras: true}\n").size() == 1);
  CHECK(refused("peft: {normalize_moe_lora: true}\n").size() == 1);
}

TEST_CASE("packed data is told, and context parallelism by sequence refused", "[interop]") {
  CHECK(test::notes(from_yaml(recipe("dataset: {offline_packing_specs: {packed_sequence_size: "
                                     "4096}}\n"),
                              8),
                    "dataset"));
  CHECK_FALSE(test::notes(from_yaml(recipe("dataset: {num_workers: 2}\n"), 8), "dataset"));
  CHECK(test::notes(from_flags(decoder("--sft")), "--sft"));
  for (const char* flag : {"--hybrid-context-parallel", "--dynamic-context-parallel",
                           "--sequence-packing-scheduler dp_balanced"})
    CHECK(flag_problems(decoder(flag)).size() == 1);
}

TEST_CASE("what a target cannot say of adapters and formats is refused", "[interop]") {
  Scenario scenario = load_scenario(test::source_dir() + "/scenarios/llama-3.1-70b-512-h100.yaml");
  scenario.layout.lora_rank = 16;
  for (const Target target : {Target::megatron, Target::nemo, Target::torchtitan})
    CHECK_THROWS(export_scenario(scenario, target, ""));
  scenario.layout.lora_rank = 0;
  scenario.layout.overlap_tensor_products = false;
  scenario.layout.compute_dtype = DType::nvfp4;
  scenario.layout.first_bf16_layers = 1;
  scenario.layout.last_bf16_layers = 2;
  const std::string flags = export_scenario(scenario, Target::megatron, "").text;
  CHECK(flags.find("--fp4-format e2m1") != std::string::npos);
  CHECK(flags.find("--num-layers-at-end-in-bf16 2") != std::string::npos);
}

TEST_CASE("windows of attention are read, and layers without them", "[interop]") {
  const auto shape = [](const std::string& flags) { return from_flags(decoder(flags)).shape; };
  const TransformerShape second = shape("--window-size 128,0 --window-attn-skip-freq 2");
  CHECK(second.window == 129);  // the token's own besides
  CHECK(second.window_of(0) == 129);
  CHECK(second.window_of(1) == 0);
  CHECK(second.full_attention.layers.size() == 12);
  CHECK(shape("--window-size 2048,0").window == 0);
  CHECK(shape("--window-size 64,0").full_attention.empty());
  CHECK(shape("--window-size 64,0 --window-attn-skip-freq [0]*23+[1]").window_of(23) == 65);
  CHECK(shape("--window-size 64,0 --window-attn-skip-freq 08").full_attention.layers.size() == 3);
  CHECK(shape("--softmax-type learnable").attention_sinks);
  CHECK(flag_problems(decoder("--window-size 64,64")) ==
        Lines{"4:15: is '64,64'; modelled: no tokens behind a token, as 128,0"});
  CHECK(flag_problems(decoder("--window-size many")) ==
        Lines{"4:15: is 'many'; expected two numbers, as 128,0"});
  const TransformerShape bridge =
      from_yaml(
          "model: {num_layers: 4, hidden_size: 768, num_attention_heads: 12,\n"
          "  vocab_size: 50304, seq_length: 1024, position_embedding_type: rope,\n"
          "  window_size: [128, 0], window_attn_skip_freq: [1, 0, 1, 0]}\n"
          "train: {micro_batch_size: 1, global_batch_size: 8}\n",
          8)
          .shape;
  CHECK(bridge.window_of(2) == 129);
  CHECK(bridge.window_of(3) == 0);
}

namespace {

constexpr std::string_view recipes = R"(
def llama3_8b_pretrain_16gpu_h100_nvfp4_config() -> ConfigContainer:
    cfg = _pretrain_common()
    cfg.mixed_precision = _perf_precision("nvfp4")
    cfg.model.seq_length = 8192
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.sequence_parallel = True
    cfg.train.global_batch_size = 128
    cfg.train.micro_batch_size = 1
    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=False)
    _llama_benchmark_common(cfg)
    return cfg


def llama3_8b_peft_8gpu_h100_bf16_config() -> ConfigContainer:
    cfg = _peft_common()
    cfg.mixed_precision = _perf_precision("bf16")
    cfg.peft.target_modules = ["linear_qkv"]
    cfg.model.seq_length = 4096
    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = 8
)";

Imported recipe_of(std::string_view text, const std::string& name) {
  ImportRequest request;
  request.model = *load_model(test::source_dir() + "/models/llama-3.1-8b.yaml").shape;
  const std::string own = recipe_name(text, "a.py", name);
  return import_bridge_recipe(evaluate_recipe(text, "a.py", own, false), own, request);
}

}  // namespace

TEST_CASE("recipes of Megatron-Bridge in Python are read", "[interop]") {
  const Imported trained = recipe_of(recipes, "llama3_8b_pretrain_16gpu_h100_nvfp4_config");
  CHECK(trained.layout.world_size() == 16);
  CHECK(trained.layout.tensor_parallel == 2);
  CHECK(trained.layout.compute_dtype == DType::nvfp4);
  CHECK(trained.layout.zero_stage == 1);  // Megatron-Bridge's distributed optimizer
  CHECK(trained.layout.overlap_parameters);
  CHECK(trained.layout.gradient_dtype == DType::bf16);
  CHECK_FALSE(trained.layout.overlap_tensor_products);
  const Imported tuned = recipe_of(recipes, "llama3_8b_peft_8gpu_h100_bf16_config");
  CHECK(tuned.layout.lora_rank == 32);
  CHECK(tuned.layout.lora_modules == std::vector{LoraModule::linear_qkv});
  const auto refused = [](const std::string& name) {
    return test::problems([&] { return recipe_of(recipes, name); });
  };
  CHECK(refused("").size() == 1);
  CHECK(refused("llama3_8b").front().find("there is no recipe 'llama3_8b'") != std::string::npos);
  CHECK(gpus_of_recipe("qwen3_256gpu_gb300_config") == 256);
  CHECK(gpus_of_recipe("qwen3_config") == 0);
  std::string wrong{recipes};
  wrong.replace(wrong.find("\"nvfp4\""), 7, "\"int3\"");
  CHECK(test::problems([&] {
          return recipe_of(wrong, "llama3_8b_pretrain_16gpu_h100_nvfp4_config");
        }).front() ==
        "4:43: 'int3' is no precision that is known; allowed: bf16, fp8_cs, fp8_ds, "
        "fp8_mx, nvfp4");
}

TEST_CASE("recipes of Megatron-Bridge begin from others", "[interop]") {
  constexpr std::string_view chain = R"(
HF_MODEL = "meta-llama/Meta-Llama-3-8B"
llama3_8b_pretrain_config = llama3_8b_pretrain_8gpu_h100_bf16_config


def llama3_8b_pretrain_8gpu_h100_bf16_config(seq_length: int = 2048) -> ConfigContainer:
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained(HF_MODEL).to_megatron_provider(load_weights=False)
    cfg.model.seq_length = cfg.dataset.seq_length = seq_length
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.pipeline_model_parallel_size = 2
    cfg.model.virtual_pipeline_model_parallel_size = 4
    if seq_length > 4096:
        cfg.train.micro_batch_size = 1
    else:
        cfg.train.micro_batch_size = 4
    cfg.optimizer.use_precision_aware_optimizer = True
    cfg.optimizer.exp_avg_dtype = torch.bfloat16


def llama3_8b_pretrain_16gpu_h100_bf16_config() -> ConfigContainer:
    cfg = llama3_8b_pretrain_config()
    cfg.model.pipeline_model_parallel_size = 1
    cfg.model.virtual_pipeline_model_parallel_size = None
    cfg.train.global_batch_size = 64
    cfg.model.some_new_key = 3
)";
  const auto read = [&](const std::string& name) {
    return import_bridge_recipe(evaluate_recipe(chain, "a.py", name, false), name, {});
  };
  const Imported base = read("llama3_8b_pretrain_8gpu_h100_bf16_config");
  CHECK(base.shape.hidden == 4096);  // by its name
  CHECK(base.layout.sequence_length == 2048);
  CHECK(base.layout.virtual_stages == 4);
  CHECK(base.layout.micro_batch == 4);
  CHECK(base.layout.global_batch == 32);
  CHECK(base.layout.moment_dtype == DType::bf16);
  const Imported job = read("llama3_8b_pretrain_16gpu_h100_bf16_config");
  CHECK(job.layout.world_size() == 16);
  CHECK(job.layout.tensor_parallel == 2);
  CHECK(job.layout.pipeline_parallel == 1);
  CHECK(job.layout.virtual_stages == 1);  // None, whatever the base says
  CHECK(job.layout.global_batch == 64);
  CHECK(test::notes(job, "model.some_new_key"));
}

TEST_CASE("recipes of Megatron-Bridge: helpers, tables and what a model has besides text",
          "[interop]") {
  constexpr std::string_view text = R"(
def _layout(pp, vp):
    tables = {
        (4, 2): [["embedding"] + ["decoder"] * 8] + [["decoder"] * 6] * 6 + [["decoder"] * 4, ["loss"]][:0],
        (4, 1): [["embedding"] + ["decoder"] * 13] + [["decoder"] * 12] * 2 + [["decoder"] * 11 + ["loss"]],
    }
    return tables[(pp, 1 if vp is None else vp)]


def _experts(cfg, sms=16):
    cfg.model.moe_flex_dispatcher_backend = "hybridep"
    cfg.model.moe_token_dispatcher_type = "flex"
    cfg.model.moe_hybridep_num_sms = sms


def qwen3_vl_30b_a3b_pretrain_32gpu_gb200_bf16_config():
    cfg = _pretrain_common()
    hf_path = "Qwen/Qwen3-VL-30B-A3B-Instruct"
    cfg.model = AutoBridge.from_hf_pretrained(hf_path).to_megatron_provider(load_weights=False)
    cfg.model.pipeline_model_parallel_size = 4
    cfg.model.expert_model_parallel_size = 8
    cfg.model.pipeline_model_parallel_layout = _layout(4, None)
    cfg.model.freeze_language_model = False
    cfg.model.attention_backend = AttnBackend.flash
    cfg.train.micro_batch_size = 1
    cfg.optimizer.optimizer = "dist_muon"
    if isinstance(cfg.mixed_precision, str):
        _experts(cfg, sms=24)
    return cfg
)";
  const std::string name = "qwen3_vl_30b_a3b_pretrain_32gpu_gb200_bf16_config";
  const auto read = [&](std::string_view recipe) {
    return import_bridge_recipe(evaluate_recipe(recipe, "a.py", name, false), name, {});
  };
  std::string sound{text};
  sound.erase(sound.find("        (4, 2):"),
              sound.find("        (4, 1):") - sound.find("        (4, 2):"));
  const Imported job = read(sound);
  CHECK(job.shape.experts.count == 128);
  CHECK(test::notes(job, "model"));
  CHECK(job.layout.layers_per_chunk == std::vector{13, 12, 12, 11});
  CHECK(job.layout.token_dispatcher == TokenDispatcher::hybridep);
  CHECK(job.layout.dispatch_sms == 24);
  CHECK(job.layout.optimizer == OptimizerKind::muon);
  CHECK_FALSE(test::notes(job, "recipe"));
  std::string frozen = sound;
  frozen.replace(frozen.find("language_model = False"), 22, "language_model = True");
  CHECK(test::problems([&] { return read(frozen); }).front().find("frozen parameters") !=
        std::string::npos);
  // A slice is not read: the whole table is not, and what it decides is not known.
  CHECK(test::problems([&] { return read(text); }).size() >= 1);
}
