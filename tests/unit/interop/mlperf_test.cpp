// Variables of NVIDIA's config_*.sh in MLPerf Training.
#include "sim/interop/megatron/mlperf.hpp"

#include "sim/interop/job_file.hpp"
#include "sim/scripts/scripts.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
using test::notes;
using test::problems;

namespace {

using Lines = std::vector<std::string>;

Imported from_variables(const std::string& text, const ImportRequest& request = {}) {
  return import_mlperf(parse_variables(text, "config.sh"), request);
}
Lines variable_problems(const std::string& text) {
  return problems([&] { return from_variables(text); });
}

const std::string pretraining =
    "export MODEL_SIZE=405b\nexport TENSOR_MODEL_PARALLEL=4\nexport PIPELINE_MODEL_PARALLEL=8\n"
    "export CONTEXT_PARALLEL=2\nexport INTERLEAVED_PIPELINE=8\nexport MINIBS=144\n"
    "export ASYM_PP_EMBED=True\nexport ASYM_PP_LOSS=True\nexport DGXNNODES=64\n"
    "export DGXNGPU=8\n";
const std::string tuning =
    "export TP=4\nexport CP=2\nexport SP=1\nexport MBS=1\nexport MINIBS=1\n"
    "export DGXNNODES=8\nexport DGXNGPU=8\n";

}  // namespace

TEST_CASE("a pretraining of MLPerf is the job that its variables make", "[interop]") {
  const Imported job = from_variables(pretraining +
                                      "export FP8=True\nexport FP8_RECIPE=tensorwise\n"
                                      "export FULL_CUDA_GRAPH=1\n");
  const Layout& layout = job.layout;
  CHECK(job.shape.hidden == 16'384);
  CHECK(layout.world_size() == 512);
  CHECK(layout.data_parallel == 8);
  CHECK(layout.global_batch == 144 * 8);
  CHECK(layout.virtual_stages == 8);
  CHECK(layout.sequence_length == 8192);
  CHECK(layout.sequence_parallel);
  CHECK(layout.zero_stage == 1);
  CHECK(layout.compute_dtype == DType::fp8);
  CHECK(layout.gradient_dtype == DType::bf16);
  // 128 Mi elements.
  CHECK(layout.bucket == Bytes{std::int64_t{256} << 20});
  CHECK(job.graphs);
  CHECK(job.framework.execution.eight_bit == EightBit::transformer_engine_tensorwise);
  CHECK_FALSE(job.framework.execution.checks_gradients);
}

TEST_CASE("a fine-tuning of MLPerf has adapters on the attention's linears", "[interop]") {
  const Imported job = from_variables(tuning);
  CHECK(job.shape.layers == 80);
  CHECK(job.layout.lora_rank == 16);
  CHECK(job.layout.lora_modules == std::vector{LoraModule::linear_qkv, LoraModule::linear_proj});
  CHECK(job.layout.context_exchange == ContextExchange::all_to_all);
  CHECK(job.layout.global_batch == 8);
  CHECK(job.layout.compute_dtype == DType::fp8);
  CHECK(job.layout.packed_length == 0);
  CHECK(from_variables(tuning + "export FP8=False\n").layout.compute_dtype == DType::bf16);
  const auto attention = [](const std::string& more) {
    return from_variables(tuning + more).framework.execution.eight_bit_attention;
  };
  CHECK(attention("export FP8_DPA=1\n") == EightBitAttention::dot_product);
  CHECK(attention("export FP8_DPA=0\n") == EightBitAttention::none);
  CHECK(attention("export FP8=False\nexport FP8_DPA=1\n") == EightBitAttention::none);
  CHECK(job.layout.lora_dropout == 0.1);
  CHECK(attention("export FP8_DPA=1\nexport NVTE_DPA_FP8_RECIPE=F16\n") == EightBitAttention::none);
}

TEST_CASE("frozen weights of MLPerf are in 8 bits, whatever is gathered", "[interop]") {
  const Imported old = from_variables(tuning);
  CHECK(old.layout.eight_bit_parameters);
  CHECK(old.layout.frozen_orders == FrozenOrders::transposed);
  const std::string later = tuning + "export CG_WEIGHT_CACHING=0\nexport FP8_PARAM_GATHER=0\n";
  CHECK(from_variables(later).layout.eight_bit_parameters);
  CHECK(from_variables(later).layout.frozen_orders == FrozenOrders::both);
  CHECK(from_variables(later + "export USE_TE_OPS=1\n").framework.execution.operation_fuser);
  CHECK_FALSE(from_variables(later).framework.execution.keeps_gate_inputs_in_fp8);
  for (const char* name : {"FP8_ACT", "FP8_ACTIVATION"})
    CHECK(from_variables(later + "export " + name + "=True\n")
              .framework.execution.keeps_gate_inputs_in_fp8);
  const std::string four = later + "export FP8=False\nexport FP4=True\n";
  CHECK_FALSE(from_variables(four).layout.eight_bit_parameters);
  CHECK(from_variables(four + "export PRE_QUANTIZED_MODEL=True\n").layout.eight_bit_parameters);
  CHECK_FALSE(from_variables(tuning + "export FP8=False\n").layout.eight_bit_parameters);
}

TEST_CASE("gpt_oss_20b of MLPerf is a mixture in MXFP8 over experts", "[interop]") {
  const Imported job = from_variables(
      "export MODEL_SIZE=20b\nexport MINIBS=1\nexport MICRO_BATCH_SIZE=1\n"
      "export TENSOR_MODEL_PARALLEL=1\nexport SEQ_PARALLEL=False\n"
      "export PIPELINE_MODEL_PARALLEL=1\nexport EXPERT_PARALLEL=8\nexport DGXNNODES=1\n"
      "export FP8=True\nexport FP8_RECIPE=mxfp8\nexport CUDA_GRAPH_IMPLEMENTATION=local\n"
      "export CUDA_GRAPH_SCOPE=full_iteration\nexport MOE_EXPERT_RANK_CAPACITY_FACTOR=2\n");
  CHECK(job.shape.experts.count == 32);
  CHECK(job.shape.vocabulary == 128'256);
  CHECK(job.layout.expert_parallel == 8);
  CHECK(job.layout.token_dispatcher == TokenDispatcher::hybridep);
  CHECK(job.layout.dispatch_sms == 128);
  CHECK(job.layout.sequence_length == 8192);
  CHECK(job.framework.execution.eight_bit == EightBit::transformer_engine_mxfp8);
  CHECK(job.framework.execution.operation_fuser);
  CHECK(job.graphs);
  CHECK(job.graph_scope.empty());
  CHECK(notes(job, "MOE_EXPERT_RANK_CAPACITY_FACTOR"));
}

TEST_CASE("deepseekv3_671b of MLPerf has a depth of prediction and a split of its own",
          "[interop]") {
  const std::string variables =
      "export MODEL_SIZE=671b\nexport MINIBS=240\nexport TENSOR_MODEL_PARALLEL=2\n"
      "export PIPELINE_MODEL_PARALLEL=4\nexport INTERLEAVED_PIPELINE=4\n"
      "export EXPERT_PARALLEL=32\nexport PIPELINE_LAYOUT='Et*4|(t*4|)*14tmL'\n"
      "export DGXNNODES=128\nexport DGXNGPU=4\nexport SEGMENT=16\nexport FP8=True\n"
      "export FP8_PARAM_GATHER=True\nexport FP8_DPA=True\nexport RECOMPUTE_MODULES=mlp\n"
      "export MOE_TOKEN_DISPATCHER_TYPE=flex\nexport MOE_FLEX_DISPATCHER_BACKEND=hybridep\n";
  const Imported job = from_variables(variables);
  CHECK(job.shape.mtp_layers == 1);
  CHECK(job.layout.sequence_length == 4096);
  CHECK(job.layout.global_batch == 240 * 64);
  CHECK(job.layout.layers_per_chunk.size() == 16);
  CHECK(job.layout.sequence_parallel);
  CHECK(job.layout.recomputes(RecomputeModule::mlp));
  CHECK(job.layout.moment_dtype == DType::bf16);
  CHECK(job.layout.dispatch_sms == 32);
  CHECK(job.framework.execution.eight_bit == EightBit::transformer_engine_mxfp8);
  CHECK(job.segment_gpus == 64);
  CHECK(from_variables(variables + "export MTP_NUM_LAYERS=0\n"
                                   "export PIPELINE_LAYOUT='Et*4|(t*4|)*14tL'\n")
            .shape.mtp_layers == 0);
  CHECK(variable_problems(variables + "export MTP_NUM_LAYERS=2\n")
            .front()
            .find("is 2; modelled: 0, 1") != std::string::npos);
}

TEST_CASE("AMD's files of MLPerf have names and defaults of their own", "[interop]") {
  const std::string variables =
      "export NNODES=1\nexport GPUS_PER_NODE=8\nexport SIZE=\"8b\"\nexport GBS=32\n"
      "export MBS=2\nexport TP=1\nexport PP=1\nexport CP=1\nexport FP8_PARAMS=1\n";
  const Imported job = from_variables(variables);
  CHECK(job.shape.layers == 32);
  CHECK(job.layout.global_batch == 32);
  CHECK(job.layout.micro_batch == 2);
  CHECK(job.layout.data_parallel == 8);
  CHECK(job.layout.compute_dtype == DType::fp8);
  CHECK(job.layout.eight_bit_parameters);
  CHECK_FALSE(job.layout.overlap_gradients);
  CHECK(variable_problems(variables + "export SIZE=70b\n").front().find("is '70b'; allowed: 8b") !=
        std::string::npos);
  CHECK(from_variables(tuning + "export USE_HIPBLASLT=1\n").layout.context_exchange ==
        ContextExchange::ring);
  CHECK(variable_problems("export EXP=conf/a.yaml\nexport NNODES=1\n")
            .front()
            .find("stepcast import primus") != std::string::npos);
}

TEST_CASE("what adapters do without is told", "[interop]") {
  const Imported job = from_variables(tuning + "export SP=1\nexport TP_COMM_OVERLAP=1\n");
  CHECK_FALSE(job.layout.overlap_tensor_products);
  CHECK(notes(job, "TP_COMM_OVERLAP"));
}

TEST_CASE("segments of a scheduler say how many trays of a rack are used", "[interop]") {
  CHECK(from_variables(pretraining + "export SEGMENT=4\n").segment_gpus == 32);
  CHECK_FALSE(variable_problems(pretraining + "export SEGMENT=0\n").empty());
}

TEST_CASE("GPT-3 of MLPerf needs no MODEL_SIZE", "[interop]") {
  const Imported job = from_variables(
      "export MINIBS=128\nexport TENSOR_MODEL_PARALLEL=4\nexport PIPELINE_MODEL_PARALLEL=8\n"
      "export INTERLEAVED_PIPELINE=6\nexport MICRO_BATCH_SIZE=2\nexport DGXNNODES=64\n");
  CHECK(job.shape.hidden == 12'288);
  CHECK(job.layout.sequence_length == 2048);
  CHECK(job.layout.context_parallel == 1);
  CHECK(job.layout.global_batch == 128 * 16);
}

TEST_CASE("variables of MLPerf that are not read are told", "[interop]") {
  CHECK(notes(from_variables(pretraining + "export NOBODY_KNOWS=3\n"), "NOBODY_KNOWS"));
  CHECK(notes(from_variables(pretraining + "export NCCL_MIN_CTAS=16\n"), "tuning"));
  CHECK_FALSE(notes(from_variables(pretraining + "export NCCL_NVLS_ENABLE=0\n"), "tuning"));
  CHECK(notes(from_variables("source config_common.sh\n" + pretraining), "config_common.sh"));
  CHECK(from_variables(pretraining, {.gpus = 128}).layout.data_parallel == 2);
  CHECK(notes(from_variables(pretraining, {.gpus = 128}), "gpus"));
}

TEST_CASE("mistakes in variables of MLPerf are refused in their place", "[interop]") {
  CHECK(
      variable_problems("export LR=1\n") ==
      Lines{"1:1: none of MODEL_SIZE, SIZE with GBS, TP and TENSOR_MODEL_PARALLEL is set: is this "
            "a config_*.sh of llama31_405b, llama31_8b, llama2_70b_lora, gpt3, gpt_oss_20b or "
            "deepseekv3_671b, as NVIDIA and AMD write them?"});
  CHECK(variable_problems(pretraining + "export FP8=maybe\n") ==
        Lines{"11:12: is 'maybe'; expected True, False, 1 or 0"});
  CHECK(variable_problems(pretraining + "export MODEL_SIZE=7b\n").front() ==
        "11:19: is '7b'; allowed: 8b, 20b, 70b, 405b, 671b");
  CHECK(variable_problems(pretraining + "export TENSOR_MODEL_PARALLEL=$(nproc)\n").front() ==
        "11:30: '$TENSOR_MODEL_PARALLEL' is not resolved in this file: write the value in its "
        "place, or give --define TENSOR_MODEL_PARALLEL=VALUE");
  CHECK_FALSE(variable_problems(pretraining + "export FP8=True\nexport FP4=True\n").empty());
  CHECK_FALSE(variable_problems(pretraining + "export FSDP=megatron\n").empty());
  CHECK_FALSE(variable_problems(pretraining + "export DGXNNODES=65\n").empty());
  CHECK_FALSE(variable_problems(pretraining + "export MINIBS=0\n").empty());
}

TEST_CASE("the name of a file of MLPerf says its machine", "[interop]") {
  CHECK(cluster_of_mlperf("a/config_DGXB200_64x8x144xtp4pp8cp2_cg.sh") == "dgx-b200");
  CHECK(cluster_of_mlperf("config_GB200_18x4x1.sh") == "gb200-nvl72");
  CHECK(cluster_of_mlperf("config_mine.sh").empty());
}

TEST_CASE("scripts beside a script are read where it sources them", "[interop]") {
  JobFile job;
  job.file = test::source_dir() + "/tests/recipes/config_DGXH100_64x8x256_405b.sh";
  const ImportedJob imported = import_job(JobKind::mlperf, job);
  CHECK(imported.scenario.layout.compute_dtype == DType::fp8);
  CHECK(imported.scenario.layout.eight_bit_parameters);
  CHECK(imported.scenario.cluster.gpus() == 512);
  job.file = test::source_dir() + "/tests/recipes/megatron_llama.sh";
  job.cluster = "dgx-h100";
  CHECK(import_job(JobKind::megatron, job).scenario.layout.tensor_parallel == 2);
}

TEST_CASE("a file without its model is GPT-3's where all that it sources is there", "[interop]") {
  const std::string own = "export TENSOR_MODEL_PARALLEL=8\nexport MINIBS=8\n";
  const Lines lines = variable_problems("source config_common.sh\n" + own);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] ==
        "1:1: sets no MODEL_SIZE, and config_common.sh may: sourced on line 1 and not found beside "
        "the file: what it sets is not known; put it there, or give --define MODEL_SIZE=VALUE and "
        "what else it sets");
}
