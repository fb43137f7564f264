#include "sim/plan/sharding/vision.hpp"

namespace sim {

std::int64_t tokens_of_image(const Model& model, const Layout& layout) {
  if (layout.image_tokens > 0) return layout.image_tokens;
  return model.shape->vision.tokens_of_image();
}

Layout vision_layout(const Model& model, const Layout& layout) {
  Layout own = layout;
  own.images = own.image_tokens = 0;
  own.sequence_length = model.shape->vision.patches_of(tokens_of_image(model, layout));
  own.micro_batch *= layout.images;
  own.global_batch *= layout.images;
  own.packed_length = 0;
  own.context_parallel = 1;
  own.sequence_parallel = false;
  own.overlap_tensor_products = false;
  own.mlp_tiles = 1;
  own.lora_rank = 0;
  own.compute_dtype =
      is_quantized(layout.compute_dtype) ? layout.activation_dtype : layout.compute_dtype;
  own.fp8_modules.clear();
  own.eight_bit_parameters = false;
  own.layers_per_chunk.clear();
  own.pipeline_parallel = own.virtual_stages = 1;
  own.schedule = Schedule::one_f_one_b;
  return own;
}

void freeze_forward(ShardedBlock& block) {
  for (ShardedOp& op : block.ops) {
    op.frozen_parameters = op.parameters;
    op.parameters = op.tensor_summed = 0;
    op.backward.reset();
    op.weight_gradient.reset();
    op.weight_gradient_apart.clear();
    op.add_gradient.reset();
    op.saved = op.attention_saved = op.backward_scratch = {};
  }
}

}  // namespace sim
