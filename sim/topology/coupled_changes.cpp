#include "sim/topology/coupled_changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "sim/config/reader.hpp"
#include "sim/topology/node_template.hpp"

namespace sim {
namespace {

// The value at "a.b.c", or nullopt.
std::optional<ValueReader> value_at(const Document& document, std::string_view key) {
  ObjectReader object = document.root_object();
  for (std::size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    const std::optional<ValueReader> section = object.find(key.substr(0, dot));
    if (!section || !section->is_object()) return std::nullopt;
    object = section->object();
    key.remove_prefix(dot + 1);
  }
  std::optional<ValueReader> value = object.find(key);
  if (!value || !value->is_scalar()) return std::nullopt;
  return value;
}

// 0 where the value is none: the reader gives what it refuses as a byte per second.
double rate_at(const Document& document, std::string_view key) {
  const std::optional<ValueReader> rate = value_at(document, key);
  const double value = rate ? rate->bandwidth().in_bytes_per_second() : 0;
  return value > 1 ? value : 0;
}
double nvlink_rate(const Document& document) {
  return rate_at(document, "node.nvlink.rate");
}
double xgmi_rate(const Document& document) {
  return rate_at(document, "node.xgmi.rate");
}

double pcie_rate(const Document& document) {
  const std::optional<ValueReader> generation = value_at(document, "node.pcie.generation");
  const std::optional<ValueReader> lanes = value_at(document, "node.pcie.lanes");
  if (!generation) return 0;
  return nccl_pcie_bandwidth(static_cast<int>(generation->integer({.min = 1, .max = 6})),
                             lanes ? static_cast<int>(lanes->integer({.min = 1, .max = 16})) : 16)
      .in_bytes_per_second();
}

struct Coupling {
  std::string_view section;            // "node.nvlink."
  std::vector<std::string_view> from;  // of these, the one that is changed ...
  std::string_view to;                 // ... is followed by this one
  double (*rate)(const Document&);     // 0: the file does not say
};

bool changes_key(const std::vector<Change>& changes, std::string_view section,
                 std::string_view key) {
  return std::any_of(changes.begin(), changes.end(), [&](const Change& change) {
    return change.key.size() == section.size() + key.size() && change.key.starts_with(section) &&
           change.key.ends_with(key);
  });
}

// A document whose problems nobody reads: the strict reader of the cluster reports them.
std::optional<Document> changed_document(const std::string& path,
                                         const std::vector<Change>& changes) {
  Document document = Document::load(path);
  try {
    document.change(changes);
  } catch (const InputError&) {
    return std::nullopt;
  }
  return document;
}

}  // namespace

std::vector<Change> coupled_changes(const std::string& path, const std::vector<Change>& changes) {
  const std::array<Coupling, 3> couplings{
      Coupling{"node.nvlink.", {"rate"}, "usable", nvlink_rate},
      Coupling{"node.xgmi.", {"rate"}, "usable", xgmi_rate},
      Coupling{"node.pcie.", {"generation", "lanes"}, "bandwidth", pcie_rate}};
  std::vector<Change> followers;
  for (const Coupling& coupling : couplings) {
    const auto is_changed = [&](std::string_view key) {
      return changes_key(changes, coupling.section, key);
    };
    if (std::none_of(coupling.from.begin(), coupling.from.end(), is_changed)) continue;
    if (is_changed(coupling.to)) continue;
    const Document file = Document::load(path);
    const std::optional<Document> after = changed_document(path, changes);
    const std::string key = fmt::format("{}{}", coupling.section, coupling.to);
    if (!after || !value_at(file, key)) continue;
    const double ratio = coupling.rate(*after) / coupling.rate(file);
    if (std::isfinite(ratio) && ratio > 0 && ratio != 1)
      followers.push_back({key, fmt::format("x{}", ratio)});
  }
  return followers;
}

}  // namespace sim
