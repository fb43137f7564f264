#include "sim/scenario/layout_values.hpp"

#include <fmt/format.h>

#include "sim/layout/layout_fields.hpp"

namespace sim {

std::vector<LayoutValue> layout_values(const Layout& layout, const Model& model) {
  std::vector<LayoutValue> values;
  for (const LayoutField& field : layout_fields())
    if ((!field.applies || field.applies(model)) &&
        (field.written_always || !same_value(layout, Layout{}, field)))
      values.push_back({field.key.path, value_text(layout, field)});
  return values;
}

std::vector<std::string> overrides_of(const Layout& layout, const Model& model) {
  std::vector<std::string> overrides;
  for (const LayoutValue& item : layout_values(layout, model))
    overrides.push_back(fmt::format("layout.{}={}", item.key, item.value));
  return overrides;
}

}  // namespace sim
