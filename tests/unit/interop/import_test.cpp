// Files of training jobs as scenarios: what they mean, and the exact text of what is refused. All
// inputs are written for these tests.
#include <fstream>

#include "sim/framework/bucket_sizes.hpp"
#include "sim/interop/job_file.hpp"
#include "sim/scripts/scripts.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;
using test::flag_problems;
using test::from_flags;
using test::from_yaml;
using test::notes;
using test::problems;

namespace {

// A small decoder of Megatron-LM, then `more`.
std::string megatron(const std::string& more) {
  return "MODEL=(\n  --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \\\n"
         "  --seq-length 2048 --max-position-embeddings 2048  # learned\n"
         "  --vocab-size 50257 --attention-dropout 0.0 --hidden-dropout 0.0\n"
         "  --micro-batch-size 2\n)\nREST=( --bf16 \n" +
         more + "\n)\n";
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

TEST_CASE("what CUDA graphs capture", "[interop]") {
  const auto of = [](const std::string& flags) { return from_flags(megatron(flags)); };
  CHECK_FALSE(of("--cuda-graph-scope attn").graphs);
  CHECK(of("--cuda-graph-scope attn").graph_scope.empty());
  const std::string on = "--cuda-graph-impl transformer_engine ";
  CHECK(of(on).graphs);
  CHECK(of(on).graph_scope.empty());
  CHECK(of(on + "--cuda-graph-scope full_iteration").graph_scope.empty());
  CHECK(of(on + "--cuda-graph-scope attn moe_router moe_preprocess").graph_scope ==
        std::vector<GraphModule>{GraphModule::attn, GraphModule::moe_router,
                                 GraphModule::moe_preprocess});
  CHECK(flag_problems(megatron(on + "--cuda-graph-scope vision")).size() == 1);
}

TEST_CASE("NCCL's options by communicator", "[interop]") {
  const std::string path = test::temporary_path("nccl.yaml");
  std::ofstream{path} << "cp: {cga_cluster_size: 1, min_ctas: 1, max_ctas: 1}\n"
                         "dp: {max_ctas: 8}\ndp_cp: {max_ctas: 12}\ntp_exp: {max_ctas: 2}\n";
  const auto of = [](const std::string& file) {
    return from_flags(megatron("--nccl-communicator-config-path " + file));
  };
  const Imported job = of(path);
  std::filesystem::remove(path);
  CHECK(job.most_blocks == BlockLimits{.context = 1, .data = 12});
  CHECK_FALSE(notes(job, "--nccl-communicator-config-path"));
  CHECK(of("not_here.yaml").most_blocks == BlockLimits{});
  CHECK(notes(of("not_here.yaml"), "--nccl-communicator-config-path"));
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
  const Imported overlapped = from_flags(megatron("--overlap-grad-reduce"));
  CHECK(bucket_sizes(overlapped.layout, overlapped.framework.execution).first ==
        Bytes{160'000'000});
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
  CHECK(flag_problems(flags("ring")) ==
        std::vector<std::string>{"8:42: is 'ring'; modelled: p2p, a2a, a2a+p2p, allgather"});
  const auto sizes = [&](const std::string& two) {
    return from_flags(flags("a2a+p2p --hierarchical-context-parallel-sizes " + two)).layout;
  };
  CHECK(sizes("2 2").context_exchange == ContextExchange::all_to_all_ring);
  CHECK(sizes("2 2").context_heads == 2);
  CHECK(sizes("4 1").context_exchange == ContextExchange::all_to_all);
  CHECK(sizes("1 4").context_exchange == ContextExchange::ring);
  CHECK(flag_problems(flags("a2a+p2p")) ==
        std::vector<std::string>{
            "8:42: is a2a+p2p, for which --hierarchical-context-parallel-sizes has two sizes"});
  CHECK(flag_problems(flags("a2a+p2p --hierarchical-context-parallel-sizes 2 4"))
            .front()
            .ends_with("is '2 4'; allowed: sizes with the product 4"));
}

TEST_CASE("with the legacy layout Muon's replicas have whole parameters", "[interop]") {
  const auto deals = [](const std::string& more) {
    return from_flags(megatron("--optimizer muon --use-distributed-optimizer" + more))
        .framework.execution.deals_parameters;
  };
  CHECK_FALSE(deals(""));
  CHECK(deals(" --no-use-layer-wise-param-layout"));
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
        std::vector<std::string>{
            "1:1: the number of GPUs is not in the file: give --gpus N, for example --gpus 64"});
  CHECK(flag_problems(megatron("--tensor-model-parallel-sise 2")) ==
        std::vector<std::string>{"8:1: unknown key '--tensor-model-parallel-sise'; did you mean "
                                 "'--tensor-model-parallel-size'?"});
}

TEST_CASE("a problem of a flag that the file does not have names the flag", "[interop]") {
  const std::vector<std::string> found =
      flag_problems(megatron("--num-virtual-stages-per-pipeline-rank 2"));
  REQUIRE_FALSE(found.empty());
  CHECK(found[0].find("pipeline-model-parallel-size is 1; virtual stages need ") !=
        std::string::npos);
}

TEST_CASE("a misspelt flag may be meant for one that is only noted", "[interop]") {
  CHECK(flag_problems(megatron("--no-rope-fuzion")) ==
        std::vector<std::string>{"8:1: unknown key '--no-rope-fuzion'; did you mean "
                                 "'--no-rope-fusion'?"});
}

TEST_CASE("shell variables are resolved, or reported", "[interop]") {
  const std::string job = megatron("--tensor-model-parallel-size $TP --save ${CHECKPOINTS}");
  CHECK(from_flags("TP=4\n" + job).layout.tensor_parallel == 4);
  CHECK(flag_problems(job) ==
        std::vector<std::string>{"8:30: '$TP' is not resolved in this file: write the value in "
                                 "its place, or give --define TP=VALUE"});
  CHECK(flag_problems(job + "OTHER=( \"${MODEL[@]}\" \"${DATA[@]}\" )") ==
        std::vector<std::string>{"10:24: the arguments in ${DATA[@]} are not in this file: paste "
                                 "them, too"});
  CHECK(flag_problems("--bf16\nextra=1 torchrun\n--num-layers 2 more")[0] ==
        "2:1: --bf16 takes a single value");
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

TEST_CASE("Megatron-LM: an optimizer on the host", "[interop]") {
  const Layout layout =
      from_flags(megatron("--use-distributed-optimizer --use-precision-aware-optimizer "
                          "--optimizer-cpu-offload --optimizer-offload-fraction 0.5 "
                          "--overlap-cpu-optimizer-d2h-h2d"))
          .layout;
  CHECK(layout.offload_optimizer == OffloadTarget::cpu);
  CHECK(layout.offload_fraction == 0.5);
  CHECK(layout.offload_overlap);
  CHECK(from_flags(megatron("--use-distributed-optimizer --optimizer-cpu-offload"))
            .layout.offload_fraction == 1);
}

TEST_CASE("what changes time or memory and is not modelled is refused by name", "[interop]") {
  const auto refused = [](const std::string& flags) { return flag_problems(megatron(flags)); };
  using Lines = std::vector<std::string>;
  CHECK(refused("--optimizer sgd") ==
        Lines{"8:13: is 'sgd'; modelled: adam, muon. To forecast the job with Adam, --set "
              "optimizer=adam"});
  CHECK(refused("--use-precision-aware-optimizer").size() == 1);  // no distributed optimizer
  CHECK(refused("--exp-avg-dtype bf16") == Lines{"8:17: needs --use-precision-aware-optimizer"});
  CHECK(refused("--use-distributed-optimizer --use-precision-aware-optimizer "
                "--main-params-dtype bf16")
            .size() == 1);
  CHECK(refused("--fp8-format hybrid --fp8-recipe custom").size() == 1);
  CHECK(refused("--fp8-format hybrid --no-fp8-wgrad").size() == 1);
  CHECK(refused("--optimizer-cpu-offload --cpu-offloading-num-layers 2").size() == 1);
  CHECK(refused("--use-distributed-optimizer --optimizer-cpu-offload "
                "--optimizer-offload-fraction 2")
            .size() == 1);
  CHECK(refused("--recompute-granularity selective --recompute-modules core_attn mhc").size() == 1);
  CHECK(refused("--recompute-granularity selective --recompute-modules moe_act").size() == 1);
  CHECK(refused("--spec some.module some_spec").size() == 1);
  CHECK(refused("--experimental-attention-variant gdn2").size() == 1);
  CHECK(refused("--distributed-backend gloo").size() == 1);
  // Their values that say "off" or "as modelled".
  CHECK(from_flags(megatron("--optimizer adam --exp-avg-dtype fp32 --mtp-num-layers 0 "
                            "--fp8-recipe delayed --recompute-granularity none"))
            .notes.empty());
  // A window as long as the sequence (2048) changes nothing.
  CHECK(refused("--recompute-granularity None").empty());
  CHECK(refused("--window-size 2047,0").empty());
  CHECK(refused("--window-size (-1,0)").empty());
}

TEST_CASE("no table of harmless flags takes a word with a blank, or a flag that it does not name",
          "[interop]") {
  CHECK(flag_problems(megatron("--fp8-something 1")).size() == 1);
  CHECK(flag_problems(megatron("--data-something 1")).size() == 1);
  CHECK(flag_problems(megatron("--num-experts 8 --moe-token-dispatcher-type alltoall "
                               "--moe-something 1"))
            .size() == 1);
  // As a shell splits it where the array stands unquoted.
  const Imported job = from_flags(megatron("\"--fp8-format hybrid\" \"--log-interval 1\""));
  CHECK(job.layout.compute_dtype == DType::fp8);
  CHECK(job.ignored == std::vector<std::string>{"--log-interval"});
}

TEST_CASE("8-bit parameters of Megatron-LM", "[interop]") {
  const auto eight = [](const std::string& flags) {
    return from_flags(megatron("--fp8-format hybrid --use-distributed-optimizer " + flags))
        .layout.eight_bit_parameters;
  };
  CHECK(eight("--fp8-param-gather"));
  CHECK_FALSE(eight(""));
  CHECK(flag_problems(megatron("--fp8-param-gather")) ==
        std::vector<std::string>{"8:1: 8-bit parameters need 8-bit products (--fp8-format)"});
}

TEST_CASE("a pipeline layout and a number of virtual stages", "[interop]") {
  const std::string layout =
      "--pipeline-model-parallel-size 2 --global-batch-size 32 --pipeline-model-parallel-layout "
      "'Et*5|t*7|t*7|t*5L' ";
  CHECK(from_flags(megatron(layout)).layout.virtual_stages == 2);
  CHECK(flag_problems(megatron(layout + "--num-virtual-stages-per-pipeline-rank 2")).size() == 1);
  CHECK(flag_problems(megatron(layout + "--num-virtual-stages-per-pipeline-rank 1")).size() == 1);
  CHECK(flag_problems(megatron(layout + "--account-for-loss-in-pipeline-split")).size() == 1);
  const auto bridge = [](const std::string& more) {
    return "model: {num_layers: 6, hidden_size: 512, num_attention_heads: 8, vocab_size: 50304,\n"
           "  seq_length: 512, position_embedding_type: rope, activation_func: "
           "torch.nn.functional.gelu,\n"
           "  pipeline_model_parallel_size: 2, " +
           more + "}\ntrain: {micro_batch_size: 1, global_batch_size: 16}\n" +
           "mixed_precision: bf16_mixed\n";
  };
  const std::string list =
      "pipeline_model_parallel_layout: [[embedding, decoder], [decoder, decoder], [decoder], "
      "[decoder, decoder, loss]]";
  const Imported listed = from_yaml(bridge(list), 4);
  CHECK(listed.layout.layers_per_chunk == std::vector<int>{1, 2, 1, 2});
  CHECK(listed.layout.virtual_stages == 2);
  CHECK(listed.layout.gradient_dtype == DType::fp32);  // bf16_mixed
  CHECK(from_yaml(bridge(list + ", virtual_pipeline_model_parallel_size: 2"), 4)
            .layout.virtual_stages == 2);
  CHECK(problems([&] {
          return from_yaml(bridge(list + ", virtual_pipeline_model_parallel_size: 1"), 4);
        }) == std::vector<std::string>{"3:187: is 1, but the pipeline layout has 4 stages over 2 "
                                       "ranks, which is 2"});
  CHECK(problems([&] {
          return from_yaml(bridge("pipeline_model_parallel_layout: [[embedding, attention]]"), 4);
        }).size() == 1);
}

TEST_CASE("Megatron-Bridge: defaults of a class that is not known have to be written out",
          "[interop]") {
  const auto job = [](const std::string& more) {
    return "model: {" + more +
           "num_layers: 12, hidden_size: 768, num_attention_heads: 12, vocab_size: 50304,\n"
           "  seq_length: 1024, position_embedding_type: rope}\n"
           "train: {micro_batch_size: 1, global_batch_size: 8}\n";
  };
  const std::string llama = "_target_: megatron.bridge.models.llama.Llama3ModelProvider8B, ";
  const auto of = [&](const std::string& more) {
    return problems([&] { return from_yaml(job(more), 8); });
  };
  REQUIRE(of(llama).size() == 1);
  CHECK(of(llama).front() ==
        "1:19: the defaults of Llama3ModelProvider8B are not known here: write out "
        "model.normalization, model.gated_linear_unit, model.add_bias_linear, "
        "model.share_embeddings_and_output_weights, or name the model with --model");
  CHECK(of(llama + "normalization: RMSNorm, gated_linear_unit: false, add_bias_linear: false, "
                   "share_embeddings_and_output_weights: true, ")
            .empty());
  CHECK(of("_target_: megatron.bridge.models.gpt_provider.GPTModelProvider, ").empty());
  CHECK(notes(from_yaml(job(""), 8), "model._target_"));
}

TEST_CASE("Megatron-Bridge: recipes of formats by name, and nothing under a wildcard",
          "[interop]") {
  const auto bridge = [](const std::string& more) {
    return "model: {num_layers: 6, hidden_size: 512, num_attention_heads: 8, vocab_size: 50304,\n"
           "  seq_length: 512, position_embedding_type: rope, activation_func: "
           "torch.nn.functional.gelu}\n"
           "train: {micro_batch_size: 1}\n" +
           more;
  };
  const Imported job = from_yaml(bridge("ddp: {use_distributed_optimizer: true}\n"
                                        "mixed_precision: bf16_with_fp8_delayed_scaling_mixed\n"),
                                 4);
  CHECK(job.layout.compute_dtype == DType::fp8);
  CHECK(job.layout.eight_bit_parameters);
  CHECK(problems([&] {
          return from_yaml(bridge("mixed_precision: bf16_with_mxfp8_mixed\n"), 4);
        }).size() == 1);
  const auto wrong = [&](const std::string& section) {
    return problems([&] { return from_yaml(bridge(section), 4); });
  };
  CHECK(wrong("optimizer: {optimizer: soap}\n").front().find("modelled: adam, muon") !=
        std::string::npos);
  CHECK(wrong("optimizer: {exp_avg_dtype: int3}\n").size() == 1);
  CHECK(notes(from_yaml(bridge("ddp: {some_switch: true}\n"), 4), "ddp.some_switch"));
}

TEST_CASE("the arguments that a training of Megatron-LM prints", "[interop]") {
  const std::string block =
      "------------------------ arguments ------------------------\n"
      "  add_bias_linear ................................. False\n"
      "  attention_backend ............................... AttnBackend.auto\n"
      "  attention_dropout ............................... 0.0\n"
      "  bf16 ............................................ True\n"
      "  bias_swiglu_fusion .............................. True\n"
      "  encoder_num_layers .............................. 24\n"
      "  exp_avg_dtype ................................... torch.float32\n"
      "  hidden_dropout .................................. 0.0\n"
      "  hidden_size ..................................... 1024\n"
      "  micro_batch_size ................................ 2\n"
      "  new_number ...................................... 3\n"
      "  num_attention_heads ............................. 16\n"
      "  num_layers ...................................... 24\n"
      "  overlap_p2p_comm ................................ False\n"
      "  padded_vocab_size ............................... 50304\n"
      "  pipeline_model_parallel_size .................... 4\n"
      "  global_batch_size ............................... 64\n"
      "  position_embedding_type ......................... rope\n"
      "  seq_length ...................................... 2048\n"
      "  virtual_pipeline_model_parallel_size ............ 3\n"
      "  world_size ...................................... 16\n"
      "-------------------- end of arguments ---------------------\n";
  const Imported job = from_flags(block, 0);
  CHECK(job.layout.world_size() == 16);
  CHECK_FALSE(job.shape.mlp_bias);
  CHECK(job.shape.vocabulary == 50304);
  CHECK(job.layout.virtual_stages == 3);
  CHECK_FALSE(job.layout.overlap_pipeline);
  CHECK(notes(job, "--new-number"));
  CHECK_FALSE(notes(job, "--no-bias-swiglu-fusion"));
}

TEST_CASE("ms-swift: its own defaults, and what it cannot mean here", "[interop]") {
  const TransformerShape shape =
      *load_model(sim::test::source_dir() + "/models/llama-3.1-8b.yaml").shape;
  const auto import = [&](const std::string& more) {
    return import_megatron(
        parse_flags("NPROC_PER_NODE=8 NNODES=2 \\\nmegatron sft --load model \\\n"
                    "  --tensor_model_parallel_size 2 --sequence_parallel true \\\n"
                    "  --max_length 4096 --dataset 'a b' " +
                        more + "\n",
                    "a.sh"),
        {.model = shape});
  };
  const Imported job = import("--micro_batch_size 2");
  CHECK(job.layout.world_size() == 16);
  CHECK(job.layout.sequence_length == 4096);
  CHECK(job.layout.global_batch == 16);
  CHECK(job.layout.activation_dtype == DType::bf16);
  CHECK(job.layout.zero_stage == 1);
  CHECK(job.layout.recompute == Recompute::selective);
  CHECK(problems([&] { return import("--train_type lora"); }).size() == 1);
}

TEST_CASE("DeepSpeed: two of three batches suffice, with flags beside it or without", "[interop]") {
  const TransformerShape shape =
      *load_model(sim::test::source_dir() + "/models/llama-3.1-8b.yaml").shape;
  const auto import = [&](const std::string& json, const char* flags = nullptr) {
    const Document document = Document::parse(json, "ds.json", Syntax::json);
    const ImportRequest request{.gpus = 8, .model = shape, .sequence_length = 4096};
    if (!flags) return import_deepspeed(document, nullptr, request);
    const Document more = parse_flags(flags, "a.sh");
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
  CHECK(bucket_sizes(split.layout, split.framework.execution).others == Bytes{1'000'000'000});
  CHECK(split.framework == framework_of(FrameworkName::megatron_deepspeed));
  CHECK(problems([&] {
          return import(R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 1,
 "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}})");
        }) ==
        std::vector<std::string>{"2:64: parameters are offloaded with all of the optimizer: write "
                                 "offload_optimizer, ratio 1"});
}

TEST_CASE("DeepSpeed: what its engine makes of the keys", "[interop]") {
  const auto import = [](const std::string& zero, const char* more = "") {
    const std::string json = R"({"train_micro_batch_size_per_gpu": 1, "train_batch_size": 16,
      "bf16": {"enabled": true}, "zero_optimization": {)" +
                             zero + "}" + more + "}";
    const ImportRequest request{
        .gpus = 8,
        .model = *load_model(sim::test::source_dir() + "/models/llama-3.1-8b.yaml").shape,
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
  const std::string file = R"(trainer: {devices: 8, num_nodes: 2, precision: bf16}
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
)";
  const Imported job = from_yaml(file);
  CHECK(job.framework.loss == LossForm::separate);
  CHECK(from_yaml(file + "  cross_entropy_loss_fusion: True\n").framework.loss == LossForm::fused);
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
      *load_model(sim::test::source_dir() + "/models/llama-3.1-8b.yaml").shape;
  CHECK(same_shape(job.shape, shipped));
  CHECK(job.layout.overlap_gradients);
  CHECK(job.layout.gradient_dtype == DType::fp32);
  CHECK(notes(job, "model.some_new_field"));
  CHECK(job.notes.size() == 1);
}

TEST_CASE("the notes of an import are lines for people", "[interop]") {
  const std::string scenario = sim::test::source_dir() + "/scenarios/gpt2-124m-8-h100.yaml";
  const ImportedJob job{.scenario = load_scenario(scenario),
                        .notes = {{"layout.first_bucket", "is not said"}},
                        .ignored = {"--log-interval", "--seed"}};
  CHECK(note_lines(job) ==
        std::vector<std::string>{"note: layout.first_bucket: is not said",
                                 "without an effect on a step: 2 keys: --log-interval, --seed"});
}
