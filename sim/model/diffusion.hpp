// Diffusion transformers of two streams (MMDiT; Esser et al. 2024, arXiv:2403.03206, section 4), as
// FLUX.1 has them: double blocks, in which text and image have parameters of their own and attend
// together, and single blocks, in which attention and MLP work on one input. A vector made of the
// time step and of the text modulates every block.
#pragma once

#include <cstdint>
#include <string>

#include "sim/model/model.hpp"

namespace sim {

struct DiffusionShape {
  std::string name, family, source;
  std::int64_t double_layers = 0, single_layers = 0;
  std::int64_t hidden = 0, heads = 0, feed_forward = 0;
  std::int64_t image_size = 0;  // pixels of an image's edge; of a token's
  std::int64_t patch = 0;
  std::int64_t channels = 0;    // features of a token in the latent image
  std::int64_t text_tokens = 0, text_width = 0;
  std::int64_t vector_width = 0;     // of the pooled text
  std::int64_t timestep_width = 0;   // of the embedding of a time step
  bool guidance = false;             // another such embedding (FLUX.1-dev)
  std::int64_t image_tokens() const { return (image_size / patch) * (image_size / patch); }
  std::int64_t tokens() const { return image_tokens() + text_tokens; }
};

// A model whose sequence is the tokens of text and image. Encoders of text and images are no part
// of it. REQUIRES: sizes are sound.
Model build_diffusion(const DiffusionShape& shape);

}  // namespace sim
