// Keys of Megatron-Bridge that no setting has: which of them change a step.
#include "sim/interop/bridge/bridge_keys.hpp"

#include <fmt/format.h>

#include "sim/interop/megatron/megatron_config.hpp"

namespace sim {
namespace {

// keys_of() a section: those that are told or refused, and those that are ignored.
std::span<const KnownKey> keys_of(std::string_view section) {
  const std::span<const KnownKey> known = known_keys("bridge", section);
  return known.empty() ? anything : known;  // no step depends on it
}
bool counts(std::string_view section) {
  return keys_of(section).data() != anything.data();
}
bool is_ignored(std::span<const KnownKey> rows, std::string_view key) {
  const KnownKey* row = known_key(rows, key);
  return row != nullptr && row->verdict == Verdict::ignored;
}

}  // namespace

std::pair<std::string, std::string> split_bridge_place(std::string_view name) {
  const std::size_t dot = name.find('.');
  return {std::string{name.substr(0, dot)}, std::string{name.substr(dot + 1)}};
}

bool bridge_key_counts(std::string_view path) {
  const auto [section, rest] = split_bridge_place(path);
  const std::string key = rest.substr(0, rest.find('.'));
  if (section == "peft" || path == "tokenizer.vocab_size") return true;
  const std::string of_section = fmt::format("{}.{}", section, key);
  bool is_setting = false;
  MegatronConfig config;
  for_each_setting(config, [&](const Spelling& name, const auto&) {
    for (const char* place : name.bridge)
      is_setting = is_setting || (place != nullptr && of_section == place);
  });
  if (is_setting) return true;
  if (!counts(section)) return false;
  if (section.size() == path.size()) return true;
  return !is_ignored(keys_of(section), key) && !is_ignored(known_keys("megatron", "experts"), key);
}

void judge_bridge_sections(const ObjectReader& root, Imported& result) {
  for (const char* section : bridge_sections) {
    const std::optional<ValueReader> found = root.find(section);
    if (!found) continue;
    if (!found->is_object()) {
      const bool named = section == std::string_view{"mixed_precision"};
      if (counts(section) && !named && !is_neutral(*found, ""))
        found->problem(fmt::format("{} takes an object of settings", section));
      else if (!named)
        result.ignored.emplace_back(section);
      continue;
    }
    const ObjectReader object = found->object();
    const std::string prefix = fmt::format("{}.", section);
    judge_keys(object, keys_of(section), prefix, result);
    note_unknown_keys(object, prefix, result);
  }
  judge_keys(root, known_keys("bridge", "top"), "", result);
}

}  // namespace sim
