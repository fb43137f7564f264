// Activations, rotary embedding, sums: what works on every element or pair of elements by itself.
#pragma once

#include <cstdint>
#include <span>

#include "real/engine/kernels.hpp"

namespace real {

// GELU in its tanh form (Hendrycks & Gimpel 2016, section 2), ReLU, squared ReLU (So et al. 2021),
// SwiGLU and GEGLU (Shazeer 2020). Gated: x is [tokens, 2 width], the gate before what it gates.
bool is_gated(sim::Function function);
void activation_forward(sim::Function function, std::int64_t width, std::span<const float> x,
                        std::span<float> y);
// ReLU reads its output instead of its input: `x_or_y`.
void activation_backward(sim::Function function, std::int64_t width, std::span<const float> x_or_y,
                         std::span<const float> dy, std::span<float> dx);

// Rotary embedding (Su et al. 2021) in the layout of Llama's and GPT-NeoX's code: of the first d
// elements of a head, i and i + d/2 are rotated by position / 10,000^(2i/d).
struct RotaryShape {
  std::int64_t tokens = 0, sequence = 0;  // sequence: tokens of it that are here
  std::int64_t heads = 0;                 // rotated ones, from the start of the row
  std::int64_t head_dim = 0;
  std::int64_t turned = 0;  // d
  std::int64_t width = 0;   // of a row
  kernels::ContextShare context{};
};
// In place; `inverse` turns back, which is the backward pass.
void rotary(const RotaryShape& shape, std::span<float> rows, bool inverse);

void copy(std::span<const float> from, std::span<float> to);
void add(std::span<const float> from, std::span<float> to);  // to += from
void scale(std::span<const float> from, float factor, std::span<float> to);
void sum(std::span<const float> a, std::span<const float> b, std::span<float> to);
void zero(std::span<float> to);
bool all_finite(std::span<const float> values);

}  // namespace real
