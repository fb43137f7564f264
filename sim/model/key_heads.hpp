// Tensor parallelism beyond the number of key/value heads.
#pragma once

#include "sim/model/model.hpp"

namespace sim {

// Whether tensor ranks share key/value heads: more ranks than heads, each head on several of them.
bool shares_key_heads(const Model& model, int tensor_parallel);

// The model as each of `tensor_parallel` ranks runs it that share key/value heads: the product of
// queries, keys and values is split over them as ever, its output is gathered
// (ModelOp::gathered_features), and what follows has one key/value head per rank.
// Source: NVIDIA/Megatron-LM core_v0.16.1, core/transformer/attention.py,
// get_query_key_value_tensors. REQUIRES: shares_key_heads(model, tensor_parallel); a transformer
// that has a shape.
Model with_shared_key_heads(const Model& model, int tensor_parallel);

}  // namespace sim
