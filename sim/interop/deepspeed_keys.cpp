// Names and defaults: deepspeedai/DeepSpeed deepspeed/runtime/config.py (commit 029f12b3),
// runtime/zero/config.py (commit 1b88ac36), runtime/precision_config.py.
#include "sim/interop/deepspeed_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sim {
namespace {

constexpr std::array zero_keys{
    KnownKey{"cpu_offload_use_pin_memory"},
    KnownKey{"zero_quantized_nontrainable_weights", Verdict::refused, "",
             "quantised weights are not modelled"},
    KnownKey{"zeropp_loco_param", Verdict::refused, "",
             "LoCo's error feedback of quantised gradients is not modelled"},
    KnownKey{"zenflow", Verdict::refused, "", "not modelled"},
    KnownKey{"legacy_stage1", Verdict::refused, "", "the old ZeRO-1 is not modelled"},
    KnownKey{"allgather_partitions", Verdict::noted, "true",
             "parameters are modelled as gathered, not broadcast"},
    KnownKey{"allgather_bucket_size"},  // how many gathers the same bytes are cut into
    KnownKey{"load_from_fp32_weights"},
    KnownKey{"elastic_checkpoint"},
    KnownKey{"ignore_unused_parameters"},
    KnownKey{"round_robin_gradients"},  // which rank owns which gradient
    KnownKey{"override_module_apply"},
    KnownKey{"pipeline_loading_checkpoint"},
    KnownKey{"log_trace_cache_warnings"},
    KnownKey{"enable_sanity_checks", Verdict::unmodelled, "", "the checks are not modelled"},
    KnownKey{"save_muon_momentum_buffer_in_memory"},
    KnownKey{"gather_16bit_weights_on_model_save"},
    KnownKey{"stage3_gather_16bit_weights_on_model_save"},
    KnownKey{"stage3_gather_fp16_weights_on_model_save"},
    KnownKey{"stage3_partition_stream_chunk_size"},
};
// Read only by stage 3.
constexpr std::array stage_3_keys{
    KnownKey{"mics_hierarchical_params_gather", Verdict::noted, "",
             "parameters are modelled as gathered in one level"},
    KnownKey{"stage3_use_all_reduce_for_fetch_params", Verdict::noted, "",
             "parameters are modelled as gathered"},
    KnownKey{"stage3_module_granularity_threshold", Verdict::noted, "0",
             "layers are modelled as gathered one by one"},
    KnownKey{"stage3_allgather_sequential", Verdict::noted, "",
             "a layer is modelled as gathered at once"},
    KnownKey{"stage3_model_persistence_threshold"},
    KnownKey{"model_persistence_threshold"},
    KnownKey{"memory_efficient_linear", Verdict::noted, "true",
             "linears are modelled as keeping no copy of gathered weights"},
    KnownKey{"leaf_module", Verdict::noted, "", "units are modelled as one per layer"},
};
constexpr std::array deepspeed_top_keys{
    KnownKey{"scheduler"},
    KnownKey{"zero_allow_untested_optimizer"},
    KnownKey{"zero_force_ds_cpu_optimizer"},
    KnownKey{"gradient_clipping"},
    KnownKey{"prescale_gradients"},  // where a division stands
    KnownKey{"gradient_predivide_factor"},
    KnownKey{"gradient_allreduce_op"},  // sum or mean of the same messages
    KnownKey{"managed_gradient_accumulation"},
    KnownKey{"sparse_gradients", Verdict::refused, "", "sparse gradients are not modelled"},
    KnownKey{"seq_parallel_communication_data_type"},
    KnownKey{"steps_per_print"},
    KnownKey{"log_level"},
    KnownKey{"vocabulary_size"},
    KnownKey{"wall_clock_breakdown", Verdict::unmodelled, "",
             "its waits for the device between the phases are not modelled"},
    KnownKey{"memory_breakdown", Verdict::unmodelled, "", "its waits are not modelled"},
    KnownKey{"flops_profiler", Verdict::noted, "", "profiled steps are not modelled"},
    KnownKey{"comms_logger", Verdict::unmodelled, "", "its waits are not modelled"},
    KnownKey{"timers"},
    KnownKey{"dump_state"},
    KnownKey{"tensorboard"},
    KnownKey{"wandb"},
    KnownKey{"csv_monitor"},
    KnownKey{"comet"},
    KnownKey{"checkpoint"},
    KnownKey{"nebula"},
    KnownKey{"datastates"},
    KnownKey{"aio"},
    KnownKey{"data_sampling"},
    KnownKey{"dataloader_drop_last"},
    KnownKey{"disable_allgather", Verdict::noted, "",
             "parameters are modelled as gathered, not broadcast"},
    KnownKey{"amp", Verdict::refused, "", "apex's amp is not modelled"},
    KnownKey{"torch_autocast", Verdict::refused, "", "not modelled"},
    KnownKey{"sparse_attention", Verdict::refused, "", "not modelled"},
    KnownKey{"compression_training", Verdict::refused, "", "not modelled"},
    KnownKey{"quantize_training", Verdict::refused, "", "not modelled"},
    KnownKey{"weight_quantization", Verdict::refused, "", "not modelled"},
    KnownKey{"eigenvalue", Verdict::refused, "", "not modelled"},
    KnownKey{"hybrid_engine", Verdict::refused, "", "generation within a step is not modelled"},
    KnownKey{"msamp", Verdict::refused, "", "8-bit optimizers and messages are not modelled"},
    KnownKey{"data_efficiency", Verdict::noted, "", "the full batch is forecast"},
    KnownKey{"curriculum_learning", Verdict::noted, "", "the full sequence length is forecast"},
    KnownKey{"progressive_layer_drop", Verdict::unmodelled, "", "all layers are forecast"},
    KnownKey{"elasticity", Verdict::refused, "",
             "it replaces the batch: write train_batch_size and train_micro_batch_size_per_gpu"},
    KnownKey{"autotuning", Verdict::refused, "", "it replaces the batch and ZeRO's settings"},
    // runtime/bf16_optimizer.py: of the step it captures no more.
    KnownKey{"graph_harvesting", Verdict::noted, "",
             "graphs of the bf16 optimizer's passes over gradients: modelled launch by launch"},
    KnownKey{"use_data_before_expert_parallelism"},
    KnownKey{"expert_parallel", Verdict::refused, "",
             "a mixture of experts is modelled only as Megatron-LM and torchtitan run it"},
    KnownKey{"pipeline", Verdict::noted, "",
             "stages, partition and recomputation of a pipeline: see layout.layers_per_chunk and "
             "layout.recompute"},
};
constexpr std::array deepspeed_precision_keys{
    KnownKey{"auto_cast"},
    KnownKey{"loss_scale"},
    KnownKey{"initial_scale_power"},
    KnownKey{"loss_scale_window"},
    KnownKey{"hysteresis"},
    KnownKey{"consecutive_hysteresis"},
    KnownKey{"min_loss_scale"},
    KnownKey{"opt_level"},
    KnownKey{"immediate_grad_update"},
    KnownKey{"check_grad_overflow", Verdict::unmodelled, "", "the check is not modelled"},
    KnownKey{"fp16_master_weights_and_grads", Verdict::refused, "",
             "master weights in 16 bits are not modelled"},
    KnownKey{"bf16_master_weights_and_grads", Verdict::refused, "",
             "master weights in 16 bits are not modelled"},
    KnownKey{"bf16_optimizer_states", Verdict::refused, "",
             "optimizer states in 16 bits are not modelled for DeepSpeed"},
};

// Sections are switched by a key of their own.
bool is_off(const ValueReader& value, const KnownKey& row) {
  if (!value.is_object()) return is_neutral(value, row.neutral);
  const ObjectReader section = value.object();
  section.ignore_unknown();
  const auto enabled = section.find("enabled");
  if (!enabled) return section.keys().empty();
  const std::string text = enabled->peek_text().value_or("");
  return text == "false" || text == "auto";
}

template <std::size_t N>
void judge(const ObjectReader& from, const std::array<KnownKey, N>& rows, std::string_view prefix,
           Imported& result) {
  for (const KnownKey& row : rows) {
    const auto unasked = from.unasked_keys();
    if (std::ranges::find(unasked, row.name) == unasked.end()) continue;
    const std::optional<ValueReader> value = from.find(row.name);
    const std::string name = fmt::format("{}{}", prefix, row.name);
    if (!value || row.verdict == Verdict::ignored || is_off(*value, row))
      result.ignored.push_back(name);
    else if (is_told(row.verdict))
      result.notes.push_back({name, std::string{row.reason}, row.verdict == Verdict::unmodelled});
    else
      value->problem(fmt::format("{}: {}", name, row.reason));
  }
}

// Where it is not {"device": "none"}, the default.
Text offload_device(const ObjectReader& zero, const char* key, Imported& result) {
  const std::optional<ValueReader> value = zero.find(key);
  const std::string name = fmt::format("zero_optimization.{}", key);
  if (!value) return {};
  if (!value->is_object()) {
    if (is_neutral(*value, "")) {
      result.ignored.push_back(name);
      return {};
    }
    value->problem(fmt::format("{}: expected an object with a device", name));
    return {};
  }
  const ObjectReader section = value->object();
  section.ignore_unknown();
  Text device = deepspeed_setting<std::string>(section, "device");
  if (device.value_or("none") != "none") return device;
  result.ignored.push_back(name);
  return {};
}

// zero/stage3.py: "parameter offload is only available with optimizer state offload". Sizes and
// numbers of its buffers are not asked: parameters come unit by unit.
void read_offloaded_parameters(const ObjectReader& zero, int stage, Imported& result) {
  Flag older = deepspeed_setting<bool>(zero, "cpu_offload_params");
  const Flag oldest = deepspeed_setting<bool>(zero, "cpu_offload_param");
  if (oldest.value_or(false)) older = oldest;
  const Text device = offload_device(zero, "offload_param", result);
  if (!device && !older.value_or(false)) return;
  const auto& place = device ? device.place : older.place;
  const std::optional<OffloadTarget> target = from_word<OffloadTarget>(device.value_or("cpu"));
  if (!target)
    return place->problem(
        fmt::format("zero_optimization.offload_param is on {}; allowed: none, cpu, nvme", *device));
  if (stage != 3) return place->problem("parameters are offloaded with stage 3 only");
  if (!result.layout.offloads() || result.layout.offload_fraction != 1)
    return place->problem(
        "parameters are offloaded with all of the optimizer: write offload_optimizer, ratio 1");
  result.layout.offload_parameters = *target;
}

// DeepSpeedZeroOffloadOptimizerConfig of zero/offload_config.py; `ratio` is of stage 3.
void read_offloaded_optimizer(const ObjectReader& zero, int stage, Imported& result) {
  const Flag older = deepspeed_setting<bool>(zero, "cpu_offload");
  Layout& layout = result.layout;
  if (older.value_or(false)) layout.offload_optimizer = OffloadTarget::cpu;
  const Text device = offload_device(zero, "offload_optimizer", result);
  if (device) {
    const std::optional<OffloadTarget> target = from_word<OffloadTarget>(*device);
    if (!target)
      return device.place->problem(fmt::format(
          "zero_optimization.offload_optimizer is on {}; allowed: none, cpu, nvme", *device));
    layout.offload_optimizer = *target;
  }
  if (!layout.offloads()) return;
  const auto& place = device ? device.place : older.place;
  if (stage == 0) return place->problem("an optimizer is offloaded with stage 1, 2 or 3");
  if (layout.offload_optimizer == OffloadTarget::nvme && stage != 3)
    return place->problem("an optimizer is offloaded to nvme with stage 3 only");
  if (!device) return;
  const ObjectReader section = zero.find("offload_optimizer")->object();
  const Flag superchip = deepspeed_setting<bool>(section, "super_offload");
  if (superchip.value_or(false))
    superchip.place->problem(
        "SuperOffload, whose host updates beside the backward pass and takes back what clipping "
        "forbids, is not modelled; false forecasts ZeRO-Offload");
  const Real ratio = deepspeed_setting<double>(section, "ratio");
  if (stage != 3 || !ratio) return;
  if (*ratio < 0 || *ratio > 1)
    return ratio.place->problem(fmt::format("is {}; allowed: 0 to 1", *ratio));
  layout.offload_fraction = *ratio;
  if (*ratio == 0) layout.offload_optimizer = OffloadTarget::none;
}

void judge_compile(const ObjectReader& json, Imported& result) {
  const auto section = section_at(json, "compile");
  if (!section) return;
  section->ignore_unknown();
  const Flag deep = deepspeed_setting<bool>(*section, "deepcompile");
  if (deep.value_or(false)) deep.place->problem("DeepCompile is not modelled");
  result.notes.push_back({"compile",
                          "the program's engine.compile() decides, and kernels are modelled as "
                          "eager; else set framework.name: torchtitan",
                          true});
}

void judge_recomputation(const ObjectReader& json, Imported& result) {
  const auto section = section_at(json, "activation_checkpointing");
  if (!section) return;
  section->ignore_unknown();
  const Flag partitions = deepspeed_setting<bool>(*section, "partition_activations");
  if (partitions.value_or(false))
    partitions.place->problem("activation_checkpointing.partition_activations: not modelled");
  // Checkpoints are the inputs of what is recomputed.
  const Flag host = deepspeed_setting<bool>(*section, "cpu_checkpointing");
  const bool full = result.layout.recompute == Recompute::full;
  if (host.value_or(false) && full) result.layout.offload_activations = OffloadTarget::cpu;
  if (host.value_or(false) && !full)
    result.notes.push_back({"activation_checkpointing.cpu_checkpointing",
                            "without --recompute full there are no checkpoints"});
  result.notes.push_back({"activation_checkpointing",
                          "what is recomputed is the program's choice: give --recompute full, or "
                          "set layout.recompute"});
}

}  // namespace

bool is_auto(const ObjectReader& from, std::string_view key) {
  const std::optional<ValueReader> value = from.find(key);
  return value && value->peek_text().value_or("") == "auto";
}

void judge_precision_keys(const ObjectReader& section, std::string_view name, Imported& result) {
  judge(section, deepspeed_precision_keys, fmt::format("{}.", name), result);
}

void judge_deepspeed_keys(const ObjectReader& json, int stage, Imported& result) {
  judge_compile(json, result);
  judge_recomputation(json, result);
  judge(json, deepspeed_top_keys, "", result);
  const std::optional<ValueReader> zero = json.find("zero_optimization");
  if (!zero || !zero->is_object()) return;
  constexpr std::string_view prefix = "zero_optimization.";
  const ObjectReader section = zero->object();
  read_offloaded_optimizer(section, stage, result);
  read_offloaded_parameters(section, stage, result);
  judge(section, zero_keys, prefix, result);
  if (stage == 3) return judge(section, stage_3_keys, prefix, result);
  for (const KnownKey& row : stage_3_keys)
    if (section.has(row.name)) result.ignored.push_back(fmt::format("{}{}", prefix, row.name));
}

}  // namespace sim
