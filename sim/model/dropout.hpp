// Which operators of a transformer drop elements, and how many of them.
#pragma once

#include "sim/model/model.hpp"

namespace sim {

// The probability with which an operator drops an element: of a residual sum, of what its branch
// adds; of attention, of the probabilities; of a sum without a branch, of the embedding. 0: none.
inline double dropout_of(const Model& model, const ModelOp& op) {
  if (!model.shape) return 0;
  const TransformerShape& shape = *model.shape;
  if (op.kind == ModelOpKind::attention) return shape.attention_dropout;
  if (op.function != Function::add_residual) return 0;
  if (op.residual_of < 0) return shape.embedding_dropout;
  // The branch of attention is the first of its layer.
  return op.residual_of == 0 ? shape.projection_dropout : shape.mlp_dropout;
}

}  // namespace sim
