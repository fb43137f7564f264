#include "sim/scenario/renamed_keys.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sim {

const std::vector<RenamedKey>& renamed_keys() {
  static const std::vector<RenamedKey> keys{
      {"layout", "eight_bit_parameters", "fp8_parameters"},
      {"framework", "eight_bit", "fp8"},
      {"framework", "adds_gradients", "gradient_accumulation_fusion", true},
      {"framework", "gathers_logits", "parallel_output", true},
      {"framework", "stops_recomputation", "checkpoint_early_stop"},
      {"framework", "holds_units", "defer_gradient_sync"},
      {"framework", "waits_for_counts", "sync_expert_counts"},
      {"framework", "waits_for_messages", "batch_p2p_sync"},
      {"framework", "scales_gradients", "gradient_prescale"},
      {"framework", "checks_gradients", "check_for_nan_in_grad"},
  };
  return keys;
}

RenamedKey renamed_key(std::string_view section, std::string_view old) {
  const auto found = std::ranges::find_if(renamed_keys(), [&](const RenamedKey& key) {
    return key.section == section && key.old == old;
  });
  return found == renamed_keys().end() ? RenamedKey{section, old, old} : *found;
}

bool uses_old_name(const Layered& section, const RenamedKey& key, std::vector<Followed>& notes) {
  if (key.old == key.now) return false;
  // Not by has(): the old name shall not be among those that are suggested for a misspelt one.
  const auto says_old = [&](const ObjectReader& layer) {
    const std::vector<std::string> unasked = layer.unasked_keys();
    return std::ranges::find(unasked, key.old) != unasked.end();
  };
  bool in_any = false;
  section.each([&](const ObjectReader& layer) {
    if (!says_old(layer)) return;
    in_any = true;
    if (layer.has(key.old) && layer.has(key.now))
      layer.problem(key.old, fmt::format("is the old name of {}, which is there, too", key.now));
  });
  if (!in_any || (section.overridden(key.now) && !section.overridden(key.old))) return false;
  static_cast<void>(section.has(key.now));  // known, though the old name on top replaces it
  const std::string now = fmt::format("{}.{}", key.section, key.now);
  notes.push_back({fmt::format("{}.{}", key.section, key.old),
                   {},
                   now,
                   key.inverted ? "which means the opposite" : ""});
  return true;
}

bool renamed_boolean(const Layered& section, const RenamedKey& key, bool fallback,
                     std::vector<Followed>& notes) {
  if (uses_old_name(section, key, notes)) return section.boolean_or(key.old, fallback);
  return section.boolean_or(key.now, fallback != key.inverted) != key.inverted;
}

}  // namespace sim
