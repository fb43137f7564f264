// Names and defaults: deepspeedai/DeepSpeed deepspeed/runtime/config.py (commit 029f12b3),
// runtime/zero/config.py (commit 1b88ac36), runtime/precision_config.py.
#include "sim/interop/trainers/deepspeed_keys.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sim {
namespace {

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

void judge_list(const ObjectReader& from, std::string_view list, std::string_view prefix,
                Imported& result) {
  for (const KnownKey& row : known_keys("deepspeed", list)) {
    const auto unasked = from.unasked_keys();
    if (std::ranges::find(unasked, row.name) == unasked.end()) continue;
    const std::optional<ValueReader> value = from.find(row.name);
    judge_key(row, value, value && is_off(*value, row), fmt::format("{}{}", prefix, row.name),
              result);
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
  judge_list(section, "precision", fmt::format("{}.", name), result);
}

void judge_deepspeed_keys(const ObjectReader& json, int stage, Imported& result) {
  judge_compile(json, result);
  judge_recomputation(json, result);
  judge_list(json, "top", "", result);
  const std::optional<ValueReader> zero = json.find("zero_optimization");
  if (!zero || !zero->is_object()) return;
  constexpr std::string_view prefix = "zero_optimization.";
  const ObjectReader section = zero->object();
  read_offloaded_optimizer(section, stage, result);
  read_offloaded_parameters(section, stage, result);
  judge_list(section, "zero", prefix, result);
  if (stage == 3) return judge_list(section, "stage_3", prefix, result);
  for (const KnownKey& row : known_keys("deepspeed", "stage_3"))
    if (section.has(row.name)) result.ignored.push_back(fmt::format("{}{}", prefix, row.name));
}

}  // namespace sim
