// fsdp_config of Accelerate, TRL and axolotl.
#include <fmt/format.h>

#include "sim/interop/trainers/trainer_job.hpp"

namespace sim {
namespace {

// The name without "fsdp_".
std::string_view bare(std::string_view key) {
  return key.starts_with("fsdp_") ? key.substr(5) : key;
}

void judge_fsdp_key(const ObjectReader& section, const std::string& key, std::string_view prefix,
                    Imported& result) {
  const KnownKey* row = known_key(known_keys("accelerate", "fsdp"), bare(key));
  if (row == nullptr) return;
  const std::optional<ValueReader> value = section.find(key);
  judge_key(*row, value, value && is_neutral(*value, row->neutral),
            fmt::format("{}{}", prefix, key), result);
}

bool read_one(const ObjectReader& section, const std::string& key, FsdpSettings& fsdp) {
  const std::string_view name = bare(key);
  if (name == "version")
    read_setting(section, key, fsdp.version);
  else if (name == "sharding_strategy")
    read_setting(section, key, fsdp.strategy);
  else if (name == "reshard_after_forward")
    read_setting(section, key, fsdp.reshard);
  else if (name == "auto_wrap_policy")
    read_setting(section, key, fsdp.wrap);
  else if (name == "transformer_layer_cls_to_wrap")
    read_setting(section, key, fsdp.classes);
  else if (name == "backward_prefetch" || name == "backward_prefetch_policy")
    read_setting(section, key, fsdp.prefetch);
  else if (name == "offload_params")
    read_setting(section, key, fsdp.offload);
  else if (name == "activation_checkpointing")
    read_setting(section, key, fsdp.recompute);
  else
    return false;
  return true;
}

}  // namespace

void read_fsdp_section(const ObjectReader& section, std::string_view prefix, FsdpSettings& fsdp,
                       Imported& result) {
  for (const std::string& key : section.unasked_keys())
    if (!read_one(section, key, fsdp)) judge_fsdp_key(section, key, prefix, result);
  // Whose units are modelled as a layer each, by whatever name.
  if (fsdp.classes.place) result.ignored.push_back(fmt::format("{}{}", prefix, fsdp.classes.name));
  // For the nearest name of an unknown key.
  for (const char* key :
       {"fsdp_version", "fsdp_sharding_strategy", "fsdp_reshard_after_forward",
        "fsdp_auto_wrap_policy", "fsdp_transformer_layer_cls_to_wrap", "fsdp_backward_prefetch",
        "fsdp_offload_params", "fsdp_activation_checkpointing"})
    static_cast<void>(section.has(key));
}

}  // namespace sim
