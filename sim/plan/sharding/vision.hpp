// The vision encoder in front of a language model (Layout::images), as one rank runs it.
//
// An image is a sequence of the encoder, and the images of a micro-batch are its micro-batch: so an
// encoder is sharded as any model, by a layout of its own. It is whole on every context rank, its
// products are split over tensor ranks, without sequence parallelism and in 16 bits (NVIDIA
// Megatron-Bridge, models/qwen_vl/modelling_qwen3_vl/transformer_config.py,
// get_vision_model_config).
#pragma once

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/sharding/sharding.hpp"

namespace sim {

// Whether the step runs an encoder.
inline bool runs_vision(const Model& model, const Layout& layout) {
  return model.has_vision() && layout.images > 0;
}
// Tokens of an image in the sequence; 0: neither the layout nor the model says it.
std::int64_t tokens_of_image(const Model& model, const Layout& layout);
// The layout of the encoder. REQUIRES: runs_vision().
Layout vision_layout(const Model& model, const Layout& layout);

// Takes all from an operator that a backward pass would need.
void freeze_forward(ShardedBlock& block);

}  // namespace sim
