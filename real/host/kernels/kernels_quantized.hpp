// Numbers as integers of 8 or 4 bits with a scale per group
// (sim/plan/parameters/compression_work.hpp, quantized_bytes): the integers, filled up to a word,
// then the scales.
#pragma once

#include <cstddef>
#include <cstdint>

#include "real/engine/kernels.hpp"

namespace real::host {

std::int64_t quantized_size(std::int64_t elements, int bits);  // bytes
// scale = largest magnitude of the group / largest integer; nearest integer.
void quantize_piece(std::int64_t elements, int bits, const float* from, std::byte* to);
void dequantize_piece(std::int64_t elements, int bits, const std::byte* from, float* to);

// In 4 bits a sign and an exponent, no mantissa (E3M0): 0, or a power of two from 2^-6 to 1, times
// the largest magnitude of the group; the nearest.
void encode_e3m0_piece(std::int64_t elements, const float* from, std::byte* to);
void decode_e3m0_piece(std::int64_t elements, const std::byte* from, float* to);

// Pieces one after another, each with its scales.
void quantize(std::int64_t elements, std::int64_t pieces, int bits, const float* from,
              std::byte* to, kernels::StreamHandle stream);
void dequantize(std::int64_t elements, std::int64_t pieces, int bits, const std::byte* from,
                float* to, kernels::StreamHandle stream);

}  // namespace real::host
