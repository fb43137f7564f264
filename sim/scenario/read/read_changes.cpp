#include "sim/scenario/read/read_changes.hpp"

#include <algorithm>

namespace sim {
namespace {

void put(std::vector<Change>& changes, Change change) {
  const auto known = std::find_if(changes.begin(), changes.end(),
                                  [&](const Change& item) { return item.key == change.key; });
  if (known == changes.end())
    changes.push_back(std::move(change));
  else
    known->value = std::move(change.value);
}

void flatten(const ObjectReader& section, const std::string& prefix, std::vector<Change>& changes) {
  for (const std::string& key : section.keys()) {
    const ValueReader value = section.at(key);
    if (value.is_object()) {
      flatten(value.object(), prefix + key + '.', changes);
    } else if (const std::optional<std::string> text = value.peek_text(); text && !text->empty()) {
      put(changes, {prefix + key, *text});
    } else {
      value.problem(key + " needs a single value: a number, a quantity, or x0.5 for half of it");
    }
  }
}

}  // namespace

ClusterChanges read_changes(const Layered& cluster) {
  ClusterChanges changes;
  const auto read = [&](std::string_view key, std::vector<Change>& into) {
    cluster.section(key).each([&](const ObjectReader& layer) { flatten(layer, "", into); });
  };
  read("change", changes.cluster);
  read("device", changes.device);
  return changes;
}

}  // namespace sim
