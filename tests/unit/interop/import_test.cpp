// Files of training jobs as scenarios: what they mean, and the exact text of what is refused. All
// inputs are written for these tests.
#include "sim/base/input_error.hpp"
#include "sim/config/reader.hpp"
#include "sim/interop/handover.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

// A small decoder of Megatron-LM, then `more`.
std::string megatron(const std::string& more) {
  return "MODEL=(\n  --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \\\n"
         "  --seq-length 2048 --max-position-embeddings 2048  # learned\n"
         "  --vocab-size 50257 --attention-dropout 0.0 --hidden-dropout 0.0\n"
         "  --micro-batch-size 2\n)\nREST=( --bf16 \n" +
         more + "\n)\n";
}

Imported from_flags(const std::string& text, int gpus = 8) {
  return import_megatron(Document::parse(text, "a.sh", Syntax::flags), {.gpus = gpus});
}
Imported from_toml(const std::string& text, int gpus) {
  return import_torchtitan(Document::parse(text, "a.toml", Syntax::toml), {.gpus = gpus});
}
Imported from_yaml(const std::string& text, int gpus = 0) {
  return import_nemo(Document::parse(text, "a.yaml", Syntax::yaml), {.gpus = gpus});
}

template <class Import>
std::vector<std::string> problems(Import import) {
  try {
    static_cast<void>(import());
  } catch (const InputError& error) {
    std::vector<std::string> lines;
    for (const Problem& problem : error.problems())
      lines.push_back(std::to_string(problem.where.line) + ":" +
                      std::to_string(problem.where.column) + ": " + problem.what);
    return lines;
  }
  return {};
}
std::vector<std::string> flag_problems(const std::string& text, int gpus = 8) {
  return problems([&] { return from_flags(text, gpus); });
}

bool notes(const Imported& result, const std::string& key) {
  for (const Note& note : result.notes)
    if (note.key == key) return true;
  return false;
}

}  // namespace

TEST_CASE("Megatron-LM's loss and its passes over gradients", "[interop]") {
  const auto of = [](const std::string& flags) { return from_flags(megatron(flags)).framework; };
  const Framework usual = of("");
  CHECK(usual.loss == LossForm::separate);
  CHECK(usual.execution.scales_gradients);
  CHECK(usual.execution.checks_gradients);
  CHECK(usual.execution.separate_update);
  CHECK(of("--cross-entropy-loss-fusion").loss == LossForm::fused);
  CHECK(of("--cross-entropy-loss-fusion --cross-entropy-fusion-impl te").loss ==
        LossForm::in_place);
  CHECK(of("--cross-entropy-fusion-impl te").loss == LossForm::separate);
  CHECK_FALSE(of("--ddp-average-in-collective").execution.scales_gradients);
  CHECK_FALSE(of("--no-check-for-nan-in-loss-and-grad").execution.checks_gradients);
  CHECK(flag_problems(megatron("--cross-entropy-fusion-impl linear")) ==
        std::vector<std::string>{"8:29: is 'linear'; allowed: native, te"});
}

TEST_CASE("Megatron-LM's defaults are filled in", "[interop]") {
  const Imported job = from_flags(megatron(""));
  CHECK(job.shape.feed_forward == 4096);
  CHECK(job.shape.head_dim == 64);
  CHECK(job.shape.kv_heads == 16);
  CHECK(job.shape.tied_head);
  CHECK(job.shape.mlp_bias);
  CHECK(job.shape.positions == Positions::learned);
  CHECK(job.layout.data_parallel == 8);
  CHECK(job.layout.global_batch == 16);
  CHECK(job.layout.gradient_dtype == DType::fp32);
  CHECK_FALSE(job.layout.overlap_gradients);
  CHECK_FALSE(job.layout.overlap_pipeline);
  CHECK(job.layout.zero_stage == 0);
  // 4 x 1024 x 2 / 3 = 2730.67, in multiples of 64.
  CHECK(from_flags(megatron("--swiglu")).shape.feed_forward == 2688);
  CHECK(from_flags(megatron("--grad-reduce-in-bf16")).layout.gradient_dtype == DType::bf16);
  // max(40 million, 1 million x 8) gradients of 4 bytes.
  CHECK(from_flags(megatron("--overlap-grad-reduce")).layout.bucket.count() == 160'000'000);
}

TEST_CASE("Megatron-LM's ways to split a pipeline", "[interop]") {
  const auto chunks = [](const std::string& more) {
    return from_flags(megatron("--global-batch-size 32 --pipeline-model-parallel-size 4 " + more))
        .layout;
  };
  CHECK(chunks("--num-layers-per-virtual-pipeline-stage 2").virtual_stages == 3);
  CHECK(chunks("--num-virtual-stages-per-pipeline-rank 3").schedule == Schedule::interleaved);
  CHECK(chunks("--pipeline-model-parallel-layout Et*5|t*7|t*7|t*5L").layers_per_chunk ==
        std::vector<int>{5, 7, 7, 5});
  CHECK(chunks("--decoder-first-pipeline-num-layers 3").layers_per_chunk ==
        std::vector<int>{3, 7, 7, 7});
  const Layout both = from_flags(
                          "--num-layers 22 --hidden-size 64 --num-attention-heads 4 "
                          "--seq-length 64 --position-embedding-type rope --vocab-size 512 "
                          "--micro-batch-size 1 --global-batch-size 16 "
                          "--pipeline-model-parallel-size 4 "
                          "--account-for-embedding-in-pipeline-split "
                          "--account-for-loss-in-pipeline-split")
                          .layout;
  CHECK(both.layers_per_chunk == std::vector<int>{5, 6, 6, 5});
}

TEST_CASE("Megatron-LM's ways to share a sequence", "[interop]") {
  const auto flags = [](const std::string& how) {
    return megatron("--context-parallel-size 4 --cp-comm-type " + how);
  };
  const auto exchange = [&](const std::string& how) {
    return from_flags(flags(how)).layout.context_exchange;
  };
  CHECK(exchange("p2p") == ContextExchange::ring);
  CHECK(exchange("a2a") == ContextExchange::all_to_all);
  CHECK(exchange("allgather") == ContextExchange::all_gather);
  CHECK(exchange("all_gather") == ContextExchange::all_gather);
  CHECK(flag_problems(flags("a2a+p2p")) ==
        std::vector<std::string>{"8:42: is 'a2a+p2p'; modelled: p2p, a2a, allgather"});
}

TEST_CASE("Megatron-LM's rules are kept", "[interop]") {
  CHECK(flag_problems(megatron("--tensor-model-parallel-size 3")) ==
        std::vector<std::string>{"8:30: tensor 3 x pipeline 1 x context 1 parallel is 3, which "
                                 "does not divide 8 GPUs"});
  CHECK(
      flag_problems(megatron("--global-batch-size 20")) ==
      std::vector<std::string>{"8:21: is 20, no multiple of micro-batch 2 x data parallel 8 = 16"});
  CHECK(flag_problems(megatron("--overlap-param-gather")) ==
        std::vector<std::string>{"8:1: needs the distributed optimizer or Megatron-FSDP"});
  CHECK(flag_problems(megatron(""), 0) ==
        std::vector<std::string>{"1:1: the number of GPUs is not in the file: give --gpus N"});
  CHECK(flag_problems(megatron("--tensor-model-parallel-sise 2")) ==
        std::vector<std::string>{"8:1: unknown key '--tensor-model-parallel-sise'; did you mean "
                                 "'--tensor-model-parallel-size'?"});
}

TEST_CASE("shell variables are resolved, or reported", "[interop]") {
  const std::string job = megatron("--tensor-model-parallel-size $TP --save ${CHECKPOINTS}");
  CHECK(from_flags("TP=4\n" + job).layout.tensor_parallel == 4);
  CHECK(flag_problems(job) ==
        std::vector<std::string>{"8:30: '$TP' is not resolved in this file: write the value in "
                                 "its place"});
  CHECK(flag_problems(job + "OTHER=( \"${MODEL[@]}\" \"${DATA[@]}\" )") ==
        std::vector<std::string>{"10:23: the arguments in ${DATA[@]} are not in this file: paste "
                                 "them, too"});
  CHECK(flag_problems("torchrun pretrain_gpt.py --bf16") ==
        std::vector<std::string>{"1:1: 'torchrun' is no flag: paste only the arguments, \"--flag "
                                 "value\", or bash arrays of them"});
}

TEST_CASE("what matters and is not modelled is told, what does not matter is counted",
          "[interop]") {
  const Imported job =
      from_flags(megatron("--tensor-model-parallel-size 2 --sequence-parallel --tp-comm-overlap "
                          "--tp-comm-overlap-cfg ub.yaml "
                          "--lr 1e-4 --save here --log-interval 1 --num-experts 0"));
  CHECK(job.layout.overlap_tensor_products);
  CHECK(notes(job, "--tp-comm-overlap-cfg"));
  CHECK(job.notes.size() == 1);
  CHECK(job.ignored == std::vector<std::string>{"--lr", "--save", "--log-interval"});
}

TEST_CASE("torchtitan: flavors, degrees and stages", "[interop]") {
  const Imported job = from_toml(R"([model]
name = "llama3"
flavor = "405B"
converters = ["float8"]
[training]
local_batch_size = 2
seq_len = 8192
[parallelism]
tensor_parallel_degree = 8
enable_async_tensor_parallel = true
[activation_checkpoint]
mode = "full"
[compile]
enable = true
components = ["model", "loss"]
[metrics]
log_freq = 10
)",
                                 128);
  CHECK(job.shape.layers == 126);
  CHECK(job.layout.data_parallel == 16);
  CHECK(job.layout.zero_stage == 3);
  CHECK(job.layout.reshard_after_forward);
  CHECK(job.layout.sequence_parallel);
  CHECK(job.layout.overlap_tensor_products);
  CHECK_FALSE(job.layout.overlap_tensor_wgrad);
  CHECK(job.framework == torchtitan_framework(true, true, true));
  CHECK(job.layout.compute_dtype == DType::fp8);
  CHECK(job.layout.global_batch == 32);
  CHECK(job.layout.reduce_dtype == DType::fp32);
  CHECK(job.layout.recompute == Recompute::full);
  CHECK(job.ignored == std::vector<std::string>{"metrics.log_freq"});

  // 32 layers and one more at each end over 2 x 2 stages: 9, 9, 8, 8 less the two ends.
  const Imported pipeline = from_toml(R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 8
[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
)",
                                      2);
  CHECK(pipeline.layout.layers_per_chunk == std::vector<int>{8, 9, 8, 7});
  CHECK(pipeline.layout.micro_batch == 1);
  CHECK(pipeline.layout.micro_batches() == 8);
  CHECK(pipeline.layout.recompute_every == 2);
  Framework eager = torchtitan_framework(false, false, true);
  eager.execution.stops_recomputation = false;  // early_stop is off by default
  CHECK(pipeline.framework == eager);
}

TEST_CASE("torchtitan: recomputation by operator, an early end of it, kernels of AdamW",
          "[interop]") {
  const auto job = [](const std::string& keys) {
    return from_toml("[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + keys, 8);
  };
  CHECK(job("[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"op\"\n")
            .layout.recompute == Recompute::operators);
  const auto stops = [&](const std::string& keys) {
    return job("[activation_checkpoint]\nmode = \"full\"\n" + keys)
        .framework.execution.stops_recomputation;
  };
  CHECK_FALSE(stops(""));
  CHECK(stops("early_stop = true\n"));
  CHECK(stops("[compile]\nenable = true\n"));
  CHECK(problems([&] {
          job("[parallelism]\ntensor_parallel_degree = 2\nenable_async_tensor_parallel = true\n");
        })
            .front()
            .find("needs [compile]") != std::string::npos);
  const auto kernels = [&](const std::string& name) {
    return job("[optimizer]\nimplementation = \"" + name + "\"\n");
  };
  CHECK(kernels("foreach").framework.optimizer == OptimizerForm::eager);
  CHECK(kernels("fused").framework.optimizer == OptimizerForm::fused);
  CHECK(problems([&] { kernels("for-loop"); }).front().find("fused, foreach") != std::string::npos);
}

TEST_CASE("torchtitan: attention over context ranks is PyTorch's", "[interop]") {
  const auto job = [](const std::string& compile, const std::string& method) {
    return from_toml(
        "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\n"
        "context_parallel_degree = 8\n" +
            method + "[compile]\nenable = " + compile + "\n",
        8);
  };
  const Imported compiled = job("true", "");
  CHECK(compiled.layout.context_exchange == ContextExchange::all_gather);
  CHECK(compiled.framework.execution.context == ContextForm::compiled);
  const Imported eager = job("false", "context_parallel_rotate_method = \"alltoall\"\n");
  CHECK(eager.layout.context_exchange == ContextExchange::ring);
  CHECK(eager.framework.execution.context == ContextForm::eager);
}

TEST_CASE("torchtitan: the renamed keys of its head", "[interop]") {
  const Imported job = from_toml(R"([model]
name = "qwen3"
flavor = "8B"
[training]
max_context_length = 4096
num_tokens_per_microbatch_per_dp_rank = 8192
num_tokens_per_train_step = 131072
[parallelism]
tensor_parallel_degree = 2
enable_sequence_parallel = false
)",
                                 8);
  CHECK(job.layout.sequence_length == 4096);
  CHECK(job.layout.micro_batch == 2);
  CHECK(job.layout.global_batch == 32);
  CHECK_FALSE(job.layout.sequence_parallel);
  CHECK(job.shape.qk_norm);
}

TEST_CASE("torchtitan: scales of rows are refused where products have 8 bits", "[interop]") {
  const auto job = [](const std::string& converters, const std::string& recipe) {
    return from_toml("[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + converters +
                         "[training]\nseq_len = 8192\n[float8]\nrecipe_name = \"" + recipe + "\"\n",
                     8);
  };
  const std::string float8 = "converters = [\"float8\"]\n";
  CHECK(job(float8, "tensorwise").layout.compute_dtype == DType::fp8);
  CHECK(job("", "rowwise").layout.compute_dtype == DType::bf16);
  CHECK_THROWS_WITH(job(float8, "rowwise"), Catch::Contains("float8.recipe_name") &&
                                                Catch::Contains("allowed: tensorwise"));
}

TEST_CASE("torchtitan: weights that FSDP gathers in 8 bits", "[interop]") {
  const auto job = [](const std::string& converters, const std::string& section, bool at_once,
                      int gpus) {
    return from_toml("[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + converters +
                         "[training]\nseq_len = 8192\n[" + section +
                         "]\nenable_fsdp_float8_all_gather = true\n"
                         "precompute_float8_dynamic_scale_for_fsdp = " +
                         (at_once ? "true" : "false") + "\n",
                     gpus);
  };
  const std::string float8 = "converters = [\"float8\"]\n";
  for (const char* section : {"float8", "quantize.linear.float8"}) {
    CHECK(job(float8, section, true, 8).layout.eight_bit_parameters);
    CHECK(job(float8, section, true, 8).notes.empty());
    CHECK(notes(job(float8, section, false, 8),
                std::string{section} + ".precompute_float8_dynamic_scale_for_fsdp"));
  }
  for (const Imported& none : {job(float8, "float8", false, 1), job("", "float8", false, 8)}) {
    CHECK_FALSE(none.layout.eight_bit_parameters);
    CHECK(none.notes.empty());
  }
}

TEST_CASE("torchtitan: what is wrong has its place", "[interop]") {
  CHECK(problems([] {
          return from_toml(
              "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\n"
              "tensor_paralel_degree = 2\n",
              8);
        }) == std::vector<std::string>{"5:1: unknown key 'tensor_paralel_degree'; did you mean "
                                       "'tensor_parallel_degree'?"});
  CHECK(problems([] {
          return from_toml("[model]\nname = \"llama4\"\nflavor = \"17bx16e\"\n", 8);
        }).size() == 1);
  CHECK(problems([] { return from_toml("[model\n", 8); }).size() == 1);
}

TEST_CASE("DeepSpeed: two of three batches suffice, and auto says nothing", "[interop]") {
  const TransformerShape shape =
      *load_model(std::string{STEPCAST_SOURCE_DIR} + "/models/llama-3.1-8b.yaml").shape;
  const auto import = [&](const std::string& json, const char* flags = nullptr) {
    const Document document = Document::parse(json, "ds.json", Syntax::json);
    const ImportRequest request{.gpus = 8, .model = shape, .sequence_length = 4096};
    if (!flags) return import_deepspeed(document, nullptr, request);
    const Document more = Document::parse(flags, "a.sh", Syntax::flags);
    return import_deepspeed(document, &more, request);
  };
  const Imported job = import(R"({"train_batch_size": 64, "gradient_accumulation_steps": 4,
    "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true}, "fp16": {"enabled": "auto"},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8, "overlap_comm": true}})");
  CHECK(job.layout.micro_batch == 2);
  CHECK(job.layout.micro_batches() == 4);
  CHECK(job.layout.zero_stage == 3);
  CHECK(job.layout.prefetch_layers == 1);
  CHECK(job.layout.activation_dtype == DType::bf16);
  CHECK(job.framework == framework_of(FrameworkName::deepspeed));
  CHECK(job.layout.overlap_gradients);
  const Imported split = import(R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 1,
    "bf16": {"enabled": true}, "zero_optimization": {"stage": 1}})",
                                "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
                                "--recompute-granularity selective --use-flash-attn-v2");
  CHECK(split.layout.data_parallel == 2);
  CHECK(split.layout.recompute == Recompute::selective);
  CHECK_FALSE(split.layout.overlap_gradients);
  CHECK(split.layout.bucket.count() == 1'000'000'000);
  CHECK(split.framework == framework_of(FrameworkName::megatron_deepspeed));
  CHECK(problems([&] {
          return import(R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 1,
 "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}})");
        }) == std::vector<std::string>{
                  "2:57: zero_optimization.offload_optimizer: offloading to the host is not "
                  "modelled"});
}

TEST_CASE("DeepSpeed: what its engine makes of the keys", "[interop]") {
  const auto import = [](const std::string& zero, const char* more = "") {
    const std::string json = R"({"train_micro_batch_size_per_gpu": 1, "train_batch_size": 16,
      "bf16": {"enabled": true}, "zero_optimization": {)" +
                             zero + "}" + more + "}";
    const ImportRequest request{
        .gpus = 8,
        .model = *load_model(std::string{STEPCAST_SOURCE_DIR} + "/models/llama-3.1-8b.yaml").shape,
        .sequence_length = 4096};
    return import_deepspeed(Document::parse(json, "ds.json", Syntax::json), nullptr, request);
  };
  const auto notes = [](const Imported& job) {
    std::vector<std::string> lines;
    for (const Note& note : job.notes)
      if (note.key != "layout.recompute" && note.key != "framework")
        lines.push_back(note.key + ": " + note.what);
    return lines;
  };
  using Lines = std::vector<std::string>;
  // bf16 with gradients in fp32: BF16_Optimizer.
  const Imported sharded = import(R"("stage": 0, "overlap_comm": true)");
  CHECK(sharded.layout.gradient_dtype == DType::fp32);
  CHECK(sharded.layout.zero_stage == 1);
  CHECK_FALSE(sharded.layout.overlap_gradients);
  CHECK(notes(sharded) ==
        Lines{"zero_optimization.overlap_comm: no effect: DeepSpeed overlaps under its ZeRO "
              "optimizers without a pipeline",
              "layout.zero_stage: 1: with bf16 and gradients in fp32 DeepSpeed shards the "
              "optimizer at stage 0 too"});
  // Stage 2 overlaps where it is asked to.
  CHECK_FALSE(import(R"("stage": 2)").layout.overlap_gradients);
  CHECK(import(R"("stage": 2, "overlap_comm": true)").layout.overlap_gradients);
  CHECK(notes(import(R"("stage": 2)")).empty());
  CHECK(notes(import(R"("stage": 2, "use_multi_rank_bucket_allreduce": false,
                        "contiguous_gradients": false, "reduce_scatter": false)")) ==
        Lines{"zero_optimization: reduce_scatter is false; as if it were true",
              "zero_optimization: use_multi_rank_bucket_allreduce is false; a bucket is modelled "
              "as one all-reduce",
              "zero_optimization: contiguous_gradients is false; gradients are modelled as copied "
              "into a bucket"});
}

TEST_CASE("NeMo 1.x: interpolations are followed", "[interop]") {
  const Imported job = from_yaml(R"(trainer: {devices: 8, num_nodes: 2, precision: bf16}
model:
  micro_batch_size: 1
  global_batch_size: ${multiply:${trainer.devices}, 4}
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 2
  context_parallel_size: 2
  cp_comm_type: a2a
  encoder_seq_length: 1024
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 12
  hidden_size: 768
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 12
  override_vocab_size: 50304
  megatron_amp_O2: True
  transformer_engine: True
  data:
    data_prefix: ???
  optim: {name: distributed_fused_adam, overlap_grad_sync: True}
)");
  CHECK(job.layout.world_size() == 16);
  CHECK(job.layout.data_parallel == 2);
  CHECK(job.layout.context_exchange == ContextExchange::all_to_all);
  CHECK(job.layout.global_batch == 32);
  CHECK(job.shape.feed_forward == 3072);
  CHECK(job.shape.max_sequence == 1024);
  CHECK(job.layout.zero_stage == 1);
  CHECK(job.layout.overlap_gradients);
  CHECK(job.layout.gradient_dtype == DType::fp32);
  CHECK(problems([] {
          return from_yaml(
              "trainer: {devices: 1}\nmodel:\n  num_layers: ${.a}\n  a: ${.num_layers}"
              "\n");
        }).front() == "3:15: '${.a}' cannot be resolved: write the value in its place");
}

TEST_CASE("Megatron-Bridge: a whole container", "[interop]") {
  const std::string text = R"(_target_: megatron.bridge.training.config.ConfigContainer
comm_overlap: {overlap_grad_reduce: null, tp_comm_overlap: false}
ddp: {overlap_grad_reduce: true, grad_reduce_in_fp32: true, use_distributed_optimizer: true}
logger: {log_interval: 1}
mixed_precision: {bf16: true, fp8: null, params_dtype: {_call_: false, _target_: torch.bfloat16}}
model:
  _target_: megatron.bridge.models.gpt_provider.GPTModelProvider
  activation_func: {_call_: false, _target_: torch.nn.functional.silu}
  gated_linear_unit: true
  num_layers: 32
  hidden_size: 4096
  num_attention_heads: 32
  num_query_groups: 8
  kv_channels: 128
  ffn_hidden_size: 14336
  vocab_size: 128256
  normalization: RMSNorm
  add_bias_linear: false
  hidden_dropout: 0.0
  attention_dropout: 0.0
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  seq_length: 8192
  num_moe_experts: null
  moe_router_topk: 2
  virtual_pipeline_model_parallel_size: null
  some_new_field: 3
train: {micro_batch_size: 1, global_batch_size: 128, train_iters: 10}
)";
  const Imported job = from_yaml(text, 8);
  const TransformerShape shipped =
      *load_model(std::string{STEPCAST_SOURCE_DIR} + "/models/llama-3.1-8b.yaml").shape;
  CHECK(same_shape(job.shape, shipped));
  CHECK(job.layout.overlap_gradients);
  CHECK(job.layout.gradient_dtype == DType::fp32);
  CHECK(notes(job, "model.some_new_field"));
  CHECK(job.notes.size() == 1);
}
