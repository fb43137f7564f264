#include "sim/model/key_heads.hpp"

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

const ModelOp& op_named(const Block& block, const std::string& name) {
  const auto found = std::find_if(block.ops.begin(), block.ops.end(),
                                  [&](const ModelOp& op) { return op.name == name; });
  SIM_CHECK(found != block.ops.end(), name);
  return *found;
}

// Adds the traffic and the saved tensors of the further heads, so that a framework's changes to the
// operator stay.
void widen(ModelOp& op, const ModelOp& before, const ModelOp& after) {
  op.in_features += after.in_features - before.in_features;
  op.out_features += after.out_features - before.out_features;
  op.forward_elements += after.forward_elements - before.forward_elements;
  op.backward_elements += after.backward_elements - before.backward_elements;
  op.saved_elements += after.saved_elements - before.saved_elements;
}

}  // namespace

bool shares_key_heads(const Model& model, int tensor_parallel) {
  return model.attention.kv_heads > 0 && model.attention.kv_heads < tensor_parallel;
}

Model with_shared_key_heads(const Model& model, int tensor_parallel) {
  SIM_CHECK(model.shape.has_value() && shares_key_heads(model, tensor_parallel), model.name);
  TransformerShape wide = *model.shape;
  wide.kv_heads = tensor_parallel;
  const Model before = build_transformer(*model.shape);
  const Model after = build_transformer(wide);
  Model made = model;
  made.attention.kv_heads = tensor_parallel;
  for (std::size_t layer = 0; layer < made.layers.size(); ++layer) {
    for (const char* name : {"qkv", "qk_norm", "rotary", "attention"}) {
      for (ModelOp& op : made.layers[layer].ops) {
        if (op.name != name) continue;
        const ModelOp& wider = op_named(after.layers[layer], name);
        if (op.kind == ModelOpKind::linear)
          op.gathered_features = wider.out_features;
        else
          widen(op, op_named(before.layers[layer], name), wider);
      }
    }
  }
  return made;
}

}  // namespace sim
