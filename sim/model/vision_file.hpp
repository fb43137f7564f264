// The vision encoder in a model file (models/FORMAT.md, "A vision encoder").
#pragma once

#include <string>

#include "sim/config/reader.hpp"
#include "sim/model/transformer_shape.hpp"

namespace sim {

// The keys `vision` and `projector`. Records problems. REQUIRES: all else is read.
void read_vision(const ObjectReader& in, TransformerShape& shape);
// The values of these keys.
std::string vision_text(const VisionEncoder& vision);
std::string projector_text(const Projector& projector);
// Records what is wrong with an encoder that a file says, at the keys that it has for them.
struct VisionKeys {
  const char* heads = "heads";
  const char* size = "image_size";
};
void check_encoder(const ObjectReader& in, const VisionEncoder& vision, const VisionKeys& keys);

}  // namespace sim
