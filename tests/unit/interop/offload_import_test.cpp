// Parameters and activations on the host, as frameworks' files ask for them. All inputs are written
// for these tests.
#include "sim/model/transformer.hpp"
#include "tests/catch.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
using test::from_flags;
using test::from_toml;
using test::notes;
using test::problems;

namespace {

using Lines = std::vector<std::string>;

TransformerShape small() {
  TransformerShape shape;
  shape.family = "llama";
  shape.layers = 4;
  shape.hidden = 256;
  shape.heads = shape.kv_heads = 4;
  shape.head_dim = 64;
  shape.feed_forward = 512;
  shape.vocabulary = 1000;
  return shape;
}

ImportRequest request(int gpus = 8) {
  return {.gpus = gpus, .model = small(), .sequence_length = 1024};
}

// DeepSpeed with these parts of zero_optimization, and what the file has besides.
Imported deepspeed(const std::string& zero, const std::string& more = "",
                   const ImportRequest& known = request()) {
  const std::string json = R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 1,
 "bf16": {"enabled": true}, "zero_optimization": {)" +
                           zero + "}" + more + "}";
  return import_deepspeed(Document::parse(json, "ds.json", Syntax::json), nullptr, known);
}
Lines refused(const std::string& zero, const std::string& more = "") {
  return problems([&] { return deepspeed(zero, more); });
}

std::string megatron(const std::string& more) {
  return "ARGS=(\n  --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
         "--max-position-embeddings 2048\n  --vocab-size 50257 --attention-dropout 0.0 "
         "--hidden-dropout 0.0\n  --micro-batch-size 2 --bf16\n" +
         more + "\n)\n";
}
Lines refused_flags(const std::string& more) {
  return problems([&] { return from_flags(megatron(more)); });
}

constexpr const char* both = R"("stage": 3, "offload_optimizer": {"device": "cpu"},
 "offload_param": {"device": "nvme", "nvme_path": "/n", "buffer_count": 5, "buffer_size": 1e8,
                   "max_in_cpu": 1e9, "pin_memory": true})";

}  // namespace

TEST_CASE("DeepSpeed: parameters on the host or on its disks", "[interop]") {
  const Layout layout = deepspeed(both).layout;
  CHECK(layout.offload_parameters == OffloadTarget::nvme);
  CHECK(layout.offload_optimizer == OffloadTarget::cpu);
  CHECK(deepspeed(R"("stage": 3, "cpu_offload": true, "cpu_offload_params": true)")
            .layout.offload_parameters == OffloadTarget::cpu);
  CHECK(deepspeed(both, "", request(1)).layout.zero_stage == 3);
  CHECK(refused(R"("stage": 2, "offload_optimizer": {"device": "cpu"},
 "offload_param": {"device": "cpu"})") ==
        Lines{"3:30: parameters are offloaded with stage 3 only"});
  CHECK(refused(R"("stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.5},
 "offload_param": {"device": "cpu"})") ==
        Lines{"3:30: parameters are offloaded with all of the optimizer: write offload_optimizer, "
              "ratio 1"});
  CHECK(refused(R"("stage": 3, "offload_param": {"device": "gpu"})") ==
        Lines{"2:91: zero_optimization.offload_param is on gpu; allowed: none, cpu, nvme"});
}

TEST_CASE("DeepSpeed: SuperOffload is refused", "[interop]") {
  CHECK(refused(R"("stage": 3, "offload_optimizer": {"device": "cpu", "super_offload": true})") ==
        Lines{"2:119: SuperOffload, whose host updates beside the backward pass and takes back "
              "what clipping forbids, is not modelled; false forecasts ZeRO-Offload"});
}

TEST_CASE("DeepSpeed: checkpoints on the host, where there are some", "[interop]") {
  const std::string more = R"(, "activation_checkpointing": {"cpu_checkpointing": true})";
  ImportRequest full = request();
  full.recompute = Recompute::full;
  CHECK(deepspeed(R"("stage": 3)", more, full).layout.offload_activations == OffloadTarget::cpu);
  const Imported none = deepspeed(R"("stage": 3)", more);
  CHECK(none.layout.offload_activations == OffloadTarget::none);
  CHECK(notes(none, "activation_checkpointing.cpu_checkpointing"));
}

TEST_CASE("Accelerate: parameters on the host", "[interop]") {
  ImportRequest known = request(8);
  known.micro_batch = 1;
  const auto import = [&](const std::string& text) {
    return import_accelerate(Document::parse(text, "a.yaml", Syntax::yaml), "", known).layout;
  };
  const Layout deep = import(
      "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_processes: 8\ndeepspeed_config:\n"
      "  zero_stage: 3\n  gradient_accumulation_steps: 2\n  offload_optimizer_device: cpu\n"
      "  offload_param_device: cpu\n");
  CHECK(deep.offload_parameters == OffloadTarget::cpu);
  for (const int version : {1, 2}) {
    INFO("FSDP " << version);
    const Layout fsdp = import(
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config:\n"
        "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n  fsdp_offload_params: true\n"
        "  fsdp_version: " +
        std::to_string(version) + "\n");
    CHECK(fsdp.offload_parameters == OffloadTarget::cpu);
    CHECK(fsdp.offload_optimizer == OffloadTarget::cpu);
    CHECK(fsdp.zero_stage == 3);
  }
}

TEST_CASE("torchtitan: enable_cpu_offload", "[interop]") {
  const auto import = [](const char* more) {
    return from_toml(std::string{"[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\n"
                                 "local_batch_size = 1\nenable_cpu_offload = true\n"} +
                         more,
                     8)
        .layout;
  };
  CHECK(import("").offload_parameters == OffloadTarget::cpu);
  CHECK(import("").offload_optimizer == OffloadTarget::cpu);
  CHECK(problems([&] {
          return from_toml(
              "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\n"
              "local_batch_size = 1\nenable_cpu_offload = true\n[parallelism]\n"
              "data_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1\n",
              8);
        }) == Lines{"6:22: needs FSDP, which shards parameters"});
}

TEST_CASE("Megatron-LM: activations of layers and of modules on the host", "[interop]") {
  const auto of = [](const std::string& flags) { return from_flags(megatron(flags)).layout; };
  const Layout layers = of("--cpu-offloading --cpu-offloading-num-layers 10");
  CHECK(layers.offload_activations == OffloadTarget::cpu);
  CHECK(layers.offload_layers == 10);
  CHECK(of("--cpu-offloading-num-layers 23").offload_layers == 0);  // all but the last
  const Layout modules =
      of("--fine-grained-activation-offloading --offload-modules core_attn attn_proj");
  CHECK(modules.offload_activations == OffloadTarget::cpu);
  CHECK(modules.offload_modules ==
        std::vector<OffloadModule>{OffloadModule::core_attn, OffloadModule::attn_proj});
  CHECK(refused_flags("--cpu-offloading --cpu-offloading-num-layers 24") ==
        Lines{"5:46: is 24; allowed: 1 to 23, the layers less one"});
  CHECK(of("--fine-grained-activation-offloading --offload-modules attn_norm "
           "--min-offloaded-tensor-size 350000000")
            .offload_least == 350'000'000);
  CHECK(refused_flags("--fine-grained-activation-offloading --offload-modules fused_group_mlp") ==
        Lines{"1:1: offload.modules has fused_group_mlp, which is the operation fuser's; allowed "
              "with framework.operation_fuser false: expert_fc1, moe_act"});
  CHECK(of("--fine-grained-activation-offloading --offload-modules fused_group_mlp "
           "--use-transformer-engine-op-fuser")
            .offload_modules == std::vector<OffloadModule>{OffloadModule::fused_group_mlp});
  CHECK(refused_flags("--fine-grained-activation-offloading --offload-modules gdp_qkv").size() ==
        1);
  CHECK(refused_flags("--fine-grained-activation-offloading").size() == 1);
  CHECK(refused_flags("--cpu-offloading-num-layers 2 --recompute-granularity full "
                      "--recompute-method uniform --recompute-num-layers 1")
            .size() == 1);
}
