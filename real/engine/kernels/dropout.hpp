// Dropout (Srivastava et al. 2014): an element is dropped with a probability p, the others are
// divided by 1 - p.
//
// Whether it is dropped follows from the seed, the step, the operator of the model (its layer and
// its place there) and the element's number in the tensor of the whole global batch, and from
// nothing else. So every layout drops the same elements, and the backward pass finds the mask again
// without keeping it. Backends that have no dropout leave the table out.
#pragma once

#include <cstdint>

#include "real/engine/kernels.hpp"
#include "real/engine/kernels/philox.hpp"

namespace real {

// Draws for the elements of one operator in one step, in ascending order without cost; in any other
// order too.
class DropoutMask {
 public:
  explicit DropoutMask(const kernels::Dropout& dropout)
      : key_{static_cast<std::uint32_t>(dropout.seed),
             static_cast<std::uint32_t>(dropout.seed >> 32)},
        site_{dropout.site},
        step_{static_cast<std::uint32_t>(dropout.step->number)},
        dropped_below_{static_cast<std::uint64_t>(dropout.probability * 0x1p32)},
        kept_{static_cast<float>(1 / (1 - dropout.probability))} {}

  // The factor of the element: 0 or 1 / (1 - p).
  float factor(std::uint64_t element) {
    const std::uint64_t block = element / 4;
    if (block != block_) {
      block_ = block;
      words_ = philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                       site_, step_},
                      key_);
    }
    return words_[element % 4] < dropped_below_ ? 0.0F : kept_;
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
