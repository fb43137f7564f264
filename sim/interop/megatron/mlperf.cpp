// NVIDIA's submissions to MLPerf Training: config_*.sh sets the variables of which the benchmark's
// Hydra file makes a configuration of NeMo. Read are the language models: llama31_405b and
// llama31_8b (MODEL_SIZE), llama2_70b_lora (TP, CP, MBS), gpt3.
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
#include <initializer_list>

#include "sim/config/data_files.hpp"
#include "sim/interop/settings.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

enum class Benchmark : std::uint8_t { none, llama31, lora, gpt3 };

struct ModelSize {
  std::string_view word, model;
};
constexpr std::array model_sizes{ModelSize{"8b", "llama-3.1-8b"}, ModelSize{"70b", "llama-3.1-70b"},
                                 ModelSize{"405b", "llama-3.1-405b"}};

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
    result.graphs = graphs_;
    result.segment_gpus = segment_gpus_;
    result.ignored.insert(result.ignored.end(), read_.ignored.begin(), read_.ignored.end());
    result.notes.insert(result.notes.begin(), read_.notes.begin(), read_.notes.end());
    for (const Remark& remark : file_.remarks())
      result.notes.push_back({remark.about, remark.what});
    finish_import(file_, root_, result);
    return result;
  }

 private:
  using Names = std::initializer_list<const char*>;

  // The first that is set; 'null' and nothing are not.
  Text text(Names names) {
    Text found;
    for (const char* name : names) {
      Text one;
      read_setting(root_, name, one);
      if (!one || (*one).empty()) continue;
      if (found)
        read_.ignored.emplace_back(name);  // the first counts
      else
        found = one;
    }
    return found;
  }
  Whole whole(Names names) {
    Whole found;
    for (const char* name : names) {
      const std::optional<ValueReader> value = root_.find(name);
      if (!value || value->peek_text().value_or("").empty()) continue;
      Whole one;
      read_setting(root_, name, one);
      if (!one) continue;
      if (found)
        read_.ignored.emplace_back(name);  // the first counts
      else
        found = one;
    }
    return found;
  }
  Whole whole_or(Names names, std::int64_t fallback) {
    Whole found = whole(names);
    if (!found) found = fallback;
    return found;
  }
  // Hydra takes 1 and True alike.
  Flag flag(Names names, bool fallback) {
    const Text word = text(names);
    Flag found{fallback, word.place};
    if (!word) return found;
    if (*word == "1" || *word == "True" || *word == "true")
      found.value = true;
    else if (*word == "0" || *word == "False" || *word == "false")
      found.value = false;
    else
      word.place->problem(
          fmt::format("is '{}'; expected True, False, 1 or 0", (*word).substr(0, 80)));
    return found;
  }
  bool is_set(const char* name) { return root_.has(name); }
  void note(const char* key, std::string what) { read_.notes.push_back({key, std::move(what)}); }

  void benchmark() {
    if (is_set("MODEL_SIZE"))
      kind_ = Benchmark::llama31;
    else if (is_set("TP") || is_set("MBS") || is_set("LORA_A2A"))
      kind_ = is_set("TENSOR_MODEL_PARALLEL") ? Benchmark::gpt3 : Benchmark::lora;
    else if (is_set("TENSOR_MODEL_PARALLEL"))
      kind_ = Benchmark::gpt3;
    else
      root_.problem(
          "neither TENSOR_MODEL_PARALLEL nor TP is set: is this a config_*.sh of NVIDIA's "
          "llama31_405b, llama31_8b, llama2_70b_lora or gpt3?");
  }

  // The benchmark's model; --model replaces it.
  void model() {
    std::string name = kind_ == Benchmark::lora ? "llama-2-70b" : "gpt3-175b";
    if (kind_ == Benchmark::llama31) {
      const Text size = text({"MODEL_SIZE"});
      const auto row = std::ranges::find(model_sizes, size.value_or(""), &ModelSize::word);
      if (row == model_sizes.end()) {
        root_.problem("MODEL_SIZE", fmt::format("is '{}'; allowed: 8b, 70b, 405b",
                                                size.value_or("").substr(0, 80)));
        return;
      }
      name = std::string{row->model};
    }
    if (!request_.model) request_.model = load_model(find_data_file("models", name)).shape;
    const Whole layers = whole({"OVERWRITTEN_NUM_LAYERS", "NUM_LAYERS"});
    if (!layers) return;
    if (*layers < 1 || *layers > transformer_limits::layers)
      layers.place->problem(
          fmt::format("is {}; allowed: 1 to {}", *layers, transformer_limits::layers));
    else
      request_.model->layers = *layers;
  }

  void machine() {
    constexpr std::int64_t most = 1 << 20;
    const Whole nodes = whole_or({"DGXNNODES"}, 1), per_node = whole_or({"DGXNGPU"}, 8);
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
    config_.sequence_parallel = flag({"SEQ_PARALLEL", "SP"}, !tunes);
    if (config_.tensor_parallel.value_or(1) == 1) config_.sequence_parallel.value = false;
    virtual_stages();
    config_.account_for_embedding = flag({"ASYM_PP_EMBED"}, false);
    config_.account_for_loss = flag({"ASYM_PP_LOSS"}, false);
    config_.tp_pp_dp_mapping = flag({"TP_PP_DP_MAPPING"}, false);
    config_.overlap_p2p = flag({"OVERLAP_P2P_COMM"}, true);
    config_.tp_comm_overlap = flag({"TP_COMM_OVERLAP"}, false);
    if (config_.tensor_parallel.value_or(1) == 1) config_.tp_comm_overlap.value = false;
    config_.cp_comm_type = text({"CP_COMM_TYPE"});
    if (tunes && !config_.cp_comm_type) config_.cp_comm_type = std::string{"a2a"};
    config_.micro_batch_size = whole_or({"MICRO_BATCH_SIZE", "MBS"}, 1);
    config_.seq_length = whole_or({"MAX_SEQLEN"}, kind_ == Benchmark::gpt3 ? 2048 : 8192);
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
    if (!said && kind_ != Benchmark::lora) config_.virtual_stages = 12;
    if (config_.virtual_stages.value_or(1) == 0) config_.virtual_stages = Whole{};
  }

  // MINIBS: sequences of a step per data-parallel rank.
  void batch() {
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
    const bool tunes = kind_ == Benchmark::lora;
    config_.bf16 = true;
    config_.grads_in_fp32 = false;
    const Flag fp4 = flag({"FP4"}, false);
    const Flag fp8 = flag({"FP8"}, tunes);
    const Flag hybrid = flag({"FP8_HYBRID"}, tunes);
    const Text recipe = text({"FP8_RECIPE"});
    const Flag gathers = flag({"FP8_PARAM_GATHER", "FP8_PARAMS"}, false);
    if (*fp8 && *fp4) fp4.place->problem("FP4 excludes FP8");
    if (*fp8) {
      config_.fp8 = Text{*hybrid ? "hybrid" : "e4m3", fp8.place};
      config_.fp8_recipe = Text{recipe.value_or("delayed"), recipe.place};
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
      config_.fp4_param_gather = tunes && *frozen ? frozen : all;
    }
    config_.bf16_ends = flag({"FIRST_LAST_LAYERS_BF16"}, false);
    config_.bf16_at_start = whole_or({"NUM_LAYERS_AT_START_IN_BF16"}, 0);
    config_.bf16_at_end = whole_or({"NUM_LAYERS_AT_END_IN_BF16"}, 0);
  }

  void storage() {
    const bool llama = kind_ == Benchmark::llama31, tunes = kind_ == Benchmark::lora;
    config_.distributed_optimizer = flag({"USE_DIST_OPTIMIZER", "USE_DISTRIBUTED_OPTIMIZER"}, true);
    config_.overlap_grad_reduce =
        flag({"OVERLAP_GRAD_REDUCE", "DDP_OVERLAP_GRAD_REDUCE", "OVERLAP_GRAD_SYNC"},
             !tunes || is_set("MCORE_OPTIM_OVERLAP_PARAM_SYNC"));  // v4.1
    config_.overlap_param_gather = flag({"OVERLAP_PARAM_GATHER", "DDP_OVERLAP_PARAM_GATHER",
                                         "OVERLAP_PARAM_SYNC", "MCORE_OPTIM_OVERLAP_PARAM_SYNC"},
                                        !tunes);
    config_.average_in_collective = flag({"DDP_AVERAGE_IN_COLLECTIVE"}, llama);
    const Whole bucket = whole({"BUCKET_SIZE"});
    if (llama) config_.bucket_size = bucket.value_or(128LL << 20);
    if (whole({"BUCKET_CAP_MB"})) read_.ignored.emplace_back("BUCKET_CAP_MB");
    if (bucket && !llama) read_.ignored.emplace_back("BUCKET_SIZE");
    config_.recompute_granularity = text({"ACT_CKPT_GRANULARITY", "RECOMPUTE_GRANULARITY", "ACG"});
    config_.recompute_method = text({"ACT_CKPT_METHOD", "RECOMPUTE_METHOD", "ACM"});
    config_.recompute_num_layers = whole({"ACT_CKPT_NUM_LAYERS", "RECOMPUTE_NUM_LAYERS", "ACL"});
    config_.recompute_modules = text({"RECOMPUTE_MODULES"});
    const bool whole_step = *flag({"FULL_CUDA_GRAPH"}, false);
    const bool layers = *flag({"MCORE_CUDA_GRAPH"}, false);
    graphs_ = *flag({"LAYER_CUDA_GRAPH"}, false) || layers || whole_step;
    if (text({"CUDA_GRAPH_SCOPE"})) read_.ignored.emplace_back("CUDA_GRAPH_SCOPE");
    config_.check_gradients = llama && !whole_step && !layers;
    config_.fused_loss = !tunes && *flag({"CROSS_ENTROPY_LOSS_FUSION"}, true);
    config_.loss_fusion = text({"CE_FUSION_IMPL"});
    config_.operation_fuser = flag({"USE_TE_OPS"}, false);
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
  Benchmark kind_ = Benchmark::none;
  std::int64_t rank_ = 16;
  bool graphs_ = false;
  int segment_gpus_ = 0;
};

struct System {
  std::string_view word, cluster;
};
// The machines that words in the names of the files stand for. The first that fits counts.
constexpr std::array systems{System{"DGXA100", "dgx-a100-80"}, System{"H100", "dgx-h100"},
                             System{"H200", "dgx-h200"},       System{"GB200", "gb200-nvl72"},
                             System{"GB300", "gb300-nvl72"},   System{"B200", "dgx-b200"},
                             System{"B300", "dgx-b300"},       System{"MI300X", "mi300x-8"},
                             System{"MI325X", "mi325x-8"},     System{"MI355X", "mi355x-8"}};

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
