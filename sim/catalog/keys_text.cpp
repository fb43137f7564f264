// The catalogue as `stepcast keys` prints it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/catalog/catalog.hpp"
#include "sim/report/text_grid.hpp"

namespace sim {
namespace {

std::string type_text(const Key& key) {
  return key.unit.empty() ? std::string{word(key.type)}
                          : fmt::format("{} ({})", word(key.type), key.unit);
}

TextGrid grid_of(const std::vector<Key>& keys) {
  TextGrid grid{{{"key", "key"},
                 {"type", "type"},
                 {"allowed", "allowed"},
                 {"default", "default"},
                 {"what", "help"}},
                {}};
  for (const Key& key : keys) {
    grid.rows.push_back({key.path, type_text(key), allowed_text(key), default_text(key), key.help});
  }
  return grid;
}

}  // namespace

// A key has two lines: the values, and the help. A single table would be wider than a terminal.
std::string keys_text(const std::vector<Key>& keys) {
  std::string text;
  for (const Key& key : keys) {
    text += fmt::format("{}  {}\n    {}\n", key.path, type_text(key), key.help);
    const std::string allowed = allowed_text(key), standard = default_text(key);
    if (!allowed.empty()) text += fmt::format("    allowed: {}\n", allowed);
    text += fmt::format("    default: {}\n", standard);
  }
  return text;
}

std::string keys_json(const std::vector<Key>& keys) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const auto or_null = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  for (const Key& key : keys) {
    nlohmann::ordered_json row;
    row["key"] = key.path;
    row["type"] = word(key.type);
    row["unit"] = key.unit;
    row["help"] = key.help;
    row["default"] = key.fallback.value;
    row["default_rule"] = key.fallback.rule;
    row["required"] = key.fallback.is_required;
    row["least"] = or_null(key.least);
    row["greatest"] = or_null(key.greatest);
    row["words"] = key.words;
    row["only_in_file"] = key.only_in_file;
    list.push_back(std::move(row));
  }
  return list.dump(2) + "\n";
}

std::string keys_csv(const std::vector<Key>& keys) {
  return grid_csv(grid_of(keys));
}

std::string keys_markdown(const std::vector<Key>& keys) {
  return grid_markdown(grid_of(keys));
}

}  // namespace sim
