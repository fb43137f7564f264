// DeepSpeed's JSON as scenarios: optimizers, "auto", what it offloads. All inputs are written for
// these tests.
#include "sim/model/model.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
using test::notes;
using test::problems;

namespace {

using Lines = std::vector<std::string>;

TransformerShape llama() {
  return *load_model(sim::test::source_dir() + "/models/llama-3.1-8b.yaml").shape;
}
ImportRequest whole_request() {
  return {.gpus = 8, .model = llama(), .sequence_length = 4096};
}

Imported import(const std::string& json, const ImportRequest& request = whole_request()) {
  return import_deepspeed(Document::parse(json, "ds.json", Syntax::json), nullptr, request);
}
// A sound job, and what it has besides.
std::string job(const std::string& more) {
  return R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 1,
 "bf16": {"enabled": true}, )" +
         more + "}";
}
Lines refused(const std::string& more) {
  return problems([&] { return import(job(more)); });
}

}  // namespace

TEST_CASE("DeepSpeed: an optimizer is forecast by the states it keeps", "[interop]") {
  const auto kind = [](const std::string& optimizer) {
    return import(job(R"("optimizer": )" + optimizer)).layout.optimizer;
  };
  CHECK(kind(R"({"type": "AdamW", "params": {"lr": "auto", "betas": [0.9, 0.95]}})") ==
        OptimizerKind::adam);
  CHECK(kind(R"({"type": "Lion"})") == OptimizerKind::lion);
  CHECK(kind(R"({"type": "SGD", "params": {"lr": 0.1}})") == OptimizerKind::sgd);
  CHECK(kind(R"({"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9}})") ==
        OptimizerKind::momentum);
  CHECK(import(job(R"("steps_per_print": 1)")).layout.optimizer == OptimizerKind::adam);
  const Imported sgd = import(job(R"("optimizer": {"type": "SGD", "params": {"nesterov": true,
    "momentum": 0.9, "weight_decay": 0.1}})"));
  CHECK(notes(sgd, "optimizer.params.nesterov"));
  CHECK(notes(sgd, "optimizer.params.weight_decay"));
}

TEST_CASE("DeepSpeed: an optimizer that is more than its states is refused by name", "[interop]") {
  CHECK(refused(R"("optimizer": {"type": "Muon", "params": {"lr": 0.02}})") ==
        Lines{"2:51: the optimizer Muon: it keeps one momentum for matrices and Adam's two moments "
              "for the rest, and multiplies out each matrix to orthogonalise it, which is not "
              "modelled; modelled: AdamW, Adam, OneBitAdam, Lamb, OneBitLamb, Lion, SGD"});
  CHECK(refused(R"("optimizer": {"type": "ZeroOneAdam"})") ==
        Lines{"2:51: the optimizer ZeroOneAdam: its compressed messages are not modelled; "
              "modelled: AdamW, Adam, OneBitAdam, Lamb, OneBitLamb, Lion, SGD"});
  CHECK(refused(R"("optimizer": {"type": "Adafactor"})") ==
        Lines{"2:51: the optimizer Adafactor: its states are not modelled; modelled: AdamW, Adam, "
              "OneBitAdam, Lamb, OneBitLamb, Lion, SGD"});
  CHECK(refused(R"("optimizer": {"type": "Adam", "params": {"amsgrad": true}})") ==
        Lines{"2:81: amsgrad keeps a third moment, which is not modelled"});
}

TEST_CASE("DeepSpeed: ZeRO++ and 1-bit Adam", "[interop]") {
  const Imported all = import(job(R"("zero_optimization": {"stage": 3, "zero_hpz_partition_size": 2,
    "zero_quantized_weights": true, "zero_quantized_gradients": true})"));
  CHECK(all.layout.quantized_weights);
  CHECK(all.layout.secondary_shard);
  CHECK(all.layout.node_ranks == 2);
  CHECK(all.layout.compression == GradientCompression::int4);
  CHECK(refused(R"("zero_optimization": {"stage": 1, "zero_quantized_weights": true})").size() ==
        1);
  const Imported signs = import(R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 1,
    "fp16": {"enabled": true}, "optimizer": {"type": "OneBitAdam"}})");
  CHECK(signs.layout.compression == GradientCompression::one_bit);
  CHECK(notes(signs, "optimizer.type"));
  const Imported lamb = import(R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 1,
    "fp16": {"enabled": true}, "optimizer": {"type": "OneBitLamb"}})");
  CHECK(lamb.layout.optimizer == OptimizerKind::lamb);
  CHECK(lamb.layout.compression == GradientCompression::one_bit_lamb);
  CHECK(notes(lamb, "optimizer.type"));
  for (const char* name : {"Lamb", "FusedLamb"}) {
    const Imported plain = import(std::string{R"({"train_batch_size": 16,
      "train_micro_batch_size_per_gpu": 1, "fp16": {"enabled": true}, "optimizer": {"type": ")"} +
                                  name + "\"}}");
    CHECK(plain.layout.optimizer == OptimizerKind::lamb);
    CHECK(plain.layout.compression == GradientCompression::none);
  }
}

TEST_CASE("DeepSpeed: offloading to none is no offloading", "[interop]") {
  const Imported none = import(job(R"("zero_optimization": {"stage": 3,
    "offload_optimizer": {"device": "none", "nvme_path": null}, "offload_param": {}})"));
  CHECK(none.layout.zero_stage == 3);
  CHECK(none.layout.offload_optimizer == OffloadTarget::none);
  CHECK(refused(R"("zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}})") ==
        Lines{"2:91: parameters are offloaded with all of the optimizer: write offload_optimizer, "
              "ratio 1"});
}

TEST_CASE("DeepSpeed: an optimizer on the host", "[interop]") {
  const auto imported = [](const std::string& zero) {
    return import(job(R"("optimizer": {"type": "DeepSpeedCPUAdam"}, "zero_optimization": {)" +
                      zero + "}"))
        .layout;
  };
  const Layout part =
      imported(R"("stage": 3, "offload_optimizer": {"device": "nvme", "ratio": 0.25})");
  CHECK(part.offload_optimizer == OffloadTarget::nvme);
  CHECK(part.offload_fraction == 0.25);
  const Layout all = imported(R"("stage": 2, "offload_optimizer": {"device": "cpu"})");
  CHECK(all.offload_optimizer == OffloadTarget::cpu);
  CHECK(all.offload_fraction == 1);
  CHECK(imported(R"("stage": 1, "cpu_offload": true)").offload_optimizer == OffloadTarget::cpu);
  CHECK(refused(R"("zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme"}})") ==
        Lines{"2:95: an optimizer is offloaded to nvme with stage 3 only"});
}

TEST_CASE("DeepSpeed: all that auto leaves open is told at once", "[interop]") {
  const std::string json = R"({"train_batch_size": "auto", "gradient_accumulation_steps": "auto",
 "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"},
 "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
 "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
   "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"}})";
  CHECK(problems([&] { return import(json, {}); }) ==
        Lines{"1:1: not in this file: the model (--model), the tokens of a sequence "
              "(--seq-length), the number of GPUs (--gpus), train_micro_batch_size_per_gpu "
              "(--micro-batch-size), gradient_accumulation_steps (--gradient-accumulation-steps), "
              "the format, bf16 or fp16 (--precision); give the options, for example: stepcast "
              "import deepspeed FILE --cluster dgx-h100 --model llama-3.1-8b --seq-length 4096 "
              "--gpus 8 --micro-batch-size 1 --gradient-accumulation-steps 8 --precision bf16"});
  ImportRequest request = whole_request();
  request.micro_batch = 2;
  request.accumulation_steps = 4;
  request.precision = DType::bf16;
  request.recompute = Recompute::full;
  const Imported filled = import(json, request);
  CHECK(filled.layout.micro_batch == 2);
  CHECK(filled.layout.global_batch == 64);
  CHECK(filled.layout.activation_dtype == DType::bf16);
  CHECK(filled.layout.recompute == Recompute::full);
  // hidden x hidden elements of 2 bytes.
  CHECK(filled.layout.bucket == Bytes{std::int64_t{4096} * 4096 * 2});
  // 0.9 x hidden x hidden elements reach into one layer of 218 million.
  CHECK(filled.layout.prefetch_layers == 1);
  request.accumulation_steps = 0;
  request.global_batch = 32;
  CHECK(import(json, request).layout.micro_batches() == 2);
}

TEST_CASE("DeepSpeed: an option may not contradict the file", "[interop]") {
  ImportRequest request = whole_request();
  request.micro_batch = 4;
  request.precision = DType::fp16;
  CHECK(problems([&] { return import(job(R"("steps_per_print": 10)"), request); }) ==
        Lines{"1:60: is 1, but --micro-batch-size says 4",
              "2:22: bf16 is enabled, but --precision says fp16"});
}

TEST_CASE("DeepSpeed: one size of the batch is enough, as in its engine", "[interop]") {
  CHECK(import(R"({"train_batch_size": 32})").layout.micro_batch == 4);
  CHECK(import(R"({"train_micro_batch_size_per_gpu": 2})").layout.global_batch == 16);
  CHECK(problems([] {
          return import(R"({"train_batch_size": 30, "gradient_accumulation_steps": 4})");
        }) == Lines{"1:22: a batch of 30 is not micro-batch x 4 accumulation steps x 8 replicas"});
}

TEST_CASE("DeepSpeed: nothing that changes a step is ignored", "[interop]") {
  CHECK(refused(R"("zero_optimization": {"stage": 3, "zeropp_loco_param": {"err_beta": 0.8},
    "zero_quantized_nontrainable_weights": true})")
            .size() == 2);
  CHECK(refused(R"("elasticity": {"enabled": true, "max_train_batch_size": 64})") ==
        Lines{"2:43: elasticity: it replaces the batch: write train_batch_size and "
              "train_micro_batch_size_per_gpu"});
  CHECK(refused(R"("compile": {"deepcompile": true})") ==
        Lines{"2:56: DeepCompile is not modelled"});
  CHECK(refused(R"("activation_checkpointing": {"partition_activations": true})") ==
        Lines{"2:83: activation_checkpointing.partition_activations: not modelled"});
  CHECK(problems([] {
          return import(R"({"train_batch_size": 8,
 "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}, "zero_optimization": {"stage": 2}})");
        }) == Lines{"2:61: bf16.bf16_master_weights_and_grads: master weights in 16 bits are not "
                    "modelled"});
  // A section that is switched off is off.
  const Imported off = import(job(R"("amp": {"enabled": false, "opt_level": "O1"},
    "flops_profiler": {"enabled": false}, "comms_logger": {"enabled": true})"));
  CHECK(off.ignored == Lines{"flops_profiler", "amp"});
  CHECK(notes(off, "comms_logger"));
  CHECK(refused(R"("zero_optimisation": {"stage": 3})").size() == 1);
  CHECK(import(job(R"("zero_optimization": true)")).layout.zero_stage == 1);
}

TEST_CASE("DeepSpeed: a value in the place of a section is refused", "[interop]") {
  CHECK(problems([] { return import(R"({"train_batch_size": 8, "bf16": true})"); }) ==
        Lines{"1:33: bf16 takes an object of settings"});
  CHECK(refused(R"("optimizer": "SGD")") == Lines{"2:42: optimizer takes an object of settings"});
  CHECK(refused(R"("optimizer": {"params": {"lr": 1}})") ==
        Lines{"2:42: the optimizer has no type; modelled: AdamW, Adam, OneBitAdam, Lamb, "
              "OneBitLamb, Lion, SGD"});
  CHECK(refused(R"("optimizer": {"type": "SGD", "params": {"momentum": "auto"}})") ==
        Lines{"2:81: nothing fills in the momentum: write a number"});
  CHECK(refused(R"("zero_optimization": {"stage": "auto"})") ==
        Lines{"2:60: nothing fills in the stage: write 0, 1, 2 or 3"});
}

TEST_CASE("DeepSpeed: limits of stage 3 that the forecast does not keep are told", "[interop]") {
  const auto stage_3 = [](const std::string& more) {
    return import(job(R"("zero_optimization": {"stage": 3, )" + more + "}"));
  };
  CHECK(notes(stage_3(R"("stage3_param_persistence_threshold": 1e8)"),
              "zero_optimization.stage3_param_persistence_threshold"));
  CHECK_FALSE(notes(stage_3(R"("stage3_param_persistence_threshold": 1e5)"),
                    "zero_optimization.stage3_param_persistence_threshold"));
  CHECK(notes(stage_3(R"("stage3_max_live_parameters": 1e8)"),
              "zero_optimization.stage3_max_live_parameters"));
  CHECK(notes(stage_3(R"("stage3_max_reuse_distance": 0)"),
              "zero_optimization.stage3_max_reuse_distance"));
  CHECK_FALSE(notes(stage_3(R"("stage3_max_reuse_distance": 1e9)"),
                    "zero_optimization.stage3_max_reuse_distance"));
}

TEST_CASE("DeepSpeed: Ulysses is context parallelism that exchanges heads", "[interop]") {
  const Imported four = import(job(R"("sequence_parallel_size": 4)"));
  CHECK(four.layout.context_parallel == 4);
  CHECK(four.layout.context_exchange == ContextExchange::all_to_all);
  CHECK(four.layout.data_parallel == 2);
  CHECK(four.layout.micro_batches() == 8);
  CHECK(import(job(R"("sequence_parallel_size": 1)")).layout.context_parallel == 1);
  CHECK(refused(R"("sequence_parallel_size": -2)").size() == 1);
  // As Accelerate's parallelism_config has it.
  ImportRequest known = whole_request();
  known.sequence_ranks = 2;
  CHECK(import(job(R"("steps_per_print": 1)"), known).layout.context_parallel == 2);
}
