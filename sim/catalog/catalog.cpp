#include "sim/catalog/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/input_error.hpp"
#include "sim/base/near_names.hpp"
#include "sim/base/short_names.hpp"
#include "sim/catalog/tables.hpp"

namespace sim {
namespace {

std::vector<Key> joined_tables() {
  namespace tables = catalog_tables;
  std::vector<Key> keys;
  for (std::vector<Key> (*table)() :
       {tables::top, tables::layout, tables::simulation, tables::framework, tables::training,
        tables::budget, tables::disturbance, tables::model, tables::machine, tables::device})
    for (Key& key : table())
      keys.push_back(std::move(key));
  return keys;
}

// Whether `text` is `pattern` with something, or nothing, in the place of each *.
bool matches(std::string_view pattern, std::string_view text) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1);
  for (std::size_t at = star; at <= text.size(); ++at)
    if (matches(pattern, text.substr(at))) return true;
  return false;
}

}  // namespace

const std::vector<Key>& key_catalog() {
  static const std::vector<Key> keys = joined_tables();
  return keys;
}

const Key* find_key(std::string_view path) {
  static const std::map<std::string_view, const Key*> by_path = [] {
    std::map<std::string_view, const Key*> map;
    for (const Key& key : key_catalog())
      map.emplace(key.path, &key);
    return map;
  }();
  const auto found = by_path.find(path);
  return found == by_path.end() ? nullptr : found->second;
}

const Key& require_key(std::string_view path) {
  if (const Key* key = find_key(path)) return *key;
  std::vector<std::string_view> names;
  for (const Key& key : key_catalog())
    names.emplace_back(key.path);
  throw InputError({"key", 0, 0},
                   fmt::format("unknown key '{}'; {}", path, choices_text(path, names)));
}

std::vector<Key> matching_keys(std::string_view pattern) {
  if (const std::string_view whole = whole_name(pattern); !whole.empty()) pattern = whole;
  std::vector<Key> keys;
  const bool glob = pattern.find('*') != std::string_view::npos;
  for (const Key& key : key_catalog())
    if (glob ? matches(pattern, key.path) : key.path.find(pattern) != std::string::npos)
      keys.push_back(key);
  return keys;
}

}  // namespace sim
