// Keys of the section `layout`: the fields of a layout (sim/layout/layout_fields.hpp), and the
// other forms in which a file may say them.
#include "sim/catalog/tables.hpp"
#include "sim/layout/layout_fields.hpp"

namespace sim::catalog_tables {
namespace {

using enum KeyType;

// Behind layers_per_chunk.
std::vector<Key> forms_of_layers() {
  constexpr IntegerRange layers{0, layout_limits::layers};
  const KeyDefault in_form = KeyDefault::follows("required in this form");
  return {
      integer_key("layers_per_chunk.first", layers, "layers", in_form,
                  "layers of the first model chunk"),
      integer_key("layers_per_chunk.last", layers, "layers", in_form,
                  "layers of the last model chunk"),
      text_key(list, "layers_per_stage", KeyDefault::follows("layers_per_chunk"),
               "layers of each pipeline rank: even or a list; excludes layers_per_chunk", {"even"}),
  };
}

// Before overlap.gradients.
Key form_of_overlap() {
  return boolean_key("overlap", KeyDefault::follows("each as below"),
                     "short form: all overlaps below but tensor_products");
}

}  // namespace

std::vector<Key> layout() {
  std::vector<Key> keys;
  for (const LayoutField& field : layout_fields()) {
    if (field.key.path == "overlap.gradients") keys.push_back(form_of_overlap());
    keys.push_back(field.key);
    if (field.key.path == "layers_per_chunk")
      for (Key& form : forms_of_layers())
        keys.push_back(std::move(form));
  }
  return in_section("layout", std::move(keys));
}

}  // namespace sim::catalog_tables
