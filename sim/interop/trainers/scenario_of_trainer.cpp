#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "sim/framework/presets/preset.hpp"
#include "sim/interop/trainers/experts_of_trainer.hpp"
#include "sim/interop/trainers/trainer_job.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/sharding/low_rank.hpp"

namespace sim {
namespace {

// torch.distributed.fsdp.ShardingStrategy, which Accelerate numbers from 1 (utils/constants.py,
// FSDP_SHARDING_STRATEGY).
constexpr std::array<std::string_view, 5> fsdp_strategies{"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                                          "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return text;
}

class TrainerScenario : private SettingProblems {
 public:
  TrainerScenario(const TrainerJob& job, const ImportRequest& request, const ObjectReader& root,
                  Imported& result)
      : SettingProblems{root}, job_{job}, request_{request}, root_{root}, result_{result} {}

  void read(MissingOptions& missing) {
    gpus_ = request_.gpus > 0 ? request_.gpus : job_.processes.value_or(degrees_of_file());
    find_missing(missing);
    if (missing.any()) {
      at_root(missing.sentence("FILE"));
      return;
    }
    result_.shape = *request_.model;
    layout().sequence_length =
        job_.sequence_length ? size(job_.sequence_length, 1, 1LL << 32) : request_.sequence_length;
    if (job_.sequence_ranks.value_or(1) != 1)
      problem(job_.sequence_ranks, "is {}: Ulysses needs distributed_type DEEPSPEED; allowed: 1",
              *job_.sequence_ranks);
    framework();
    precision();
    if (!degrees()) return;
    if (job_.engine == TrainerEngine::fsdp) fsdp();
    batch();
    read_trainer_pipeline(job_, *this, result_);
    recomputation();
    take_optimizer(job_, layout());
    layout().attention = attention();
  }

 private:
  Layout& layout() { return result_.layout; }
  // The GPUs where the file says how many share the parameters; 0: it does not.
  std::int64_t degrees_of_file() const {
    if (!job_.shard) return 0;
    std::int64_t gpus = 1;
    for (const Whole* degree : {&job_.shard, &job_.replicate, &job_.tensor, &job_.context}) {
      const std::int64_t count = degree->value_or(1);
      if (count < 1 || count > most_ranks || (gpus *= count) > most_ranks) return 0;
    }
    return gpus;
  }
  void note(const char* key, std::string what) { result_.notes.push_back({key, std::move(what)}); }

  void find_missing(MissingOptions& missing) {
    ImportRequest known = request_;
    known.gpus = static_cast<int>(std::clamp<std::int64_t>(gpus_, 0, most_ranks));
    if (job_.sequence_length) known.sequence_length = 1;
    missing.add_common(known);
    batch_ = job_.batch;
    add_options(request_, batch_);
    if (!batch_.micro && !batch_.whole)
      missing.add("--micro-batch-size 1", "the sequences per GPU");
  }

  // scaled_dot_product_attention takes cuDNN's kernel first on compute capabilities 9 and 10, from
  // cuDNN 9.15 on (pytorch/pytorch at 001f694a,
  // aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, check_prefer_cudnn_attention).
  AttentionKernel attention() const {
    const bool flash_2 = job_.attention == TrainerAttention::flash_2 ||
                         (job_.attention == TrainerAttention::sdpa && !request_.prefers_cudnn);
    return flash_2 && request_.has_flash_2 ? AttentionKernel::flash_2 : AttentionKernel::flash;
  }

  // transformers' models, operator by operator.
  void framework() {
    Framework& made = result_.framework;
    PresetName name = PresetName::transformers;
    if (job_.engine == TrainerEngine::fsdp)
      name = version() == 2 ? PresetName::fsdp2 : PresetName::fsdp1;
    made = preset_of(name).framework;
    if (job_.multi_tensor) made.optimizer = OptimizerForm::eager;
    if (job_.compiled) compile_layers(made, result_.notes);
    run_with_liger(job_.liger, made);
    if (!job_.own_experts) set_transformers_experts(result_);
  }

  int version() const { return static_cast<int>(job_.fsdp.version.value_or(1)); }

  // Under FSDP parameters are fp32 shards, gathered and reduced in the format of mixed precision
  // (set_mixed_precision). Without it autocast leaves parameters and gradients as they were loaded.
  void precision() {
    const std::string mixed = job_.mixed.value_or("no");
    DType type = DType::fp32;
    if (mixed == "bf16") type = DType::bf16;
    if (mixed == "fp16") type = DType::fp16;
    if (mixed == "fp8") problem(job_.mixed, "fp8 of Accelerate is not modelled");
    if (mixed != "no" && mixed != "bf16" && mixed != "fp16" && mixed != "fp8")
      problem(job_.mixed, "is '{}'; allowed: no, fp16, bf16", mixed);
    const bool loaded_so = type != DType::fp32 && job_.weights == type &&
                           job_.engine == TrainerEngine::ddp && !job_.adapters.trains_adapters();
    const bool pure = mixed == "no" || loaded_so;
    if (mixed == "no") type = request_.precision.value_or(job_.weights);
    layout().compute_dtype = layout().activation_dtype = type;
    if (type == DType::fp32 && job_.tf32) layout().compute_dtype = DType::tf32;
    layout().gradient_dtype = layout().reduce_dtype = type;
    layout().master_weights = !pure;
    if (pure) {
      layout().moment_dtype = type;
      if (!loaded_so)
        note("mixed_precision", fmt::format("no: weights, gradients and states in {}", word(type)));
    } else if (job_.engine == TrainerEngine::ddp) {
      layout().gradient_dtype = layout().reduce_dtype = DType::fp32;
    }
  }

  bool degrees() {
    static_cast<void>(size(job_.machines, 1, most_ranks));
    if (job_.engine != TrainerEngine::fsdp)
      for (const Whole* unused : {&job_.replicate, &job_.shard, &job_.fsdp.version})
        if (unused->place) result_.ignored.push_back(unused->name);
    if (job_.processes && request_.gpus > 0 && *job_.processes != request_.gpus)
      note("num_processes", fmt::format("{} in the file, {} by --gpus", *job_.processes, gpus_));
    const Whole& tensor = job_.tensor;
    const Whole& context = job_.context;
    layout().tensor_parallel = static_cast<int>(size(tensor, 1, most_ranks));
    layout().context_parallel = static_cast<int>(size(context, 1, most_ranks));
    layout().pipeline_parallel = static_cast<int>(size(job_.pipeline, 1, 10'000));
    layout().overlap_tensor_wgrad = false;
    const std::int64_t inner = std::int64_t{layout().tensor_parallel} * layout().context_parallel *
                               layout().pipeline_parallel;
    if (gpus_ < 1 || gpus_ > most_ranks || gpus_ % inner != 0) {
      const std::string stages =
          job_.pipeline ? fmt::format(" x pp {}", layout().pipeline_parallel) : "";
      problem(job_.processes, "is {}; {} GPUs are no multiple of tp {} x cp {}{}", gpus_, gpus_,
              layout().tensor_parallel, layout().context_parallel, stages);
      return false;
    }
    layout().data_parallel = static_cast<int>(gpus_ / inner);
    if (layout().tensor_parallel > 1) tensor_parallelism();
    if (layout().context_parallel > 1) context_parallelism();
    return true;
  }

  // transformers' tp_plan: the head is "colwise_rep", whose logits each rank has.
  void tensor_parallelism() {
    result_.framework.execution.gathers_logits = true;
    layout().sequence_parallel = job_.sequence_parallel.value_or(false);
    if (job_.sequence_parallel) return;
    note("parallelism_config_tp_size",
         "products are modelled as split by column and row, without sequence parallelism");
  }

  void context_parallelism() {
    const std::string method = job_.context_method.value_or("allgather");
    if (method != "allgather" && method != "alltoall")
      problem(job_.context_method, "is '{}'; allowed: allgather, alltoall", method);
    layout().context_exchange =
        method == "alltoall" ? ContextExchange::ring : ContextExchange::all_gather;
  }

  void fsdp() {
    if (version() != 1 && version() != 2) {
      problem(job_.fsdp.version, "is {}; allowed: 1, 2", *job_.fsdp.version);
      return;
    }
    units();
    layout().zero_stage = 3;
    layout().overlap_gradients = layout().overlap_parameters = true;
    if (version() == 2)
      second_version();
    else
      first_version();
    offload();
    if (layout().replicas() == 1 && !layout().offloads_parameters()) layout().zero_stage = 0;
    const std::string prefetch = upper(job_.fsdp.prefetch.value_or("NO_PREFETCH"));
    constexpr std::array<std::string_view, 7> known{
        "BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH", "NONE", "1", "2", "3"};
    if (std::ranges::find(known, prefetch) == known.end())
      problem(job_.fsdp.prefetch, "is '{}'; allowed: BACKWARD_PRE, BACKWARD_POST, NO_PREFETCH",
              *job_.fsdp.prefetch);
    if (version() == 2 && job_.fsdp.prefetch)
      result_.ignored.push_back(job_.fsdp.prefetch.name);  // FSDP2 has no such switch
    if (version() == 1 && prefetch != "BACKWARD_PRE" && prefetch != "1")
      note("fsdp_backward_prefetch",
           fmt::format("{}: gathers are modelled one layer ahead, as with BACKWARD_PRE", prefetch));
  }

  // units() checks which modules are gathered at a time.
  void units() {
    const std::string wrap = upper(job_.fsdp.wrap.value_or("NO_WRAP"));
    if (wrap == "TRANSFORMER_BASED_WRAP") return;
    const char* all = "TRANSFORMER_BASED_WRAP";
    if (wrap == "NO_WRAP")
      problem(job_.fsdp.wrap,
              "fsdp_auto_wrap_policy is NO_WRAP{}: the whole model is one unit, gathered at once, "
              "which is not modelled; modelled: {}",
              job_.fsdp.wrap ? "" : ", the default", all);
    else
      problem(job_.fsdp.wrap, "is '{}'; modelled: {}", wrap, all);
  }

  // reshard_after_forward: true or false; dp_replicate and dp_shard from parallelism_config.
  void second_version() {
    if (job_.fsdp.strategy) note("fsdp_sharding_strategy", "has no effect with fsdp_version 2");
    const std::string reshard = job_.fsdp.reshard.value_or("true");
    const bool yes = reshard == "true" || reshard == "True";
    if (!yes && reshard != "false" && reshard != "False")
      problem(job_.fsdp.reshard, "is '{}'; with fsdp_version 2 allowed: true, false", reshard);
    layout().reshard_after_forward = yes;
    if (!job_.replicate && !job_.shard) return;
    const std::int64_t copies = size(job_.replicate, 1, most_ranks);
    const std::int64_t shard = size(job_.shard, 1, most_ranks);
    if (copies * shard != layout().data_parallel) {
      problem(job_.shard, "dp_replicate {} x dp_shard {} is not the {} data-parallel GPUs", copies,
              shard, layout().data_parallel);
      return;
    }
    const std::int64_t group = shard * layout().context_parallel;
    if (group == 1)
      layout().zero_stage = 0;
    else if (copies > 1)
      layout().shard_group = static_cast<int>(group);
  }

  void first_version() {
    if (job_.tensor.value_or(1) > 1 || job_.context.value_or(1) > 1 || job_.shard || job_.replicate)
      problem(job_.tensor.place ? job_.tensor : job_.shard,
              "parallelism_config needs fsdp_version 2");
    const std::string name = strategy();
    if (job_.fsdp.reshard && upper(*job_.fsdp.reshard) != name && !job_.fsdp.strategy)
      note("fsdp_reshard_after_forward",
           "with fsdp_version 1 Accelerate reads fsdp_sharding_strategy, by default FULL_SHARD");
    const auto found = std::ranges::find(fsdp_strategies, name);
    if (found == fsdp_strategies.end()) {
      problem(job_.fsdp.strategy,
              "is '{}'; allowed: 1 to 5, FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD, "
              "HYBRID_SHARD_ZERO2",
              job_.fsdp.strategy.value_or(""));
      return;
    }
    layout().reshard_after_forward = name == "FULL_SHARD" || name == "HYBRID_SHARD";
    if (name == "NO_SHARD") layout().zero_stage = 0;
    if (name.starts_with("HYBRID")) hybrid();
  }

  // Shards and the optimizer on the host (torch/distributed/fsdp/api.py, CPUOffload; _fully_shard/
  // _fsdp_api.py, CPUOffloadPolicy).
  void offload() {
    if (!job_.fsdp.offload.value_or(false)) return;
    if (layout().zero_stage != 3)
      return problem(job_.fsdp.offload, "needs a strategy that shards parameters");
    layout().offload_parameters = layout().offload_optimizer = OffloadTarget::cpu;
  }

  std::string strategy() const {
    const std::string text = upper(job_.fsdp.strategy.value_or("FULL_SHARD"));
    const bool number = text.size() == 1 && text[0] >= '1' && text[0] <= '5';
    return number ? std::string{fsdp_strategies.at(static_cast<std::size_t>(text[0] - '1'))} : text;
  }

  // Shards within a machine, copies across (torch/distributed/fsdp/_init_utils.py,
  // _init_intra_and_inter_node_groups).
  void hybrid() {
    const std::int64_t machines = job_.machines.value_or(1);
    const std::int64_t node = machines > 1 ? gpus_ / machines : request_.gpus_per_node;
    if (machines < 1 || node < 1 || gpus_ % std::max<std::int64_t>(1, node) != 0)
      problem(job_.machines, "hybrid sharding needs whole machines; {} GPUs on {} machines", gpus_,
              machines);
    else if (node < gpus_)
      layout().shard_group = static_cast<int>(node);
  }

  void batch() {
    const auto sizes = sizes_of(batch_, layout().data_parallel, root_);
    if (!sizes) return;
    layout().micro_batch = sizes->micro;
    layout().global_batch = sizes->global;
    if (!batch_.steps && !batch_.whole)
      note("gradient_accumulation_steps",
           "the file does not say: 1 (see "
           "--gradient-accumulation-steps)");
    if (layout().zero_stage == 3 && layout().micro_batches() > 1 && !job_.syncs_each) no_sync();
  }

  // accelerator.accumulate() runs all but the last micro-batch under no_sync
  // (FSDPModule.set_requires_gradient_sync of FSDP2).
  void no_sync() {
    if (version() == 2 && !layout().offloads_parameters())
      result_.framework.execution.accumulates_whole = true;
    else
      note_no_sync();
  }

  void note_no_sync() {
    const Model model = build_transformer(result_.shape);
    const std::int64_t trained = job_.adapters.trains_adapters()
                                     ? adapter_parameters(model, job_.adapters)
                                     : model.parameters();
    const double parameters = static_cast<double>(trained) / layout().tensor_parallel;
    const double bytes = parameters * bytes_of(layout().gradient_dtype);
    note("gradient_accumulation_steps",
         fmt::format("{} keeps whole gradients on every GPU until the last micro-batch "
                     "(no_sync), {:.1f} GB more than forecast, and reduces once; forecast: reduced "
                     "and sharded after each",
                     job_.program, bytes / 1e9));
  }

  void recomputation() {
    const Flag& asked = job_.fsdp.recompute.value_or(false) ? job_.fsdp.recompute : job_.recompute;
    if (asked.value_or(false))
      layout().recompute = Recompute::full;
    else if (request_.recompute)
      layout().recompute = *request_.recompute;
    else if (!asked)
      note("layout.recompute", "the file does not say what is recomputed: none (see --recompute)");
  }

  const TrainerJob& job_;
  const ImportRequest& request_;
  const ObjectReader& root_;
  Imported& result_;
  JobBatch batch_;
  std::int64_t gpus_ = 0;
};

}  // namespace

void fuse_layers(Framework& framework) {
  framework.layer_norm = framework.rms_norm = NormForm::compiled;
  framework.rotary = RotaryForm::fused;
  framework.qkv = framework.gate = KernelForm::fused;
  framework.execution.context = ContextForm::compiled;
}

void compile_layers(Framework& framework, std::vector<Note>& notes) {
  fuse_layers(framework);
  notes.push_back({"torch_compile",
                   "layers are forecast as torchtitan's compiled ones; breaks of the graph are not "
                   "modelled",
                   true});
}

void take_optimizer(const TrainerJob& job, Layout& layout) {
  layout.optimizer = job.optimizer;
  layout.state_format = job.states;
  const bool own = job.states != StateFormat::plain || job.optimizer == OptimizerKind::adafactor;
  if (own) layout.moment_dtype = DType::fp32;
}

void scenario_of_trainer(const TrainerJob& job, const ImportRequest& request,
                         MissingOptions& missing, const ObjectReader& root, Imported& result) {
  TrainerScenario{job, request, root, result}.read(missing);
}

ImportRequest request_of_trainer(const TrainerJob& job, const ImportRequest& request,
                                 const ObjectReader& root, Imported& result) {
  ImportRequest known = request;
  known.command = "accelerate";
  JobBatch batch = job.batch;
  add_options(request, batch);
  known.micro_batch = batch.micro.value_or(0);
  known.accumulation_steps = batch.steps.value_or(0);
  known.global_batch = batch.whole.value_or(0);
  static_cast<void>(SettingProblems{root}.size(job.machines, 1, most_ranks));
  known.sequence_ranks = SettingProblems{root}.size(job.sequence_ranks, 1, most_ranks);
  if (known.gpus == 0)
    known.gpus =
        static_cast<int>(std::clamp<std::int64_t>(job.processes.value_or(0), 0, most_ranks));
  else if (job.processes && *job.processes != known.gpus)
    result.notes.push_back(
        {"num_processes", fmt::format("{} in the file, {} by --gpus", *job.processes, known.gpus)});
  if (job.sequence_length)
    known.sequence_length = SettingProblems{root}.size(job.sequence_length, 1, 1LL << 32);
  const std::string mixed = job.mixed.value_or("no");
  if (mixed != "no" && mixed != "bf16" && mixed != "fp16" && job.mixed.place)
    job.mixed.place->problem(
        fmt::format("is '{}'; modelled beside DeepSpeed: no, bf16, fp16", mixed.substr(0, 80)));
  if (mixed == "bf16") known.precision = DType::bf16;
  if (mixed == "fp16") known.precision = DType::fp16;
  if (job.recompute) known.recompute = *job.recompute ? Recompute::full : Recompute::none;
  return known;
}

Imported import_deepspeed_file(const Text& name, const std::string& folder,
                               const ImportRequest& request) {
  if (folder.empty())
    throw InputError{SourcePosition{*name, 0, 0}, "the DeepSpeed file is not read here"};
  // Beside the YAML or above it, where the command of a repository runs, or where this one runs.
  std::filesystem::path beside = std::filesystem::path{folder} / *name;
  std::error_code unreadable;
  bool is_beside = std::filesystem::exists(beside, unreadable);
  std::filesystem::path above{folder};
  for (int i = 0; i < 6 && !is_beside && above != above.parent_path(); ++i) {
    above = above.parent_path();
    is_beside = std::filesystem::exists(above / *name, unreadable);
    if (is_beside) beside = above / *name;
  }
  if (!is_beside && !std::filesystem::exists(*name, unreadable))
    throw InputError{name.place->where(),
                     fmt::format("{} is neither in {} nor in the working folder", *name, folder)};
  const std::string path = is_beside ? beside.string() : *name;
  return import_deepspeed(Document::load(path, Syntax::json), nullptr, request);
}

}  // namespace sim
