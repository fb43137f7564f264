// The YAML of Hugging Face Accelerate, and of trainers that wrap it, as scenarios. All inputs are
// written for these tests.
#include <filesystem>
#include <fstream>

#include "sim/framework/framework.hpp"
#include "sim/model/model.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
using test::notes;
using test::problems;

namespace {

using Lines = std::vector<std::string>;

ImportRequest request(int gpus = 0) {
  return {.gpus = gpus,
          .model = *load_model(sim::test::source_dir() + "/models/llama-3.1-8b.yaml").shape,
          .sequence_length = 4096,
          .micro_batch = 1,
          .gpus_per_node = 8};
}
Imported import(const std::string& yaml, const ImportRequest& known = request(),
                const std::string& folder = "") {
  return import_accelerate(Document::parse(yaml, "a.yaml", Syntax::yaml), folder, known);
}
Lines refused(const std::string& yaml, const ImportRequest& known = request()) {
  return problems([&] { return import(yaml, known); });
}
// A sound job of FSDP, and what its section has besides.
std::string fsdp(const std::string& more, const std::string& top = "") {
  return "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 16\nnum_machines: 2\n" +
         top + "fsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n" + more;
}

}  // namespace

TEST_CASE("Accelerate: FSDP by number and by name", "[interop]") {
  struct Case {
    const char* strategy;
    int zero, group;
    bool reshard;
  };
  for (const Case& tried :
       {Case{"1", 3, 0, true}, Case{"FULL_SHARD", 3, 0, true}, Case{"2", 3, 0, false},
        Case{"SHARD_GRAD_OP", 3, 0, false}, Case{"4", 3, 8, true}, Case{"HYBRID_SHARD", 3, 8, true},
        Case{"HYBRID_SHARD_ZERO2", 3, 8, false}, Case{"5", 3, 8, false}}) {
    CAPTURE(tried.strategy);
    const Imported job = import(fsdp("  fsdp_sharding_strategy: " + std::string{tried.strategy} +
                                     "\n  fsdp_backward_prefetch: BACKWARD_PRE\n"));
    CHECK(job.layout.zero_stage == tried.zero);
    CHECK(job.layout.shard_group == tried.group);
    CHECK(job.layout.reshard_after_forward == tried.reshard);
    CHECK(job.layout.data_parallel == 16);
    CHECK(job.framework.execution.flat_parameters);
    CHECK_FALSE(notes(job, "fsdp_backward_prefetch"));
  }
  CHECK(import(fsdp("  fsdp_sharding_strategy: NO_SHARD\n")).layout.zero_stage == 0);
  CHECK(refused(fsdp("  fsdp_sharding_strategy: 6\n")) ==
        Lines{"7:27: is '6'; allowed: 1 to 5, FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, "
              "HYBRID_SHARD_ZERO2"});
}

TEST_CASE("Accelerate: FSDP2 reads reshard_after_forward, FSDP1 its strategy", "[interop]") {
  const Imported second = import(fsdp(
      "  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n  fsdp_activation_checkpointing: "
      "true\n"));
  CHECK(second.layout.zero_stage == 3);
  CHECK_FALSE(second.layout.reshard_after_forward);
  CHECK(second.layout.recompute == Recompute::full);
  CHECK(second.layout.reduce_dtype == DType::bf16);
  CHECK(second.layout.master_weights);
  CHECK_FALSE(second.framework.execution.flat_parameters);
  CHECK(second.framework.weight_gathers == KernelForm::eager);
  CHECK(import(fsdp("  version: 2\n")).layout.reshard_after_forward);
  const Imported first = import(fsdp("  fsdp_reshard_after_forward: SHARD_GRAD_OP\n"));
  CHECK(first.layout.reshard_after_forward);
  CHECK(notes(first, "fsdp_reshard_after_forward"));
  CHECK(refused(fsdp("  fsdp_version: 3\n")) == Lines{"7:17: is 3; allowed: 1, 2"});
}

TEST_CASE("Accelerate: what FSDP does beyond the model is refused", "[interop]") {
  CHECK(refused(fsdp("  fsdp_sharding_strategy: NO_SHARD\n  fsdp_offload_params: true\n")) ==
        Lines{"8:24: needs a strategy that shards parameters"});
  CHECK(refused("distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_version: 2}\n") ==
        Lines{"1:1: fsdp_auto_wrap_policy is NO_WRAP, the default: the whole model is one unit, "
              "gathered at once, which is not modelled; modelled: TRANSFORMER_BASED_WRAP"});
  CHECK(refused(fsdp("  fsdp_reshard: true\n")).size() == 1);
}

TEST_CASE("Accelerate: parallelism_config splits GPUs as torch's mesh does", "[interop]") {
  const Imported job =
      import(fsdp("  fsdp_version: 2\n",
                  "parallelism_config:\n  parallelism_config_dp_replicate_size: 2\n"
                  "  parallelism_config_dp_shard_size: 2\n  parallelism_config_cp_size: 2\n"
                  "  parallelism_config_tp_size: 2\n"));
  CHECK(job.layout.data_parallel == 4);
  CHECK(job.layout.tensor_parallel == 2);
  CHECK(job.layout.context_parallel == 2);
  CHECK(job.layout.shard_group == 4);
  CHECK(job.layout.context_exchange == ContextExchange::all_gather);
  CHECK(refused(fsdp("  fsdp_version: 2\n",
                     "parallelism_config:\n  parallelism_config_dp_shard_size: 4\n")) ==
        Lines{"6:37: dp_replicate 1 x dp_shard 4 is not the 16 data-parallel GPUs"});
  CHECK(refused(fsdp("  fsdp_version: 2\n", "parallelism_config: {sp_size: 2}\n")).size() == 1);
}

TEST_CASE("Accelerate: DDP trains fp32 parameters under autocast", "[interop]") {
  const Imported job =
      import("distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 8\n");
  CHECK(job.layout.zero_stage == 0);
  CHECK(job.layout.activation_dtype == DType::bf16);
  CHECK(job.layout.gradient_dtype == DType::fp32);
  CHECK(job.layout.reduce_dtype == DType::fp32);
  const Imported single =
      import("distributed_type: 'NO'\nmixed_precision: 'no'\nnum_processes: 1\n");
  CHECK(single.layout.activation_dtype == DType::fp32);
  CHECK_FALSE(single.layout.master_weights);
  ImportRequest pure = request();
  pure.precision = DType::bf16;
  const Layout sixteen = import("distributed_type: MULTI_GPU\nnum_processes: 8\n", pure).layout;
  CHECK(sixteen.moment_dtype == DType::bf16);
  CHECK_FALSE(sixteen.master_weights);
}

TEST_CASE("Trainer: weights that are loaded in 16 bits train so under DDP", "[interop]") {
  const auto job = [](const std::string& more) {
    return import("micro_batch_size: 1\nsequence_len: 1024\n" + more, request(8)).layout;
  };
  for (const char* loaded : {"bf16: true\ndtype: bfloat16\n", "pure_bf16: true\n"}) {
    const Layout layout = job(loaded);
    CHECK_FALSE(layout.master_weights);
    CHECK(layout.compute_dtype == DType::bf16);
    CHECK(layout.gradient_dtype == DType::bf16);
    CHECK(layout.moment_dtype == DType::bf16);
  }
  CHECK(job("bf16: true\n").master_weights);
  CHECK(job("bf16: true\ndtype: float16\n").master_weights);
  // Adapters stay fp32.
  CHECK(job("bf16: true\ndtype: bfloat16\nadapter: lora\n").master_weights);
}

TEST_CASE("Trainer: PyTorch's attention is cuDNN's where it prefers it", "[interop]") {
  const auto kernel = [](const std::string& more, bool prefers_cudnn) {
    ImportRequest known = request(8);
    known.has_flash_2 = true;
    known.prefers_cudnn = prefers_cudnn;
    return import("micro_batch_size: 1\nsequence_len: 1024\nbf16: true\n" + more, known)
        .layout.attention;
  };
  CHECK(kernel("", true) == AttentionKernel::flash);
  CHECK(kernel("", false) == AttentionKernel::flash_2);
  CHECK(kernel("flash_attention: true\n", true) == AttentionKernel::flash_2);
  CHECK(kernel("attn_implementation: flash_attention_2\n", true) == AttentionKernel::flash_2);
  CHECK(kernel("flash_attn: fa2\n", true) == AttentionKernel::flash_2);
  CHECK(kernel("attn_implementation: flash_attention_3\n", false) == AttentionKernel::flash);
  CHECK(kernel("attn_implementation: eager\n", true) == AttentionKernel::unfused);
}

TEST_CASE("Accelerate: other engines are refused with what to do", "[interop]") {
  CHECK(
      refused("distributed_type: MEGATRON_LM\nmegatron_lm_config: {megatron_lm_tp_degree: 2}\n") ==
      Lines{"1:19: MEGATRON_LM is not read here: give Megatron-LM's arguments to stepcast import "
            "megatron; allowed: FSDP, DEEPSPEED, MULTI_GPU, NO"});
  CHECK(refused("num_processes: 8\n") ==
        Lines{"1:1: distributed_type is missing; allowed: FSDP, DEEPSPEED, MULTI_GPU, NO"});
  CHECK(refused("distributed_type: XLA\nnum_processes: 8\n") ==
        Lines{"1:19: is 'XLA'; allowed: FSDP, DEEPSPEED, MULTI_GPU, NO"});
}

TEST_CASE("Accelerate: all missing options are told at once", "[interop]") {
  CHECK(refused("distributed_type: MULTI_GPU\nnum_processes: -1\n", {}) ==
        Lines{"1:1: not in this file: the model (--model), the tokens of a sequence "
              "(--seq-length), the number of GPUs (--gpus), the sequences per GPU "
              "(--micro-batch-size); give the options, for example: stepcast import accelerate "
              "FILE --cluster dgx-h100 --model llama-3.1-8b --seq-length 4096 --gpus 8 "
              "--micro-batch-size 1"});
}

TEST_CASE("Accelerate: whole gradients between micro-batches of FSDP are told", "[interop]") {
  ImportRequest known = request();
  known.accumulation_steps = 4;
  CHECK(notes(import(fsdp(""), known), "gradient_accumulation_steps"));
  CHECK(import(fsdp(""), known).layout.micro_batches() == 4);
}

TEST_CASE("Accelerate: DeepSpeed inline and by a file beside it", "[interop]") {
  const Imported inside = import(
      "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\ndeepspeed_config:\n"
      "  zero_stage: 3\n  gradient_accumulation_steps: 2\n  offload_optimizer_device: none\n");
  CHECK(inside.layout.zero_stage == 3);
  CHECK(inside.layout.micro_batches() == 2);
  CHECK(inside.layout.activation_dtype == DType::bf16);
  CHECK(inside.framework == framework_of(FrameworkName::deepspeed));
  CHECK(refused("distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n"
                "  offload_param_device: cpu\n") ==
        Lines{"4:25: offload_param_device is cpu: it needs zero_stage 3 and "
              "offload_optimizer_device"});
  CHECK(import("distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\n"
               "deepspeed_config:\n  gradient_accumulation_steps: 2\n"
               "  offload_optimizer_device: cpu\n")
            .layout.offload_optimizer == OffloadTarget::cpu);

  const std::filesystem::path folder = test::temporary_path("accelerate");
  std::filesystem::create_directories(folder);
  std::ofstream{folder / "zero.json"} << R"({"train_micro_batch_size_per_gpu": "auto",
    "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}})";
  const std::string named =
      "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n"
      "  deepspeed_config_file: zero.json\n";
  CHECK(import(named, request(), folder.string()).layout.zero_stage == 2);
  CHECK(problems([&] { return import(named + "  zero_stage: 3\n", request(), folder.string()); }) ==
        Lines{"5:15: Accelerate refuses zero_stage beside deepspeed_config_file: write it in "
              "that file"});
}

TEST_CASE("TRL and axolotl: their arguments around FSDP", "[interop]") {
  const ImportRequest known{
      .gpus = 8, .model = *load_model(sim::test::source_dir() + "/models/llama-3.1-8b.yaml").shape};
  const Imported axolotl = import(R"(base_model: some/llama
sequence_len: 8192
micro_batch_size: 2
gradient_accumulation_steps: 1
optimizer: adamw_torch
bf16: auto
gradient_checkpointing: true
learning_rate: 2e-5
some_new_switch: true
datasets:
  - path: some/data
fsdp: [full_shard, auto_wrap]
fsdp_config:
  fsdp_offload_params: false
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer
)",
                                  known);
  CHECK(axolotl.layout.sequence_length == 8192);
  CHECK(axolotl.layout.micro_batch == 2);
  CHECK(axolotl.layout.global_batch == 16);
  CHECK(axolotl.layout.zero_stage == 3);
  CHECK(axolotl.layout.recompute == Recompute::full);
  CHECK(axolotl.framework.optimizer == OptimizerForm::eager);
  CHECK(notes(axolotl, "model"));
  CHECK(notes(axolotl, "arguments"));

  // MLPs in pieces: as many as are said, else tokens over hidden features.
  for (const auto& [more, tiles] :
       {std::pair{"", 1}, std::pair{"tiled_mlp: true\n", 2}, std::pair{"tiled_mlp: false\n", 1},
        std::pair{"tiled_mlp: true\ntiled_mlp_num_shards: 8\n", 8}}) {
    const Imported tiled = import(std::string{"base_model: some/llama\nsequence_len: 8192\n"
                                              "micro_batch_size: 2\n"
                                              "gradient_accumulation_steps: 1\n"
                                              "bf16: auto\nfsdp: [full_shard, auto_wrap]\n"} +
                                      more,
                                  known);
    CHECK(tiled.layout.mlp_tiles == tiles);
  }
  const auto loss_of = [&](const std::string& more) {
    return import(
        "base_model: some/llama\nsequence_len: 8192\nmicro_batch_size: 2\n"
        "gradient_accumulation_steps: 1\nbf16: auto\nfsdp: [full_shard, auto_wrap]\n" +
            more,
        known);
  };
  CHECK(loss_of("chunked_cross_entropy: true\n").framework.loss == LossForm::keeps_logits);
  CHECK(loss_of("chunked_cross_entropy: false\n").framework.loss == LossForm::eager);
  CHECK(loss_of("loss_type: chunked_nll\n").layout.loss_chunks == 64);

  const Imported trl = import(R"(model_name_or_path: some/model
torch_dtype: bfloat16
per_device_train_batch_size: 1
gradient_accumulation_steps: 1
max_length: 2048
fsdp: shard_grad_op auto_wrap
)",
                              known);
  CHECK(trl.layout.sequence_length == 2048);
  CHECK_FALSE(trl.layout.reshard_after_forward);
  CHECK_FALSE(trl.layout.master_weights);
  CHECK(trl.layout.moment_dtype == DType::bf16);
}

TEST_CASE("TRL, axolotl and LLaMA-Factory: adapters", "[interop]") {
  const auto job = [](const std::string& more) {
    return import("micro_batch_size: 1\nsequence_len: 1024\nbf16: true\n" + more, request(8))
        .layout;
  };
  using enum LoraModule;
  const Layout axolotl = job("adapter: qlora\nlora_r: 64\nlora_target_linear: true\n");
  CHECK(axolotl.lora_rank == 64);
  CHECK(axolotl.lora_modules == Layout{}.lora_modules);
  CHECK(axolotl.frozen_format == FrozenFormat::nf4);
  const Layout trl = job("use_peft: true\nlora_target_modules: [q_proj, o_proj, down_proj]\n");
  CHECK(trl.lora_rank == 16);
  CHECK(trl.lora_modules == std::vector{linear_qkv, linear_proj, linear_fc2});
  CHECK(trl.frozen_format == FrozenFormat::as_trained);
  const Layout factory = job("finetuning_type: lora\nlora_rank: 4\nquantization_bit: 4\n");
  CHECK(factory.lora_rank == 4);
  CHECK(factory.lora_modules == std::vector{linear_qkv});
  const auto refusals = [](const std::string& more) {
    return refused("micro_batch_size: 1\nsequence_len: 1024\nbf16: true\n" + more, request(8));
  };
  CHECK(refusals("adapter: ia3\n") == Lines{"4:10: is 'ia3'; modelled: lora, qlora"});
  const Layout eight = job("adapter: lora\nload_in_8bit: true\n");
  CHECK(eight.frozen_format == FrozenFormat::int8);
  CHECK(eight.outlier_share == 0.001);
  CHECK(job("finetuning_type: lora\nquantization_bit: 8\n").frozen_format == FrozenFormat::int8);
  CHECK(refusals("load_in_8bit: true\n").size() == 1);
  CHECK(refusals("adapter: lora\nquantization_bit: 8\nquantization_method: eetq\n").size() == 1);
  const Layout dora =
      job("adapter: lora\npeft_use_dora: true\nlora_modules_to_save: [embed_tokens, lm_head]\n");
  CHECK(dora.lora_magnitudes);
  CHECK(dora.trains_embedding);
  CHECK(dora.trains_head);
  CHECK_FALSE(job("adapter: lora\nlora_modules_to_save:\n").trains_head);
  CHECK(refusals("adapter: lora\nlora_modules_to_save: [score]\n").size() == 1);
  CHECK(
      job("adapter: lora\nlora_target_modules: [self_attn.o_proj, mlp.down_proj]\n").lora_modules ==
      std::vector{linear_proj, linear_fc2});
  CHECK(refusals("adapter: lora\nlora_target_modules: [lm_head]\n").size() == 1);
  const Layout sharded = job("adapter: qlora\nfsdp: full_shard auto_wrap\nfsdp_version: 2\n");
  CHECK(sharded.zero_stage == 3);
  CHECK(sharded.lora_rank == 8);
  // PyTorch's first FSDP keeps parameters flat.
  CHECK(refusals("adapter: lora\nfsdp: full_shard auto_wrap\nfsdp_version: 1\n").size() == 1);
}

TEST_CASE("TRL, axolotl and LLaMA-Factory: Liger's kernels", "[interop]") {
  const auto job = [](const std::string& more) {
    return import("micro_batch_size: 1\nsequence_len: 1024\nbf16: true\nadapter: lora\n" + more,
                  request(8));
  };
  const Framework all = job("use_liger_kernel: true\n").framework;
  CHECK(all.loss == LossForm::chunked);
  CHECK(all.rms_norm == NormForm::fused);
  CHECK(all.rotary == RotaryForm::fused);
  CHECK(all.gate == KernelForm::fused);
  const Imported one =
      job("plugins: [axolotl.integrations.liger.LigerPlugin]\n"
          "liger_fused_linear_cross_entropy: true\n");
  CHECK(one.framework.loss == LossForm::chunked);
  CHECK(one.framework.rms_norm == NormForm::eager);
  CHECK_FALSE(notes(one, "plugins"));
  CHECK(notes(job("plugins: [axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin]\n"),
              "plugins"));
}

TEST_CASE("TRL and axolotl: how optimizers keep moments", "[interop]") {
  const auto job = [](const std::string& name) {
    return import("micro_batch_size: 1\nsequence_len: 1024\nbf16: true\noptimizer: " + name + "\n",
                  request(8))
        .layout;
  };
  CHECK(job("adamw_bnb_8bit").state_format == StateFormat::bitsandbytes_8bit);
  CHECK(job("paged_adamw_32bit").state_format == StateFormat::bitsandbytes_32bit);
  CHECK(job("adamw_torch_4bit").state_format == StateFormat::torchao_4bit);
  CHECK(job("ademamix_8bit").optimizer == OptimizerKind::ademamix);
  CHECK(job("paged_lion_8bit").optimizer == OptimizerKind::lion);
  CHECK(job("adafactor").optimizer == OptimizerKind::adafactor);
  CHECK(job("adamw_torch_fused").state_format == StateFormat::plain);
}

TEST_CASE("TRL and axolotl: other optimizers are refused", "[interop]") {
  const auto job = [](const std::string& more) {
    return refused("micro_batch_size: 1\nsequence_len: 1024\n" + more, request(8));
  };
  CHECK(job("optimizer: galore_adamw\n") ==
        Lines{"3:12: the optimizer galore_adamw is not modelled; modelled: adamw_torch, "
              "adamw_torch_fused, adamw_torch_8bit, adamw_torch_4bit, ao_adamw_fp8, "
              "adamw_bnb_8bit, paged_adamw_32bit, lion, ademamix (32bit, 8bit), adafactor, sgd"});
  CHECK(job("rl: dpo\n").size() == 1);
  CHECK_FALSE(job("fsdp: full_shard wrapped\n").empty());
}

TEST_CASE("hybrids are read under Accelerate, whole on every GPU", "[interop]") {
  const auto with_model = [](const std::string& name) {
    ImportRequest known = request();
    known.model = *load_model(sim::test::source_dir() + "/models/" + name + ".yaml").shape;
    return import(fsdp(""), known);
  };
  for (const char* name : {"qwen3.5-9b", "qwen3.5-35b-a3b", "qwen3-next-80b-a3b"}) {
    CAPTURE(name);
    const Imported job = with_model(name);
    CHECK(job.layout.zero_stage == 3);
    CHECK(notes(job, "model"));
    Model model = build_transformer(job.shape);
    run_with(job.framework, model);
    CHECK(layout_problems(job.layout, model).empty());
    Layout divided = job.layout;
    divided.tensor_parallel = 2;
    divided.data_parallel = 8;
    divided.sequence_parallel = true;
    CHECK_FALSE(layout_problems(divided, model).empty());
    // Without a compiler what stands before the scan is a dozen kernels.
    for (const ModelOp& op : model.layers.front().ops)
      if (op.name == "delta_gates") CHECK(op.forward_launches > 10);
  }
}

TEST_CASE("torch.compile fuses what stands between products, whoever switches it on", "[interop]") {
  const Imported eager = import(fsdp("  fsdp_version: 2\n"));
  CHECK(eager.framework.rms_norm != NormForm::compiled);
  const Imported compiled = import(fsdp("  fsdp_version: 2\n", "dynamo_backend: INDUCTOR\n"));
  CHECK(compiled.framework.rms_norm == NormForm::compiled);
  CHECK(compiled.framework.gate == KernelForm::fused);
  CHECK(test::notes(compiled, "torch_compile"));
  CHECK(refused(fsdp("  fsdp_version: 2\n", "dynamo_backend: TVM\n")).size() == 1);
  const auto trainer = [](const std::string& more) {
    return import(
        "model_name_or_path: meta-llama/Llama-3.1-8B\nmax_length: 2048\n"
        "per_device_train_batch_size: 1\nbf16: true\n" +
            more,
        request(8));
  };
  CHECK(trainer("torch_compile: true\n").framework.rms_norm == NormForm::compiled);
  CHECK(trainer("torch_compile: false\n").framework.rms_norm != NormForm::compiled);
}
