// Submissions to MLPerf Training on the code of NVIDIA or AMD: config_*.sh sets the variables of
// which the benchmark's Hydra file makes a configuration of NeMo or Megatron-Bridge. Read are the
// language models: llama31_405b, llama31_8b, gpt_oss_20b and deepseekv3_671b (MODEL_SIZE; AMD's
// llama31_8b: SIZE), llama2_70b_lora (TP, CP, MBS), gpt3.
//
// The meaning of the variables, and what holds without them: mlcommons/training_results_v4.1 at
// b87b9e39, v5.0 at 0fdc28f0, v5.1 at 441d65f4, NVIDIA/benchmarks/*/implementations/*:
// conf/custom.yaml and pretrain.py, conf/megatron_gpt_custom.yaml,
// conf/megatron_gpt_peft_tuning_config.yaml and train.py. Buckets: NVIDIA/NeMo,
// megatron_comm_overlap.py, _get_optimizer_overlap_cfgs.
#include "sim/interop/megatron/mlperf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/config/data_files.hpp"
#include "sim/interop/megatron/mlperf_variables.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

using Benchmark = MlperfBenchmark;

struct ModelSize {
  std::string_view word, model;
  Benchmark benchmark;
};
constexpr std::array model_sizes{ModelSize{"8b", "llama-3.1-8b", Benchmark::llama31},
                                 ModelSize{"20b", "gpt-oss-20b", Benchmark::gpt_oss},
                                 ModelSize{"70b", "llama-3.1-70b", Benchmark::llama31},
                                 ModelSize{"405b", "llama-3.1-405b", Benchmark::llama31},
                                 ModelSize{"671b", "deepseek-v3-mtp", Benchmark::dsv3}};
// gpt_oss_20b is trained on the tokens of Llama 3.1 (pretrain.py).
constexpr std::int64_t llama_vocabulary = 128'256;

class MlperfReader {
 public:
  MlperfReader(const Document& file, const ImportRequest& request)
      : file_{file}, request_{request}, root_{file.root_object()} {}

  Imported read() {
    benchmark();
    if (kind_ == Benchmark::none) {
      root_.ignore_unknown();
      file_.finish();
    }
    model();
    machine();
    parallelism();
    precision();
    storage();
    rest();
    file_.finish();
    const MegatronRules rules{.fp32_gradients_by_default = false,
                              .groups_without_switch = true,
                              .checks_gradients = false,
                              .layout_excludes_virtual_stages = false};
    Imported result = scenario_of_megatron(config_, rules, request_, root_);
    adapters(result.layout);
    result.graphs = read_.graphs;
    result.graph_scope = read_.graph_scope;
    result.segment_gpus = segment_gpus_;
    result.ignored.insert(result.ignored.end(), read_.ignored.begin(), read_.ignored.end());
    result.notes.insert(result.notes.begin(), read_.notes.begin(), read_.notes.end());
    for (const Remark& remark : file_.remarks())
      result.notes.push_back({remark.about, remark.what});
    finish_import(file_, root_, result);
    return result;
  }

 private:
  // The readers of variables, under their short names.
  using Names = MlperfVariables::Names;
  Text text(Names names) { return in_.text(names); }
  Whole whole(Names names) { return in_.whole(names); }
  Whole whole_or(Names names, std::int64_t fallback) { return in_.whole_or(names, fallback); }
  Flag flag(Names names, bool fallback) { return in_.flag(names, fallback); }
  bool is_set(const char* name) const { return in_.is_set(name); }
  void note(const char* key, std::string what) { in_.note(key, std::move(what)); }

  void benchmark() {
    if (is_set("MODEL_SIZE"))
      sized();
    else if (is_set("SIZE") && is_set("GBS"))
      kind_ = Benchmark::llama31_amd;
    else if (is_set("TP") || is_set("MBS") || is_set("LORA_A2A"))
      kind_ = is_set("TENSOR_MODEL_PARALLEL") ? Benchmark::gpt3 : Benchmark::lora;
    else if (is_set("TENSOR_MODEL_PARALLEL"))
      only_gpt3();
    else if (const Text experiment = text({"EXP"}))
      experiment.place->problem(fmt::format(
          "is '{}', an experiment of Primus: give that file to 'stepcast import primus' "
          "(--define NAME=VALUE for the variables that this one sets)",
          (*experiment).substr(0, 80)));
    else
      root_.problem(
          "none of MODEL_SIZE, SIZE with GBS, TP and TENSOR_MODEL_PARALLEL is set: is this a "
          "config_*.sh of llama31_405b, llama31_8b, llama2_70b_lora, gpt3, gpt_oss_20b or "
          "deepseekv3_671b, as NVIDIA and AMD write them?");
  }

  // Files of GPT-3 are told by what they do not set, so all that they source has to be there.
  void only_gpt3() {
    for (const Remark& remark : file_.remarks())
      if (!remark.about.starts_with('$'))
        return root_.problem(fmt::format(
            "sets no MODEL_SIZE, and {} may: {}; put it there, or give --define MODEL_SIZE=VALUE "
            "and what else it sets",
            remark.about, remark.what));
    kind_ = Benchmark::gpt3;
  }

  void sized() {
    const Text size = text({"MODEL_SIZE"});
    const auto row = std::ranges::find(model_sizes, size.value_or(""), &ModelSize::word);
    if (row != model_sizes.end()) {
      kind_ = row->benchmark;
      model_ = row->model;
      return;
    }
    std::string words;
    for (const ModelSize& one : model_sizes)
      words += fmt::format("{}{}", words.empty() ? "" : ", ", one.word);
    root_.problem("MODEL_SIZE",
                  fmt::format("is '{}'; allowed: {}", size.value_or("").substr(0, 80), words));
  }

  // The benchmark's model; --model replaces it.
  void model() {
    if (kind_ == Benchmark::llama31_amd) amd_size();
    std::string name = !model_.empty()            ? std::string{model_}
                       : kind_ == Benchmark::lora ? "llama-2-70b"
                                                  : "gpt3-175b";
    if (kind_ == Benchmark::dsv3) config_.mtp_layers = depths();
    if (kind_ == Benchmark::dsv3 && *config_.mtp_layers == 0) name = "deepseek-v3";
    if (!request_.model) {
      request_.model = load_model(find_data_file("models", name)).shape;
      if (kind_ == Benchmark::gpt_oss) request_.model->vocabulary = llama_vocabulary;
    }
    const Whole layers = whole({"OVERWRITTEN_NUM_LAYERS", "NUM_LAYERS"});
    if (!layers) return;
    if (*layers < 1 || *layers > transformer_limits::layers)
      layers.place->problem(
          fmt::format("is {}; allowed: 1 to {}", *layers, transformer_limits::layers));
    else
      request_.model->layers = *layers;
  }

  void amd_size() {
    const Text size = text({"SIZE"});
    if (*size != "8b")
      size.place->problem(fmt::format("is '{}'; allowed: 8b", (*size).substr(0, 80)));
    model_ = "llama-3.1-8b";
  }

  // Depths of multi-token prediction.
  std::int64_t depths() {
    const Whole count = whole_or({"MTP_NUM_LAYERS"}, 1);
    if (*count != 0 && *count != 1)
      count.place->problem(fmt::format("is {}; modelled: 0, 1", *count));
    return *count;
  }

  void machine() {
    constexpr std::int64_t most = 1 << 20;
    const Whole nodes = whole_or({"DGXNNODES", "NNODES"}, 1),
                per_node = whole_or({"DGXNGPU", "GPUS_PER_NODE"}, 8);
    for (const Whole* count : {&nodes, &per_node})
      if (**count < 1 || **count > most)
        count->place->problem(fmt::format("is {}; allowed: 1 to {}", **count, most));
    const Whole segment = whole({"SEGMENT"});  // nodes
    if (segment && (*segment < 1 || *segment > most))
      segment.place->problem(fmt::format("is {}; allowed: 1 to {}", *segment, most));
    else if (segment)
      segment_gpus_ =
          static_cast<int>(std::min(most, *segment * std::clamp<std::int64_t>(*per_node, 1, most)));
    const std::int64_t gpus =
        std::clamp<std::int64_t>(*nodes, 1, most) * std::clamp<std::int64_t>(*per_node, 1, most);
    if (gpus > most)
      root_.problem("DGXNNODES", fmt::format("{} GPUs; at most {}", gpus, most));
    else if (request_.gpus == 0)
      request_.gpus = static_cast<int>(gpus);
    else if (request_.gpus != gpus)
      note("gpus", fmt::format("{} as asked for, not {} x {} of the file", request_.gpus, *nodes,
                               *per_node));
  }

  void parallelism() {
    const bool tunes = kind_ == Benchmark::lora;
    config_.tensor_parallel = whole({"TENSOR_MODEL_PARALLEL", "TP"});
    config_.pipeline_parallel = whole({"PIPELINE_MODEL_PARALLEL", "PP"});
    config_.context_parallel =
        whole_or({"CONTEXT_PARALLEL", "CP"}, kind_ == Benchmark::llama31 ? 4 : 1);
    config_.sequence_parallel =
        flag({"SEQ_PARALLEL", "SP"}, !tunes && kind_ != Benchmark::llama31_amd);
    if (config_.tensor_parallel.value_or(1) == 1) config_.sequence_parallel.value = false;
    virtual_stages();
    config_.account_for_embedding = flag({"ASYM_PP_EMBED"}, false);
    config_.account_for_loss = flag({"ASYM_PP_LOSS"}, false);
    config_.tp_pp_dp_mapping = flag({"TP_PP_DP_MAPPING"}, false);
    config_.overlap_p2p = flag({"OVERLAP_P2P_COMM"}, true);
    config_.tp_comm_overlap = flag({"TP_COMM_OVERLAP"}, false);
    if (config_.tensor_parallel.value_or(1) == 1) config_.tp_comm_overlap.value = false;
    if (tunes && *config_.tp_comm_overlap) {
      config_.tp_comm_overlap.value = false;
      read_.notes.push_back({.key = "TP_COMM_OVERLAP",
                             .what = "beside adapters tensor communication is modelled as exposed",
                             .unmodelled = true});
    }
    config_.cp_comm_type = text({"CP_COMM_TYPE"});
    // AMD's code (USE_HIPBLASLT) leaves it to Transformer Engine, which has p2p.
    const bool all_to_all =
        (tunes && !*flag({"USE_HIPBLASLT"}, false)) || kind_ == Benchmark::gpt_oss;
    if (all_to_all && !config_.cp_comm_type) config_.cp_comm_type = std::string{"a2a"};
    config_.micro_batch_size = whole_or({"MICRO_BATCH_SIZE", "MBS"}, 1);
    config_.seq_length = whole_or({"MAX_SEQLEN", "ENCODER_SEQ_LENGTH", "SEQ_LENGTH"},
                                  kind_ == Benchmark::gpt3   ? 2048
                                  : kind_ == Benchmark::dsv3 ? 4096
                                                             : 8192);
    read_mlperf_experts(in_, kind_, config_);
    batch();
  }

  // The Hydra file of the pretraining has 12 where nothing is set, and none with one stage.
  void virtual_stages() {
    if (config_.pipeline_parallel.value_or(1) == 1) {
      if (const Whole unused = whole({"INTERLEAVED_PIPELINE", "VP"}))
        read_.ignored.push_back(unused.name);
      return;
    }
    const bool said = is_set("INTERLEAVED_PIPELINE") || is_set("VP");
    config_.virtual_stages = whole({"INTERLEAVED_PIPELINE", "VP"});
    if (!said && (kind_ == Benchmark::llama31 || kind_ == Benchmark::gpt3))
      config_.virtual_stages = 12;
    if (config_.virtual_stages.value_or(1) == 0) config_.virtual_stages = Whole{};
  }

  // MINIBS: sequences of a step per data-parallel rank.
  void batch() {
    if (kind_ == Benchmark::llama31_amd) config_.global_batch_size = whole({"GBS"});
    if (has_experts(kind_)) config_.global_batch_size = whole({"GLOBAL_BATCH_SIZE"});
    if (config_.global_batch_size) return;
    const Whole per_rank = whole_or({"MINIBS"}, 1);
    const std::int64_t inner = config_.tensor_parallel.value_or(1) *
                               config_.pipeline_parallel.value_or(1) *
                               config_.context_parallel.value_or(1);
    if (*per_rank < 1 || *per_rank > 1'000'000)
      return per_rank.place->problem(fmt::format("is {}; allowed: 1 to 1000000", *per_rank));
    if (inner < 1 || inner > request_.gpus || request_.gpus % inner != 0) return;  // told later
    config_.global_batch_size = Whole{*per_rank * (request_.gpus / inner), per_rank.place};
  }

  // Frozen weights are in 8 bits wherever products are, whatever is said of gathers: the model is
  // made under fp8_model_init (v5.0 and v5.1, custom_llama.py; v4.1, conf, fp8_params: FP8). In 4
  // bits they are replaced by what PRE_QUANTIZED_MODEL makes of them (custom_callbacks.py).
  void precision() {
    const bool tunes = kind_ == Benchmark::lora, amd = kind_ == Benchmark::llama31_amd;
    config_.bf16 = true;
    config_.grads_in_fp32 = false;
    const Flag fp4 = flag({"FP4"}, false);
    const Flag fp8 = flag({"FP8"}, tunes || amd);
    const Flag hybrid = flag({"FP8_HYBRID"}, tunes || amd);
    const Text recipe = text({"FP8_RECIPE"});
    const Flag gathers = flag({"FP8_PARAM_GATHER", "FP8_PARAMS"}, false);
    if (*fp8 && *fp4) fp4.place->problem("FP4 excludes FP8");
    if (*fp8) {
      config_.fp8 = Text{*hybrid ? "hybrid" : "e4m3", fp8.place};
      config_.fp8_recipe = Text{recipe.value_or(kind_ == Benchmark::dsv3      ? "mxfp8"
                                                : kind_ == Benchmark::gpt_oss ? "tensorwise"
                                                                              : "delayed"),
                                recipe.place};
      config_.fp8_param_gather = tunes ? Flag{true, fp8.place} : gathers;
    }
    const Text of_attention = text({"NVTE_DPA_FP8_RECIPE"});
    if (*fp8 || *fp4) {
      // F16 takes attention out of what products are in (Transformer Engine,
      // pytorch/attention/dot_product_attention).
      constexpr std::array<std::string_view, 6> known{"",
                                                      "F16",
                                                      "DelayedScaling",
                                                      "Float8CurrentScaling",
                                                      "MXFP8BlockScaling",
                                                      "NVFP4BlockScaling"};
      const std::string word = of_attention.value_or("");
      if (std::ranges::find(known, word) == known.end())
        of_attention.place->problem(fmt::format(
            "is '{}'; allowed: F16, DelayedScaling, Float8CurrentScaling", word.substr(0, 80)));
      const Flag attention = flag({"FP8_DPA"}, false);
      if (word != "F16") config_.fp8_attention = attention;
    } else if (of_attention) {
      read_.ignored.emplace_back("NVTE_DPA_FP8_RECIPE");
    }
    if (*fp4) {
      const Flag frozen = flag({"PRE_QUANTIZED_MODEL"}, false), all = flag({"FP4_PARAM"}, false);
      config_.fp4 = Text{"e2m1", fp4.place};
      config_.fp4_recipe = text({"FP4_RECIPE"});
      config_.fp4_param_gather = tunes && *frozen ? frozen : all;
    }
    config_.bf16_ends = flag({"FIRST_LAST_LAYERS_BF16"}, false);
    config_.bf16_at_start = whole_or({"NUM_LAYERS_AT_START_IN_BF16"}, 0);
    config_.bf16_at_end = whole_or({"NUM_LAYERS_AT_END_IN_BF16"}, 0);
  }

  void storage() {
    const bool llama = kind_ == Benchmark::llama31, tunes = kind_ == Benchmark::lora;
    const bool amd = kind_ == Benchmark::llama31_amd, experts = has_experts(kind_);
    config_.distributed_optimizer = flag({"USE_DIST_OPTIMIZER", "USE_DISTRIBUTED_OPTIMIZER"}, true);
    config_.overlap_grad_reduce =
        flag({"OVERLAP_GRAD_REDUCE", "DDP_OVERLAP_GRAD_REDUCE", "OVERLAP_GRAD_SYNC"},
             (!tunes && !amd) || is_set("MCORE_OPTIM_OVERLAP_PARAM_SYNC"));  // v4.1
    config_.overlap_param_gather = flag({"OVERLAP_PARAM_GATHER", "DDP_OVERLAP_PARAM_GATHER",
                                         "OVERLAP_PARAM_SYNC", "MCORE_OPTIM_OVERLAP_PARAM_SYNC"},
                                        !tunes && !amd);
    config_.average_in_collective =
        flag({"DDP_AVERAGE_IN_COLLECTIVE", "AVERAGE_IN_COLLECTIVE"}, llama || amd);
    const Whole bucket = whole({"BUCKET_SIZE"});
    if (llama || experts) config_.bucket_size = bucket.value_or(128LL << 20);
    if (whole({"BUCKET_CAP_MB"})) read_.ignored.emplace_back("BUCKET_CAP_MB");
    if (bucket && !llama && !experts) read_.ignored.emplace_back("BUCKET_SIZE");
    config_.recompute_granularity = text({"ACT_CKPT_GRANULARITY", "RECOMPUTE_GRANULARITY", "ACG"});
    config_.recompute_method = text({"ACT_CKPT_METHOD", "RECOMPUTE_METHOD", "ACM"});
    config_.recompute_num_layers = whole({"ACT_CKPT_NUM_LAYERS", "RECOMPUTE_NUM_LAYERS", "ACL"});
    config_.recompute_modules = text({"RECOMPUTE_MODULES"});
    if (experts && config_.recompute_modules && !config_.recompute_granularity)
      config_.recompute_granularity = std::string{"selective"};
    config_.offload_activations = flag({"CPU_OFFLOADING"}, false);
    if (*config_.offload_activations && tunes)
      config_.offload_activations.place->problem("is not modelled beside adapters; allowed: 0");
    else if (*config_.offload_activations)
      config_.offload_layers = whole({"CPU_OFFLOADING_NUM_LAYERS"});
    const bool whole_step = *flag({"FULL_CUDA_GRAPH"}, false);
    const bool layers = *flag({"MCORE_CUDA_GRAPH"}, false);
    read_graph_switch(root_, "CUDA_GRAPH_IMPLEMENTATION", read_);
    read_graph_scope(root_, {"CUDA_GRAPH_SCOPE", "CUDA_GRAPH_MODULES"}, read_);
    read_.graphs |= *flag({"LAYER_CUDA_GRAPH"}, false) || layers || whole_step;
    config_.check_gradients = llama && !whole_step && !layers;
    config_.fused_loss = !tunes && *flag({"CROSS_ENTROPY_LOSS_FUSION"}, true);
    config_.loss_fusion = text({"CE_FUSION_IMPL"});
    const bool gpt_oss = kind_ == Benchmark::gpt_oss;
    if (gpt_oss && !config_.loss_fusion) config_.loss_fusion = std::string{"te"};
    config_.operation_fuser = flag({"USE_TE_OPS"}, gpt_oss);
    config_.fp8_gate_inputs = flag({"FP8_ACT", "FP8_ACTIVATION"}, false);
    if (experts) config_.optimizer_instances = whole({"NUM_DISTOPT_INSTANCES"});
  }

  // train.py: adapters of rank 16 on the attention's linears, behind dropout. In v4.1, which knows
  // no CG_WEIGHT_CACHING, transposed weights are not kept (conf,
  // disable_parameter_transpose_cache).
  void adapters(Layout& layout) {
    if (kind_ != Benchmark::lora) return;
    layout.lora_rank = static_cast<int>(rank_);
    layout.lora_modules = {LoraModule::linear_qkv, LoraModule::linear_proj};
    layout.lora_dropout = 0.1;
    const bool keeps_none = !is_set("CG_WEIGHT_CACHING");
    if (keeps_none && layout.eight_bit_parameters && layout.compute_dtype == DType::fp8)
      layout.frozen_orders = FrozenOrders::transposed;
  }

  void rest() {
    if (kind_ != Benchmark::llama31_amd && is_set("SIZE"))
      note("SIZE", "is of AMD's llama31_8b: it says nothing here");
    const Whole rank = whole_or({"LORA_DIM"}, 16);
    if (*rank < 1 || *rank > 65'536)
      rank.place->problem(fmt::format("is {}; allowed: 1 to 65536", *rank));
    else
      rank_ = *rank;
    judge_keys(root_, known_keys("mlperf", "tuning"), "", read_);
    std::string names;
    for (const KnownKey& knob : known_keys("mlperf", "knobs"))
      if (const std::optional<ValueReader> value = root_.find(knob.name);
          value && !is_neutral(*value, "0"))
        names += fmt::format("{}{}", names.empty() ? "" : ", ", knob.name);
    if (!names.empty())
      note("tuning", "NCCL and Transformer Engine are modelled as they are without " + names);
    judge_keys(root_, known_keys("mlperf", "around"), "", read_);
    note_unknown_keys(root_, "", read_);
  }

  const Document& file_;
  ImportRequest request_;
  const ObjectReader root_;
  MegatronConfig config_;
  Imported read_;
  MlperfVariables in_{root_, read_};
  std::string_view model_{};  // by its size; empty: the benchmark's own
  Benchmark kind_ = Benchmark::none;
  std::int64_t rank_ = 16;
  int segment_gpus_ = 0;
};

struct System {
  std::string_view word, cluster;
};
// The machines that words in the names of the files stand for. The first that fits counts.
constexpr std::array systems{
    System{"DGXA100", "dgx-a100-80"}, System{"H100", "dgx-h100"},     System{"H200", "dgx-h200"},
    System{"GB200", "gb200-nvl72"},   System{"GB300", "gb300-nvl72"}, System{"B200", "dgx-b200"},
    System{"B300", "dgx-b300"},       System{"MI300X", "mi300x-8"},   System{"MI325X", "mi325x-8"},
    System{"MI350X", "mi350x-8"},     System{"MI355X", "mi355x-8"}};

}  // namespace

std::string cluster_of_mlperf(std::string_view file) {
  const std::string_view name = file.substr(file.rfind('/') + 1);
  for (const System& system : systems)
    if (name.find(system.word) != std::string_view::npos) return std::string{system.cluster};
  return {};
}

Imported import_mlperf(const Document& variables, const ImportRequest& request) {
  return MlperfReader{variables, request}.read();
}

}  // namespace sim
