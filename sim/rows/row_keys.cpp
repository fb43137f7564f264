#include "sim/rows/row_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "sim/base/near_names.hpp"
#include "sim/catalog/catalog.hpp"

namespace sim {
namespace {

struct OwnColumn {
  std::string_view key, column;
};
constexpr std::array own_columns{
    OwnColumn{"layout.tensor_parallel", "tp"},    OwnColumn{"layout.context_parallel", "cp"},
    OwnColumn{"layout.pipeline_parallel", "pp"},  OwnColumn{"layout.data_parallel", "dp"},
    OwnColumn{"layout.expert_parallel", "ep"},    OwnColumn{"layout.expert_tensor_parallel", "etp"},
    OwnColumn{"layout.virtual_stages", "vpp"},    OwnColumn{"layout.micro_batch", "mbs"},
    OwnColumn{"layout.global_batch", "gbs"},      OwnColumn{"layout.sequence_length", "seq_len"},
    OwnColumn{"layout.zero_stage", "zero_stage"},
};

void flatten(const ObjectReader& section, const std::string& prefix, RowKeys& keys) {
  for (const std::string& name : section.keys()) {
    const ValueReader value = section.at(name);
    const std::string key = prefix + name;
    if (value.is_object()) {
      flatten(value.object(), key + '.', keys);
      continue;
    }
    if (const std::string problem = problem_of_key(key); !problem.empty()) value.problem(problem);
    if (!value.is_list()) {
      keys[key] = value.text();
      continue;
    }
    std::vector<std::string> items;
    for (const ValueReader& item : value.list())
      items.push_back(item.text());
    keys[key] = fmt::format("[{}]", fmt::join(items, ", "));
  }
}

bool is_of(std::string_view key, std::string_view section) {
  return key.starts_with(section) && key.substr(section.size()).starts_with('.');
}

}  // namespace

std::string key_of_column(std::string_view column) {
  if (column == "framework") return "framework.name";
  if (column == "framework_version") return "framework.version";
  return column.find('.') == std::string_view::npos ? std::string{} : std::string{column};
}

std::string problem_of_key(std::string_view key) {
  const Key* known = find_key(key);
  if (known != nullptr && !known->only_in_file) return {};
  if (known != nullptr) return fmt::format("a table cannot give the key '{}'", key);
  std::vector<std::string_view> names;
  for (const Key& entry : key_catalog())
    if (!entry.only_in_file) names.push_back(entry.path);
  return fmt::format("a scenario has no key '{}'; {}", key, choices_text(key, names));
}

RowKeys read_base(const ObjectReader& base) {
  RowKeys keys;
  flatten(base, "", keys);
  return keys;
}

std::string_view own_column(std::string_view key) {
  const auto own = std::ranges::find(own_columns, key, &OwnColumn::key);
  return own == own_columns.end() ? std::string_view{} : own->column;
}

void put_key(const std::string& key, const std::string& value, RunCells& cells) {
  const std::string_view own = own_column(key);
  if (own.empty())
    cells.keys.insert_or_assign(key, value);
  else
    cells.text.insert_or_assign(std::string{own}, value);
}

std::vector<std::string> assignments_of(const RunCells& cells, std::string_view section) {
  std::vector<std::string> assignments;
  for (const auto& [key, value] : cells.keys)
    if (is_of(key, section)) assignments.push_back(fmt::format("{}={}", key, value));
  return assignments;
}

std::vector<std::string> other_assignments(const RunCells& cells) {
  std::vector<std::string> assignments;
  for (const auto& [key, value] : cells.keys)
    if (!is_of(key, "framework") && !is_of(key, "layout"))
      assignments.push_back(fmt::format("{}={}", key, value));
  return assignments;
}

}  // namespace sim
