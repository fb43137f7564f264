#include <fmt/format.h>

#include "sim/interop/settings.hpp"
#include "sim/interop/torchtitan/torchtitan.hpp"

namespace sim {

void judge_torchtitan_keys(const ObjectReader& root, Imported& result) {
  for (const KeyList& section : verdicts("torchtitan"))
    if (const auto found = root.find(section.name))
      judge_keys(found->object(), section.keys, fmt::format("{}.", section.name), result);
}

}  // namespace sim
