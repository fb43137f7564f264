// fsdp_config of Accelerate, TRL and axolotl.
#include <fmt/format.h>

#include <array>

#include "sim/interop/trainer_job.hpp"

namespace sim {
namespace {

constexpr std::array fsdp_keys{
    KnownKey{"min_num_params"},  // of SIZE_BASED_WRAP, which is refused
    KnownKey{"state_dict_type"},
    KnownKey{"final_state_dict_type"},
    KnownKey{"use_orig_params"},  // views of the same flat parameters
    KnownKey{"sync_module_states"},
    KnownKey{"cpu_ram_efficient_loading"},
    KnownKey{"cpu_offload_pin_memory"},
    KnownKey{"xla", Verdict::refused, "", "TPUs are not modelled"},
    KnownKey{"xla_fsdp_v2"},
    KnownKey{"xla_fsdp_grad_ckpt"},
    KnownKey{"xla_fsdp_settings"},
    KnownKey{"ignored_modules", Verdict::noted, "", "all parameters are modelled as sharded"},
    KnownKey{"mixed_precision_policy", Verdict::refused, "",
             "write mixed_precision of the job instead"},
    KnownKey{"forward_prefetch", Verdict::noted, "",
             "gathers are modelled one layer ahead either way"},
    KnownKey{"limit_all_gathers", Verdict::noted, "true",
             "at most two gathers are modelled as in flight"},
};

// The name without "fsdp_".
std::string_view bare(std::string_view key) {
  return key.starts_with("fsdp_") ? key.substr(5) : key;
}

void judge(const ObjectReader& section, const std::string& key, std::string_view prefix,
           Imported& result) {
  for (const KnownKey& row : fsdp_keys) {
    if (row.name != bare(key)) continue;
    const std::string name = fmt::format("{}{}", prefix, key);
    const std::optional<ValueReader> value = section.find(key);
    if (!value || row.verdict == Verdict::ignored || is_neutral(*value, row.neutral))
      result.ignored.push_back(name);
    else if (is_told(row.verdict))
      result.notes.push_back({name, std::string{row.reason}, row.verdict == Verdict::unmodelled});
    else
      value->problem(fmt::format("{}: {}", name, row.reason));
    return;
  }
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
    if (!read_one(section, key, fsdp)) judge(section, key, prefix, result);
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
