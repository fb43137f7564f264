// NF4 with double quantization (Dettmers et al. 2023, arXiv:2305.14314, section 3), as bitsandbytes
// stores frozen weights.
#pragma once

#include <span>

namespace real {

// Puts every value where the format has one. Blocks of 64 values share a scale, their largest
// magnitude; of 256 scales, less the mean of all, each has 8 bits of a dynamic format
// (bitsandbytes at 01327aa0, functional.py: create_dynamic_map, quantize_4bit with
// compress_statistics). Arithmetic is fp32.
void round_to_nf4(std::span<float> values);

}  // namespace real
