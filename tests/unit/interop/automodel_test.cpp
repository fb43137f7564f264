// Recipes of NeMo Automodel.
#include "sim/interop/hub_models.hpp"
#include "tests/catch.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
using test::notes;
using test::problems;

namespace {

using Lines = std::vector<std::string>;

Imported from_recipe(const std::string& text, ImportRequest request = {.gpus = 8}) {
  if (request.sequence_length == 0) request.sequence_length = 4096;
  return import_automodel(Document::parse(text, "a.yaml", Syntax::yaml), request);
}
Lines recipe_problems(const std::string& text) {
  return problems([&] { return from_recipe(text); });
}

const std::string llama =
    "step_scheduler: {global_batch_size: 64, local_batch_size: 2}\n"
    "model: {pretrained_model_name_or_path: meta-llama/Llama-3.1-8B, torch_dtype: bf16}\n"
    "optimizer: {_target_: torch.optim.AdamW, lr: 1.0e-5}\n";

}  // namespace

TEST_CASE("a recipe of Automodel is FSDP2 of the hub's model", "[interop]") {
  const Imported job = from_recipe(llama + "distributed: {strategy: fsdp2, dp_size: none}\n");
  const Layout& layout = job.layout;
  CHECK(job.shape.hidden == 4096);
  CHECK(job.shape.layers == 32);
  CHECK(layout.zero_stage == 3);
  CHECK(layout.micro_batch == 2);
  CHECK(layout.global_batch == 64);
  // Weights, gradients and moments as they are stored; reductions in fp32 (mp_policy).
  CHECK_FALSE(layout.master_weights);
  CHECK(layout.moment_dtype == DType::bf16);
  CHECK(layout.gradient_dtype == DType::bf16);
  CHECK(layout.reduce_dtype == DType::fp32);
  CHECK(layout.recompute == Recompute::none);
  // Gradients stay whole until the last micro-batch (defer_fsdp_grad_sync).
  CHECK(job.framework.execution.accumulates_whole);
  CHECK_FALSE(job.framework.execution.keeps_gathered);
  CHECK_FALSE(notes(job, "gradient_accumulation_steps"));
  CHECK_FALSE(from_recipe(llama + "distributed: {defer_fsdp_grad_sync: false}\n")
                  .framework.execution.accumulates_whole);
}

TEST_CASE("weights of Automodel in fp32 are the masters of what is gathered", "[interop]") {
  const Imported job = from_recipe(
      "step_scheduler: {local_batch_size: 1}\n"
      "model: {pretrained_model_name_or_path: Qwen/Qwen2.5-7B, torch_dtype: torch.float32}\n"
      "distributed: {strategy: fsdp2, activation_checkpointing: selective}\n");
  CHECK(job.layout.master_weights);
  CHECK(job.layout.moment_dtype == DType::fp32);
  CHECK(job.layout.activation_dtype == DType::bf16);
  CHECK(job.layout.recompute == Recompute::operators);
  CHECK(job.shape.hidden == 3584);
}

TEST_CASE("Automodel patches transformers' own classes", "[interop]") {
  const auto job = [](const std::string& model, const std::string& more) {
    return from_recipe(
        "step_scheduler: {global_batch_size: 64, local_batch_size: 2}\n"
        "model: {pretrained_model_name_or_path: meta-llama/Llama-3.1-8B" +
            model + "}\ndataset: {seq_len: 2048}\n" + more,
        {.gpus = 8, .has_flash_2 = true});
  };
  const std::string whole = "distributed: {strategy: fsdp2}\n";
  const Imported liger = job(", force_hf: true", whole);
  CHECK(liger.framework.rms_norm == NormForm::fused);
  CHECK(liger.framework.rotary == RotaryForm::fused);
  CHECK(liger.framework.gate == KernelForm::fused);
  CHECK(liger.layout.attention == AttentionKernel::flash_2);
  CHECK(liger.framework.key_heads == KernelForm::fused);
  for (const Imported& eager :
       {job(", force_hf: true, use_liger_kernel: false", whole), job("", whole),
        job(", force_hf: true", "distributed: {strategy: fsdp2, tp_size: 2}\n")})
    CHECK(eager.framework.gate == KernelForm::eager);
  const Imported sdpa = job(", attn_implementation: sdpa", whole);
  CHECK(sdpa.layout.attention == AttentionKernel::flash_2);
  CHECK(sdpa.framework.key_heads == KernelForm::eager);
}

TEST_CASE("adapters of Automodel are those that its patterns name", "[interop]") {
  const auto modules = [](const std::string& peft) {
    return from_recipe(llama + "distributed: {strategy: fsdp2}\npeft: " + peft + "\n")
        .layout.lora_modules;
  };
  CHECK(modules("{target_modules: '*_proj', dim: 8}").size() == 4);
  CHECK(modules("{match_all_linear: true}").size() == 4);
  CHECK(modules("{target_modules: ['*.q_proj', '*.v_proj']}") ==
        std::vector{LoraModule::linear_qkv});
  CHECK(from_recipe(llama + "peft: {dim: 32}\n").layout.lora_rank == 32);
  CHECK(
      from_recipe(llama + "peft: {}\nquantization: {load_in_4bit: true}\n").layout.frozen_format ==
      FrozenFormat::nf4);
  CHECK(recipe_problems(llama + "peft: {target_modules: ['lm_head']}\n") ==
        Lines{"4:24: 'lm_head' fits no linear that is known: q_proj, k_proj, v_proj, o_proj, "
              "gate_proj, up_proj, down_proj"});
  CHECK_FALSE(recipe_problems(llama + "quantization: {load_in_8bit: true}\npeft: {}\n").empty());
}

TEST_CASE("stages of Automodel are those of torch's schedules", "[interop]") {
  const std::string stages =
      "step_scheduler: {global_batch_size: 64, local_batch_size: 16}\n"
      "model: {pretrained_model_name_or_path: meta-llama/Llama-3.1-8B}\n"
      "distributed: {pp_size: 2, pipeline: {pp_microbatch_size: 4, ";
  const Layout even = from_recipe(stages + "pp_schedule: interleaved1f1b}}\n").layout;
  CHECK(even.schedule == Schedule::interleaved);
  CHECK(even.virtual_stages == 2);
  CHECK(even.data_parallel == 4);
  CHECK(even.micro_batch == 4);
  CHECK_FALSE(even.reshard_after_forward);
  CHECK(even.overlap_pipeline);
  CHECK(even.pipeline_runs == 1);
  // 32 layers in parts of 6 make 6 stages.
  const Layout parts =
      from_recipe(stages + "pp_schedule: interleaved_1f1b, layers_per_stage: 6}}\n").layout;
  CHECK(parts.layers_per_chunk == std::vector{6, 6, 5, 5, 5, 5});
  CHECK(recipe_problems(stages + "pp_schedule: zero_bubble}}\n").size() == 1);
  CHECK(recipe_problems(stages + "pp_schedule: 1f1b, layers_per_stage: 8}}\n").size() == 1);
  CHECK_FALSE(recipe_problems("step_scheduler: {local_batch_size: 6}\n"
                              "model: {pretrained_model_name_or_path: meta-llama/Llama-3.1-8B}\n"
                              "distributed: {pp_size: 2, pipeline: {pp_microbatch_size: 4}}\n")
                  .empty());
}

TEST_CASE("torchao's 8 bits of Automodel are torchtitan's", "[interop]") {
  const Imported job = from_recipe(
      llama +
      "distributed: {strategy: fsdp2}\ncompile: {enabled: true}\n"
      "fp8: {enabled: true, recipe_name: tensorwise, enable_fsdp_float8_all_gather: true,\n"
      "  precompute_float8_dynamic_scale_for_fsdp: true}\n");
  CHECK(job.layout.compute_dtype == DType::fp8);
  CHECK(job.layout.eight_bit_parameters);
  CHECK(job.framework.execution.eight_bit == EightBit::torchao);
  CHECK(job.framework.gate == KernelForm::fused);
  CHECK(job.framework.rms_norm == NormForm::compiled);
  CHECK(from_recipe(llama + "fp8: {enabled: false}\n").layout.compute_dtype == DType::bf16);
}

TEST_CASE("what Automodel has beyond is refused in its place", "[interop]") {
  CHECK(recipe_problems(llama + "distributed: {strategy: fsdp2, ep_size: 8}\n") ==
        Lines{"4:41: is 8, but llama-3.1-8b has no experts"});
  CHECK(recipe_problems(llama + "distributed: {strategy: horovod}\n") ==
        Lines{"4:25: is 'horovod'; modelled: fsdp2, ddp, megatron_fsdp"});
  CHECK(recipe_problems("model: {pretrained_model_name_or_path: nobody/knows-1b}\n"
                        "step_scheduler: {local_batch_size: 1}\n")
            .front()
            .find("--model llama-3.1-8b") != std::string::npos);
  CHECK(notes(from_recipe(llama + "surprise: {on: true}\n"), "surprise"));
}

namespace {

// Qwen3-30B-A3B over 8 of 16 GPUs; `backend`: more of its settings.
Imported mixture(const std::string& backend = "", const std::string& distributed = "",
                 const std::string& rest = "") {
  return from_recipe(
      "step_scheduler: {global_batch_size: 64, local_batch_size: 2}\n"
      "model:\n  config: {pretrained_model_name_or_path: Qwen/Qwen3-30B-A3B}\n"
      "  backend: {attn: te, linear: te, rms_norm: te, " +
          backend + "}\ndistributed: {ep_size: 8, activation_checkpointing: true, " + distributed +
          "}\n" + rest,
      {.gpus = 16});
}

}  // namespace

TEST_CASE("experts of Automodel lie on ranks of their own under FSDP2", "[interop]") {
  const Imported job = mixture("experts: torch_mm, dispatcher: deepep, fake_balanced_gate: true");
  const Layout& layout = job.layout;
  CHECK(layout.expert_parallel == 8);
  CHECK(layout.data_parallel == 16);
  CHECK(layout.zero_stage == 3);
  CHECK(layout.token_dispatcher == TokenDispatcher::deepep);
  CHECK(layout.dispatch_sms == 20);
  CHECK(layout.expert_choice == ExpertChoice::consecutive);
  CHECK(layout.recompute == Recompute::full);
  CHECK(layout.attention == AttentionKernel::flash);
  // MoEParallelizerConfig has no resharding where the file does not ask for it.
  CHECK_FALSE(layout.reshard_after_forward);
  CHECK(mixture("", "moe: {reshard_after_forward: true}").layout.reshard_after_forward);
  CHECK(mixture("", "reshard_after_forward: true").layout.reshard_after_forward);
  CHECK(job.framework.execution.experts == ExpertForm::automodel);
  CHECK(job.framework.execution.separate_products);
  CHECK(job.framework.rms_norm == NormForm::fused);
  CHECK(job.framework.key_heads == KernelForm::fused);
  CHECK(job.framework.rotary == RotaryForm::eager);
}

TEST_CASE("Automodel's backend says who runs experts and sends their tokens", "[interop]") {
  CHECK(mixture("experts: gmm").framework.execution.experts == ExpertForm::automodel_each);
  CHECK(mixture("experts: te").framework.execution.experts == ExpertForm::automodel_each);
  // Without a fused dispatcher Automodel takes torch._grouped_mm.
  const Imported gathered = mixture("experts: te, dispatcher: torch");
  CHECK(gathered.framework.execution.experts == ExpertForm::automodel);
  CHECK(gathered.layout.token_dispatcher == TokenDispatcher::allgather);
  CHECK(notes(mixture("experts: torch, dispatcher: torch"), "model.backend.experts"));
  const Imported hybrid = mixture("dispatcher: hybridep, dispatcher_num_sms: 64");
  CHECK(hybrid.layout.token_dispatcher == TokenDispatcher::hybridep);
  CHECK(hybrid.layout.dispatch_sms == 64);
  CHECK(hybrid.layout.expert_choice == ExpertChoice::any);
  CHECK_FALSE(problems([] { return mixture("dispatcher: mok"); }).empty());
  CHECK_FALSE(problems([] { return mixture("experts: cutlass"); }).empty());
  CHECK(notes(mixture("fake_balanced_gate: true, fake_gate_noise: 0.3"),
              "model.backend.fake_gate_noise"));
  CHECK(notes(mixture("rope_fusion: true"), "model.backend.rope_fusion"));
}

TEST_CASE("8 bits of Automodel's experts are Transformer Engine's or torchao's", "[interop]") {
  const Imported blocks = mixture("experts: te, te_fp8: {recipe: mxfp8}");
  CHECK(blocks.layout.compute_dtype == DType::fp8);
  CHECK(blocks.framework.execution.eight_bit == EightBit::transformer_engine_mxfp8);
  CHECK_FALSE(notes(blocks, "model.backend.te_fp8"));
  CHECK(notes(mixture("experts: torch_mm, te_fp8: {recipe: current}"), "model.backend.te_fp8"));
  CHECK(mixture("experts: torch_mm_mxfp8").framework.execution.eight_bit ==
        EightBit::torchao_mxfp8);
}

TEST_CASE("gathered units of Automodel stay where the file asks for it", "[interop]") {
  const Execution runs = mixture("enable_fsdp_optimizations: true").framework.execution;
  CHECK(runs.accumulates_whole);
  CHECK(runs.keeps_gathered);
  CHECK_FALSE(mixture().framework.execution.keeps_gathered);
}

TEST_CASE("adapters of Automodel's experts are one for each", "[interop]") {
  const auto adapters = [](const std::string& modules) {
    return mixture("", "", "peft: {dim: 16, " + modules + "}\n").layout;
  };
  // The mixture has no MLP beside the experts.
  const Layout proj = adapters("target_modules: '*_proj'");
  CHECK(proj.lora_modules == std::vector{LoraModule::linear_qkv, LoraModule::linear_proj});
  CHECK(proj.expert_adapters == ExpertAdapters::none);
  const Layout all = adapters("target_modules: '*'");
  CHECK(all.expert_adapters == ExpertAdapters::each);
  CHECK(all.lora_modules.size() == 4);
  CHECK(adapters("target_modules: ['*.experts']").lora_modules ==
        std::vector{LoraModule::linear_fc1, LoraModule::linear_fc2});
}

TEST_CASE("stages of Automodel's mixtures hold their gradients", "[interop]") {
  const Imported job = from_recipe(
      "step_scheduler: {global_batch_size: 512, local_batch_size: 8}\n"
      "model: {pretrained_model_name_or_path: deepseek-ai/DeepSeek-V3}\n"
      "distributed: {pp_size: 4, ep_size: 64, pipeline: {pp_schedule: interleaved1f1b,\n"
      "  pp_microbatch_size: 1, layers_per_stage: 2, round_virtual_stages_to_pp_multiple: up}}\n",
      {.gpus = 256});
  CHECK(job.framework.execution.holds_units);
  CHECK(job.layout.virtual_stages == 8);
  CHECK(job.layout.expert_parallel == 64);
  CHECK(job.framework.rotary == RotaryForm::complex);
}

TEST_CASE("depths of Automodel's multi-token prediction are read", "[interop]") {
  const auto job = [](const std::string& keys) {
    return from_recipe(
        "step_scheduler: {global_batch_size: 256, local_batch_size: 2}\n"
        "model: {pretrained_model_name_or_path: "
        "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16" +
            keys +
            "}\n"
            "distributed: {ep_size: 64}\ndataset: {seq_len: 4096}\n",
        {.gpus = 128});
  };
  CHECK(job("").shape.mtp_layers == 0);
  const Imported deep = job(", num_nextn_predict_layers: 2, mtp_use_repeated_layer: true");
  CHECK(deep.shape.mtp_layers == 2);
  CHECK(deep.shape.mtp_repeated);
  CHECK(deep.shape.mtp_kinds.size() == 2);
}

TEST_CASE("runs of Automodel's pipeline reduce behind each, behind the last, or always",
          "[interop]") {
  const auto job = [](const std::string& backend, const std::string& distributed) {
    return from_recipe(
        "recipe: BenchmarkingRecipeForNextTokenPrediction\n"
        "step_scheduler: {global_batch_size: 2048, local_batch_size: 8}\n"
        "model: {pretrained_model_name_or_path: deepseek-ai/DeepSeek-V3, backend: {" +
            backend +
            "}}\n"
            "distributed: {pp_size: 4, ep_size: 64, pipeline: {pp_schedule: interleaved1f1b,\n"
            "  layers_per_stage: 4, round_virtual_stages_to_pp_multiple: up}" +
            distributed + "}\n",
        {.gpus = 256});
  };
  const Imported whole = job("attn: te", "");
  CHECK(whole.layout.pipeline_runs == 4);
  CHECK_FALSE(notes(whole, "global_batch_size"));
  CHECK(whole.framework.execution.holds_units);
  CHECK_FALSE(whole.framework.execution.holds_over_runs);
  CHECK(whole.framework.execution.waits_for_batches);
  const Execution parts = job("attn: te", ", moe: {wrap_outer_model: false}").framework.execution;
  CHECK_FALSE(parts.holds_units);
  const Execution switched =
      job("enable_fsdp_optimizations: true", ", moe: {wrap_outer_model: false}")
          .framework.execution;
  CHECK(switched.holds_units);
  CHECK(switched.holds_over_runs);
  const Execution each = job("attn: te", ", defer_fsdp_grad_sync: false").framework.execution;
  CHECK_FALSE(each.holds_units);
}

TEST_CASE("copies of Automodel shard among fewer GPUs", "[interop]") {
  const Imported job = from_recipe(
      llama + "distributed: {strategy: fsdp2, dp_replicate_size: 2, tp_size: 2}\n", {.gpus = 16});
  CHECK(job.layout.data_parallel == 8);
  CHECK(job.layout.shard_group == 4);
  CHECK(job.layout.tensor_parallel == 2);
  CHECK_FALSE(job.layout.sequence_parallel);
  CHECK(from_recipe(llama + "distributed: {strategy: ddp}\n").layout.zero_stage == 0);
}

TEST_CASE("fine-tunings on the hub have the model of their base", "[interop]") {
  CHECK(model_of_hub("meta-llama/Llama-3.3-70B-Instruct") == "llama-3.1-70b");
  CHECK(model_of_hub("NousResearch/Meta-Llama-3-8B-Instruct") == "llama-3.1-8b");
  CHECK(model_of_hub("Qwen/Qwen3-4B-Instruct-2507") == "qwen3-4b");
  CHECK(model_of_hub("Qwen/Qwen3-235B-A22B") == "qwen3-235b-a22b");
  CHECK(model_of_hub("somebody/llama-3.1-8b-pruned").empty());
  CHECK(model_of_hub("").empty());
  CHECK(model_of_hub("moonshotai/Kimi-K2.5") == "kimi-k2");
  CHECK(model_of_hub("Qwen/Qwen3-VL-8B-Instruct") == "qwen3-8b");
  CHECK(has_other_modalities("Qwen/Qwen3-VL-8B-Instruct"));
  CHECK_FALSE(has_other_modalities("Qwen/Qwen3-8B"));
}

TEST_CASE("names of the hub are checked when they are read", "[interop]") {
  const auto names = [](const std::string& models) {
    return problems([&] {
      return read_hub_names(Document::parse_yaml(
          "models: {" + models + "}\nwith_tower: {}\nlanguage_model_of: {}\n", "a.yaml"));
    });
  };
  CHECK(names("qwen3-8b: [qwen3-8b]").empty());
  CHECK(names("qwen3-8c: [a]") == Lines{"1:20: there is no model 'qwen3-8c' in models/"});
  CHECK(names("qwen3-8b: [a], qwen3-4b: [a]") == Lines{"1:36: 'a' is listed twice"});
}
