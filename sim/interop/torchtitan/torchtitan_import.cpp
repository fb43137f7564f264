#include <fmt/format.h>

#include "sim/base/rounding.hpp"
#include "sim/config/scalars.hpp"
#include "sim/interop/settings.hpp"
#include "sim/interop/torchtitan/torchtitan.hpp"
#include "sim/interop/torchtitan/torchtitan_registry.hpp"
#include "sim/schedule/schedule_rules.hpp"

namespace sim {
namespace {

constexpr std::int64_t most_tokens = 1LL << 32;
constexpr std::int64_t most_runs = 1'000'000;

class TitanReader {
 public:
  TitanReader(const ObjectReader& root, const ImportRequest& request)
      : root_{root}, request_{request}, python_{root.has("_name")} {}

  Imported read() {
    python_ ? model_of_registry() : model();
    parallelism();
    experts();
    training();
    pipeline();
    offload();
    checkpointing();
    compilation();
    if (blocks_)
      result_.framework.execution.eight_bit = EightBit::torchao_mxfp8;
    else if (!python_)
      read_float8(root_, result_);
    layout().attention = request_.has_flash_2 ? AttentionKernel::flash_2 : AttentionKernel::flash;
    judge_torchtitan_keys(root_, result_);
    if (python_) judge_registry_keys(root_, result_);
    return result_;
  }

 private:
  Layout& layout() { return result_.layout; }

  std::optional<ObjectReader> section(std::string_view name) {
    const std::optional<ValueReader> found = root_.find(name);
    return found ? std::optional{found->object()} : std::nullopt;
  }
  template <class T>
  Setting<T> setting(std::string_view section_name, std::string_view key) {
    Setting<T> read;
    if (const auto found = section(section_name)) read_setting(*found, key, read);
    return read;
  }
  std::int64_t size(std::string_view section_name, std::string_view key, std::int64_t fallback,
                    std::int64_t largest) {
    const Whole read = setting<std::int64_t>(section_name, key);
    const std::int64_t value = read.value_or(fallback);
    if (value >= 1 && value <= largest) return value;
    if (read.place)
      read.place->problem(fmt::format("{} is {}; allowed: 1 to {}", key, value, largest));
    return 1;
  }
  // A size that is not in the file.
  void tell_default(std::string_view section_name, std::string_view key, std::int64_t value) {
    const auto found = section(section_name);
    if (!found || !found->has(key))
      result_.notes.push_back({fmt::format("{}.{}", section_name, key),
                               fmt::format("not given: {}, as torchtitan has it", value)});
  }
  int degree(std::string_view key) {
    return static_cast<int>(size("parallelism", key, 1, most_ranks));
  }
  template <class T>
  void problem(const Setting<T>& at, const std::string& what) {
    if (at.place)
      at.place->problem(what);
    else
      root_.problem(what);
  }

  void model() {
    const Text name = setting<std::string>("model", "name");
    take_model(name.value_or("llama3"), setting<std::string>("model", "flavor"));
    layout().compute_dtype = converts_to_fp8() ? DType::fp8 : DType::bf16;
    note_converted();
  }

  void model_of_registry() {
    const RegistryModel read = read_registry_model(root_, result_);
    take_model(read.model.empty() ? "model" : read.model, read.flavor);
    dispatcher_ = read.dispatcher;
    waits_for_host_ = !read.drops;
    blocks_ = read.blocks;
    linear_fp8_ = read.linear_fp8;
    grouped_fp8_ = read.grouped_fp8;
    const bool fp8 = linear_fp8_ || grouped_fp8_;
    layout().compute_dtype = fp8 ? DType::fp8 : DType::bf16;
    if (read.linear_fp4) four_bits(read, fp8);
    note_converted();
  }

  void four_bits(const RegistryModel& read, bool fp8) {
    if (fp8)
      root_.problem(
          "NVFP4LinearConverter beside a converter to 8 bits is not modelled: one format "
          "holds for all products of layers");
    if (result_.shape.experts.count > 0)
      result_.notes.push_back({"layout.compute_dtype",
                               "experts, which are not converted, are modelled in 4 bits as the "
                               "linears"});
    layout().compute_dtype = DType::nvfp4;
    if (read.fp4_layers)
      layout().last_bf16_layers =
          static_cast<int>(std::max<std::int64_t>(0, result_.shape.layers - *read.fp4_layers));
  }

  void take_model(const std::string& name, const Text& flavor) {
    const std::string size = flavor.value_or("debugmodel");
    const auto known = torchtitan_shape(name, size);
    if (known)
      result_.shape = *known;
    else if (request_.model)
      result_.shape = *request_.model;
    else
      problem(flavor, fmt::format("the sizes of {} {} are not known here; known: {}. Name the "
                                  "model with --model",
                                  name, size, torchtitan_flavors()));
    if (known && request_.model && !same_shape(*known, *request_.model))
      problem(flavor, "is another model than --model: leave one away");
    if (name == "llama4")
      result_.notes.push_back({"model",
                               "choices are weighed before the experts; forecast as behind "
                               "them, which moves as much"});
    if (name == "qwen3_5")
      result_.notes.push_back({"model",
                               "the language model alone, with scans and convolutions by "
                               "flash-linear-attention; no measured run of them is scored"});
    if (name == "gpt_oss")
      result_.notes.push_back({"model",
                               "biases of experts are added by kernels of their own, which "
                               "are not modelled"});
  }

  // One format holds for all products of layers.
  void note_converted() {
    if (result_.shape.experts.count == 0 || linear_fp8_ == grouped_fp8_) return;
    result_.notes.push_back({"layout.compute_dtype",
                             linear_fp8_ ? "experts, which are not converted, are modelled in 8 "
                                           "bits as the linears"
                                         : "linears, which are not converted, are modelled in 8 "
                                           "bits as the experts"});
  }

  // v0.2.2, distributed/parallel_dims.py: expert_tensor_parallel_degree is 1 or that of tensors;
  // without expert parallelism experts are split as everything else. HEAD has no such key: tensor
  // ranks are taken for experts.
  void experts() {
    const Whole tensor = setting<std::int64_t>("parallelism", "expert_tensor_parallel_degree");
    const Text backend = setting<std::string>("parallelism", "expert_parallel_comm_backend");
    const int ranks = degree("expert_parallel_degree");
    if (result_.shape.experts.count == 0) {
      if (tensor) result_.ignored.emplace_back("parallelism.expert_tensor_parallel_degree");
      if (backend) result_.ignored.emplace_back("parallelism.expert_parallel_comm_backend");
      return;
    }
    layout().expert_parallel = ranks;
    if (ranks > 1) {
      const std::int64_t split = tensor.value_or(1);
      if (split != 1 && split != layout().tensor_parallel)
        problem(tensor, fmt::format("is {}; allowed: 1, or tensor_parallel_degree = {}", split,
                                    layout().tensor_parallel));
      else
        layout().expert_tensor_parallel = static_cast<int>(split);
    }
    dispatcher(python_ ? dispatcher_ : backend);
  }

  void dispatcher(const Text& asked) {
    const std::string word = asked.value_or("standard");
    if (word == "deepep")
      layout().token_dispatcher = TokenDispatcher::deepep;
    else if (word == "hybridep")
      layout().token_dispatcher = TokenDispatcher::hybridep;
    else if (word != "standard")
      problem(asked, fmt::format("'{}' is not modelled; known: standard, deepep, hybridep", word));
  }

  bool converts_to_fp8() {
    const auto found = section("model");
    const std::optional<ValueReader> list = found ? found->find("converters") : std::nullopt;
    if (!list) return false;
    bool fp8 = false;
    for (const ValueReader& item : list->list()) {
      const std::string name = item.text();
      const bool grouped = name.starts_with("quantize.grouped_mm.");
      if (name.find("float8") != std::string::npos)
        fp8 = true;
      else if (name == "mx" || name == "quantize.linear.mx" || name == "quantize.grouped_mm.mx")
        fp8 = blocks_ = true;
      else
        item.problem(
            fmt::format("the converter '{}' is not modelled; known: float8, "
                        "quantize.linear.mx, quantize.grouped_mm.float8, quantize.grouped_mm.mx",
                        name));
      (grouped ? grouped_fp8_ : linear_fp8_) = true;
    }
    return fp8;
  }

  // fully_shard's CPUOffloadPolicy (models/llama3/infra/parallelize.py, apply_fsdp).
  void offload() {
    const Flag on = setting<bool>("training", "enable_cpu_offload");
    if (!on.value_or(false)) return;
    if (layout().zero_stage != 3) return problem(on, "needs FSDP, which shards parameters");
    layout().offload_parameters = layout().offload_optimizer = OffloadTarget::cpu;
  }

  void parallelism() {
    layout().tensor_parallel = degree("tensor_parallel_degree");
    layout().pipeline_parallel =
        static_cast<int>(size("parallelism", "pipeline_parallel_degree", 1, 10'000));
    layout().context_parallel = degree("context_parallel_degree");
    data_parallelism();
    // HEAD has a switch; before, tensor parallelism always splits the sequence.
    const Flag sequence = setting<bool>("parallelism", "enable_sequence_parallel");
    layout().sequence_parallel = layout().tensor_parallel > 1 && sequence.value_or(true);
    layout().overlap_tensor_wgrad = false;
    const bool async = async_tensor_parallel().value_or(false);
    layout().overlap_tensor_products = layout().sequence_parallel && async;
    const Text rotate = setting<std::string>("parallelism", "context_parallel_rotate_method");
    const std::string method = rotate.value_or("allgather");
    if (method != "allgather" && method != "alltoall")
      problem(rotate, fmt::format("is '{}'; allowed: allgather, alltoall", method));
    layout().context_exchange =
        method == "alltoall" ? ContextExchange::ring : ContextExchange::all_gather;
  }

  // HEAD has it among the settings of the compiler.
  Flag async_tensor_parallel() {
    const Flag before = setting<bool>("parallelism", "enable_async_tensor_parallel");
    return before ? before : setting<bool>("compile", "enable_async_tensor_parallel");
  }

  void data_parallelism() {
    const int replicate = degree("data_parallel_replicate_degree");
    const Whole asked = setting<std::int64_t>("parallelism", "data_parallel_shard_degree");
    std::int64_t shard = asked.value_or(-1);
    const std::int64_t inner = std::int64_t{layout().tensor_parallel} * layout().pipeline_parallel *
                               layout().context_parallel * replicate;
    if (shard == -1) {
      if (request_.gpus < 1)
        root_.problem(
            "data_parallel_shard_degree takes what is left of the GPUs: give --gpus N, for example "
            "--gpus 64");
      else if (request_.gpus % inner != 0)
        problem(asked, fmt::format("{} GPUs are no multiple of replicate x tp x cp x pp = {}",
                                   request_.gpus, inner));
      shard = std::max<std::int64_t>(1, request_.gpus / inner);
    } else if (shard < 1 || shard > most_ranks) {
      problem(asked, fmt::format("is {}; allowed: -1, or 1 to {}", shard, most_ranks));
      shard = 1;
    }
    if (inner * shard > most_ranks) {
      problem(asked, fmt::format("makes {} GPUs; allowed: up to {}", inner * shard, most_ranks));
      return;
    }
    if (request_.gpus > 0 && request_.gpus != inner * shard)
      problem(asked, fmt::format("the degrees make {} GPUs, not {}", inner * shard, request_.gpus));
    layout().data_parallel = static_cast<int>(replicate * shard);
    sharding(replicate, static_cast<int>(shard));
  }

  // FSDP shards over dp_shard x cp (the mesh dp_shard_cp); with neither, DDP replicates.
  void sharding(int replicate, int shard) {
    const int group = shard * layout().context_parallel;
    const Text policy = setting<std::string>("parallelism", "fsdp_reshard_after_forward");
    const std::string word = policy.value_or("default");
    if (word != "default" && word != "always" && word != "never")
      problem(policy, fmt::format("is '{}'; allowed: default, always, never", word));
    if (group == 1) {
      if (replicate > 1 && (layout().tensor_parallel > 1 || layout().pipeline_parallel > 1))
        root_.problem(
            "DDP (data_parallel_shard_degree 1) beside tensor or pipeline parallelism is "
            "not supported by torchtitan");
      return;
    }
    layout().zero_stage = 3;
    if (replicate > 1) layout().shard_group = group;
    // With a pipeline every micro-batch would gather anew.
    layout().reshard_after_forward =
        word == "always" || (word == "default" && layout().pipeline_parallel == 1);
  }

  // Parameters are made in `dtype`, and with them Adam's moments (torch/optim/adamw.py,
  // torch.zeros_like); fully_shard casts reduced gradients to it.
  void parameters_in(const Text& whole, const Text& param) {
    const std::string type = whole.value_or("float32");
    if (type == "float32") return;
    if (type != "bfloat16")
      problem(whole, fmt::format("is '{}'; allowed: float32, bfloat16", type));
    else if (layout().activation_dtype != DType::bf16)
      problem(param, "is float32, and training.dtype bfloat16: not modelled");
    layout().master_weights = false;
    layout().moment_dtype = DType::bf16;
  }

  // distributed/utils.py, maybe_enable_amp (v0.2.2).
  void without_fsdp() {
    if (layout().zero_stage == 3) return;
    if (layout().tensor_parallel > 1 || layout().pipeline_parallel > 1)
      result_.notes.push_back(
          {"training.mixed_precision_param",
           "without FSDP torchtitan switches mixed precision off beside tensor "
           "or pipeline parallelism and runs in float32; forecast in bfloat16"});
    else if (layout().data_parallel > 1)
      result_.notes.push_back({"layout.gradient_dtype",
                               "DDP keeps and reduces float32 gradients; forecast as kept in "
                               "bfloat16, 2 bytes per parameter less"});
  }

  void training() {
    const Text param = setting<std::string>("training", "mixed_precision_param");
    const Text reduce = setting<std::string>("training", "mixed_precision_reduce");
    const Text whole = setting<std::string>("training", "dtype");
    const std::string type = param.value_or("bfloat16");
    if (type != "bfloat16" && type != "float32")
      problem(param, fmt::format("is '{}'; allowed: bfloat16, float32", type));
    if (reduce.value_or("float32") != "float32" && reduce.value_or("") != "bfloat16")
      problem(reduce, fmt::format("is '{}'; allowed: float32, bfloat16", *reduce));
    layout().activation_dtype = type == "float32" ? DType::fp32 : DType::bf16;
    if (type == "float32" && layout().compute_dtype == DType::bf16)
      layout().compute_dtype = DType::fp32;
    layout().gradient_dtype = layout().activation_dtype;
    layout().reduce_dtype = reduce.value_or("float32") == "bfloat16" ? DType::bf16 : DType::fp32;
    if (reduce.value_or("float32") == "bfloat16")
      result_.notes.push_back({"training.mixed_precision_reduce",
                               "bfloat16 is not among the values of v0.1 to v0.2.2"});
    layout().master_weights = layout().activation_dtype != DType::fp32;
    parameters_in(whole, param);
    if (layout().activation_dtype == DType::bf16 && layout().master_weights) without_fsdp();
    batch();
    graphs();
  }

  // HEAD, trainer.py, _validate_cuda_graphs: forward and backward passes are captured unless they
  // are switched off.
  void graphs() {
    const Flag off = setting<bool>("training", "disable_cuda_graphs");
    const bool captured = off ? !*off : python_;
    if (!captured) return;
    const bool asks = layout().expert_parallel > 1 &&
                      !(layout().token_dispatcher == TokenDispatcher::hybridep && !waits_for_host_);
    if (layout().pipeline_parallel > 1 || asks)
      problem(off,
              "disable_cuda_graphs is false, and torchtitan captures no pipelines and no "
              "experts whose counts the host waits for; allowed: true");
    result_.graphs = true;
  }

  // v0.1 and v0.2: sequences. HEAD counts tokens: num_tokens_per_microbatch_per_dp_rank,
  // num_tokens_per_train_step, max_context_length.
  void batch() {
    const Whole context = setting<std::int64_t>("training", "max_context_length");
    layout().sequence_length = context ? size("training", "max_context_length", 2048, most_tokens)
                                       : size("training", "seq_len", 2048, most_tokens);
    const std::int64_t length = layout().sequence_length;
    const Whole tokens = setting<std::int64_t>("training", "num_tokens_per_microbatch_per_dp_rank");
    const bool pipeline = layout().pipeline_parallel > 1;
    std::int64_t local = size("training", "local_batch_size", 8, most_tokens);
    if (!python_ && !context) tell_default("training", "seq_len", length);
    if (!python_ && !tokens) tell_default("training", "local_batch_size", local);
    if (tokens || python_) {
      local = tokens ? sequences(tokens, length) : std::max<std::int64_t>(1, 16384 / length);
      layout().micro_batch = local;
    } else {
      layout().micro_batch =
          pipeline ? size("parallelism", "pipeline_parallel_microbatch_size", 1, most_tokens)
                   : local;
      if (pipeline && local % layout().micro_batch != 0)
        problem(setting<std::int64_t>("training", "local_batch_size"),
                fmt::format("is {}, no multiple of pipeline_parallel_microbatch_size = {}", local,
                            layout().micro_batch));
    }
    const bool counts = tokens || python_;
    const std::int64_t asked = size("parallelism", "num_pp_microbatches", 1, 1'000'000);
    const std::int64_t parts = !counts ? local / layout().micro_batch : pipeline ? asked : 1;
    at_once_ = parts;
    global_batch(counts ? local * parts : local, length);
  }

  std::int64_t sequences(const Whole& tokens, std::int64_t length) {
    if (*tokens >= 1 && *tokens <= most_tokens && *tokens % length == 0) return *tokens / length;
    problem(tokens, fmt::format("is {}, no multiple of the context length {}", *tokens, length));
    return 1;
  }

  void global_batch(std::int64_t local, std::int64_t length) {
    const Whole tokens = setting<std::int64_t>("training", "num_tokens_per_train_step");
    const Whole asked = setting<std::int64_t>("training", "global_batch_size");
    for (const Whole* count : {&tokens, &asked})
      if (count->value_or(1) < -1 || count->value_or(1) == 0)
        problem(*count, fmt::format("is {}; allowed: -1, or 1 and more", **count));
    const std::int64_t unit = std::min(local, most_tokens) * layout().data_parallel;
    layout().global_batch = unit;
    if (tokens && *tokens > 0) layout().global_batch = sequences(tokens, length);
    if (!tokens && asked.value_or(-1) > 0) layout().global_batch = *asked;
    if (layout().global_batch < 1 || layout().global_batch % unit != 0)
      problem(tokens ? tokens : asked,
              fmt::format("is {} sequences, no multiple of local batch {} x data parallel {}",
                          layout().global_batch, local, layout().data_parallel));
    else if (layout().pipeline_parallel > 1)
      runs(layout().global_batch / unit, tokens ? tokens : asked);
  }

  // trainer.py, train_step: a call of the schedule for each step of gradient accumulation.
  void runs(std::int64_t count, const Whole& of) {
    if (count <= most_runs)
      layout().pipeline_runs = static_cast<int>(count);
    else
      problem(of,
              fmt::format("makes {} runs of the pipeline; allowed: up to {}", count, most_runs));
  }

  void pipeline() {
    const Text schedule = setting<std::string>("parallelism", "pipeline_parallel_schedule");
    const Whole each = setting<std::int64_t>("parallelism", "pipeline_parallel_layers_per_stage");
    const Whole first =
        setting<std::int64_t>("parallelism", "pipeline_parallel_first_stage_less_layers");
    const Whole last =
        setting<std::int64_t>("parallelism", "pipeline_parallel_last_stage_less_layers");
    std::vector<int> parts = listed_parts();
    if (layout().pipeline_parallel == 1) return;
    read_schedule(schedule);
    const bool v_shaped = is_v_shaped(layout().schedule);
    const bool single = !is_interleaved(layout().schedule) && !v_shaped;
    if (parts.empty()) parts = counted_parts(each, first, last, single);
    if (parts.empty()) return;
    const auto stages = static_cast<int>(parts.size());
    const int per_rank = stages / layout().pipeline_parallel;
    if (stages % layout().pipeline_parallel != 0 || (per_rank == 1) != single ||
        (v_shaped && per_rank != 2)) {
      problem(each, fmt::format("{} stages on {} ranks do not go with the schedule {}", stages,
                                layout().pipeline_parallel, schedule.value_or("1F1B")));
      return;
    }
    layout().virtual_stages = per_rank;
    layout().layers_per_chunk = parts;
    // torch's schedules wait for their messages, but for those whose sends and receives are actions
    // of their own (schedules.py, _PipelineScheduleRuntime).
    layout().overlap_pipeline = rules_of(layout().schedule).sends_beside;
  }

  // pytorch/pytorch torch/distributed/pipelining/schedules.py (commit 00722e64),
  // get_schedule_class, which ignores case, and Schedule1F1B.__init__.
  void read_schedule(const Text& schedule) {
    const std::string asked = schedule.value_or("1F1B");
    std::string name = asked;
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    const int stages = layout().pipeline_parallel;
    if (name == "interleaved1f1b")
      layout().schedule = Schedule::interleaved;
    else if (name == "gpipe")
      layout().schedule = Schedule::gpipe;
    else if (name == "zbvzerobubble")
      layout().schedule = Schedule::zb_v;
    else if (name == "dualpipev")
      layout().schedule = Schedule::dual_pipe_v;
    else if (name == "interleavedzerobubble")
      layout().schedule = Schedule::interleaved_zb;
    else if (name != "1f1b")
      problem(schedule,
              fmt::format("the schedule {} is not modelled; available: 1F1B, GPipe, "
                          "Interleaved1F1B, InterleavedZeroBubble, ZBVZeroBubble, DualPipeV",
                          asked));
    else if (at_once_ < stages)
      problem(setting<std::int64_t>("training", "local_batch_size"),
              fmt::format("makes {} micro-batches of {} for {} stages; 1F1B takes at least one for "
                          "each stage: a larger local_batch_size, or GPipe",
                          at_once_, layout().micro_batch, stages));
  }

  std::vector<int> counted_parts(const Whole& each, const Whole& first, const Whole& last,
                                 bool single) {
    const std::int64_t before = first.value_or(1);
    const std::int64_t behind = last.value_or(1);
    if (before < 0 || behind < 0 || before > 10'000 || behind > 10'000) {
      problem(before < 0 || before > 10'000 ? first : last, "allowed: 0 to 10000");
      return {};
    }
    std::int64_t stages = std::int64_t{layout().pipeline_parallel} * (single ? 1 : 2);
    if (each) {
      const std::int64_t most_each =
          size("parallelism", "pipeline_parallel_layers_per_stage", 1, 10'000);
      stages = divide_up(result_.shape.layers + before + behind, most_each);
    }
    if (stages > 32'767) {
      problem(each, fmt::format("makes {} stages; allowed: up to 32767", stages));
      return {};
    }
    std::vector<int> split = torchtitan_split(result_.shape.layers, stages, before, behind);
    if (split.empty())
      problem(each, fmt::format("{} layers do not make {} stages", result_.shape.layers, stages));
    return split;
  }

  // module_fqns_per_model_part: [["tok_embeddings", "layers.0"], ...]
  std::vector<int> listed_parts() {
    const auto found = section("parallelism");
    const std::optional<ValueReader> list =
        found ? found->find("module_fqns_per_model_part") : std::nullopt;
    std::vector<int> parts;
    if (!list) return parts;
    int next = 0;
    for (const ValueReader& part : list->list()) {
      parts.push_back(0);
      for (const ValueReader& item : part.list()) {
        const std::string name = item.text();
        if (!name.starts_with("layers.")) continue;
        if (name != fmt::format("layers.{}", next))
          item.problem(fmt::format("'{}' stands where layers.{} is next", name, next));
        ++next;
        ++parts.back();
      }
    }
    return parts;
  }

  void checkpointing() {
    if (python_) {
      layout().recompute = registry_recompute(root_);
      return;
    }
    const Text mode = setting<std::string>("activation_checkpoint", "mode");
    const Text option = setting<std::string>("activation_checkpoint", "selective_ac_option");
    const std::string word = mode.value_or("selective");
    if (word == "none") return;
    if (word != "full" && word != "selective") {
      problem(mode, fmt::format("the mode {} is not modelled; known: none, selective, full", word));
      return;
    }
    layout().recompute = Recompute::full;
    if (word == "full") return;
    const std::string every = option.value_or("2");
    if (every == "op") {
      layout().recompute = Recompute::operators;
      return;
    }
    const ParsedNumber<std::int64_t> parsed = parse_integer(every, false);
    const auto* number = std::get_if<std::int64_t>(&parsed);
    if (number && *number >= 1 && *number <= 10'000)
      layout().recompute_every = static_cast<int>(*number);
    else
      problem(option, fmt::format("is '{}'; allowed: op, or 1 and more", every));
  }

  void compilation() {
    const Flag enabled = setting<bool>("compile", "enable");
    bool model = enabled.value_or(false);
    bool loss = model;
    const auto found = section("compile");
    if (const auto list = found ? found->find("components") : std::nullopt; list && model) {
      model = loss = false;
      for (const ValueReader& item : list->list()) {
        const std::string name = item.text();
        if (name == "model")
          model = true;
        else if (name == "loss")
          loss = true;
        else
          item.problem(fmt::format("'{}' is neither model nor loss", name));
      }
    }
    if (layout().overlap_tensor_products && !model)
      problem(async_tensor_parallel(),
              "is true, and needs [compile] with enable and the component model");
    const Text optimizer = setting<std::string>("optimizer", "implementation");
    const std::string kernels = optimizer.value_or("fused");
    const bool narrow = kernels == "fused_opt_states_bf16";
    if (kernels != "fused" && kernels != "foreach" && !narrow)
      problem(optimizer,
              fmt::format("is '{}'; modelled: fused, foreach, fused_opt_states_bf16", kernels));
    if (narrow) layout().moment_dtype = DType::bf16;
    const Text name = setting<std::string>("optimizer", "name");
    if (name.value_or("AdamW") != "AdamW" && *name != "Adam")
      problem(name,
              fmt::format("the optimizer {} is not modelled; torchtitan has Adam, AdamW", *name));
    const EightBit rows = result_.framework.execution.eight_bit;
    result_.framework = torchtitan_framework(model, loss, kernels != "foreach");
    if (python_ && linear_fp8_ && !blocks_) result_.framework.execution.eight_bit = rows;
    if (python_) result_.framework.execution.expert_rows = 1;
    if (!waits_for_host_) result_.framework.execution.waits_for_counts = false;
    const Flag early = setting<bool>("activation_checkpoint", "early_stop");
    // A compiler leaves out what no gradient needs, whatever the switch says.
    result_.framework.execution.stops_recomputation = model || early.value_or(false);
  }

  const ObjectReader& root_;
  const ImportRequest& request_;
  Imported result_;
  bool python_ = false;  // a configuration of HEAD (torchtitan_registry.hpp)
  Text dispatcher_;      // of those
  bool waits_for_host_ = true;
  bool blocks_ = false;  // products with scales of blocks (converter quantize.linear.mx)
  bool linear_fp8_ = false, grouped_fp8_ = false;
  std::int64_t at_once_ = 1;  // micro-batches of one run of the pipeline
};

}  // namespace

Imported import_torchtitan(const Document& toml, const ImportRequest& request) {
  const ObjectReader root = toml.root_object();
  Imported result = TitanReader{root, request}.read();
  finish_import(toml, root, result);
  return result;
}

Imported import_torchtitan_registry(const Document& python, const std::string& name,
                                    const ImportRequest& request) {
  const ObjectReader all = python.root_object();
  all.ignore_unknown();
  const ObjectReader root = all.object(name);
  Imported result = TitanReader{root, request}.read();
  finish_import(python, root, result);
  return result;
}

}  // namespace sim
