// Dropout (Srivastava et al. 2014): an element is dropped with a probability p, the others are
// divided by 1 - p.
//
// Whether it is dropped follows from the seed, the step, the operator of the model (its layer and
// its place there) and the element's number in the tensor of the whole global batch, and from
// nothing else. So every layout drops the same elements, and the backward pass finds the mask again
// without keeping it. Kernels of both backends draw by this class.
#pragma once

#include <cstdint>

#include "real/engine/kernels.hpp"
#include "real/engine/kernels/philox.hpp"

namespace real {

// Draws for the elements of one operator in one step, in ascending order without cost; in any other
// order too.
class DropoutMask {
 public:
  // REQUIRES: there is a step, or no probability.
  explicit constexpr DropoutMask(const kernels::Dropout& dropout)
      : key_{static_cast<std::uint32_t>(dropout.seed),
             static_cast<std::uint32_t>(dropout.seed >> 32)},
        site_{dropout.site},
        step_{dropout.step != nullptr ? static_cast<std::uint32_t>(dropout.step->number) : 0},
        dropped_below_{static_cast<std::uint64_t>(dropout.probability * 0x1p32)},
        kept_{static_cast<float>(1 / (1 - dropout.probability))} {}

  // The factor of the element: 0 or 1 / (1 - p).
  constexpr float factor(std::uint64_t element) {
    const std::uint64_t block = element / 4;
    if (block != block_) {
      block_ = block;
      words_ = philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                       site_, step_},
                      key_);
    }
    // By tests: an index that is no constant would put the words into memory on a GPU.
    const bool second = element % 2 == 1;
    const std::uint32_t low = second ? words_[1] : words_[0];
    const std::uint32_t high = second ? words_[3] : words_[2];
    return (element % 4 < 2 ? low : high) < dropped_below_ ? 0.0F : kept_;
  }

 private:
  PhiloxKey key_;
  std::uint32_t site_, step_;
  std::uint64_t dropped_below_;
  float kept_;
  std::uint64_t block_ = UINT64_MAX;
  PhiloxCounter words_{};
};

}  // namespace real

namespace real::kernels {

// A row for each token of sequences `first_sequence` and following of the global batch.
struct DropoutShape {
  sim::DType dtype = sim::DType::fp32;
  Positions tokens;
  std::int64_t first_sequence = 0;
  std::int64_t width = 0;
  Dropout dropout;
  // The row in the tensor of the global batch.
  constexpr std::int64_t row(std::int64_t t) const {
    const std::int64_t sequence = first_sequence + (tokens.first_token + t) / tokens.sequence;
    return sequence * tokens.sequence * tokens.context.ranks + tokens.position(t);
  }
};
// output = input, dropped, + residual (null: none): the forward pass of a residual sum; without a
// residual the backward pass, of the gradient. The output may lie where either does.
void drop(const DropoutShape& shape, const void* input, const void* residual, void* output,
          StreamHandle stream);

struct DropoutTable {
  decltype(&kernels::drop) drop = nullptr;
};

}  // namespace real::kernels
