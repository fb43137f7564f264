// LAMB, and 1-bit LAMB behind its warm-up.
#include "real/engine/launch/kernel_launches.hpp"
#include "sim/base/check.hpp"
#include "sim/plan/parameters/compression_work.hpp"

namespace real {

using kernels::Launch;
using kernels::StreamHandle;

// A bucket that one rank has alone is not compressed.
Launch KernelLaunches::lamb(const BoundOp& op) {
  SIM_CHECK(parts_.lamb != nullptr);
  const sim::Layout& layout = shapes_.layout();
  const bool one_bit = layout.compression == sim::GradientCompression::one_bit_lamb;
  struct LambPiece {
    kernels::AdamState state;
    kernels::OneBitLamb kept;
    std::span<const BoundTensor> tensors;
  };
  std::vector<LambPiece> pieces;
  for (std::size_t i = 0; i < parts_.program.buckets.size(); ++i) {
    const BoundBucket& bucket = parts_.program.buckets[i];
    LambPiece& piece = pieces.emplace_back();
    piece.state = adam_piece(i).state;
    piece.tensors = bucket.tensors;
    if (!one_bit || !bucket.residual.exists()) continue;
    piece.kept.fresh = static_cast<float*>(piece.state.v) + bucket.owned;
    piece.kept.numbers = lamb_numbers(bucket);
  }
  const auto update = [pieces, settings = adam_settings(), space = workspace(op),
                       table = *parts_.lamb](StreamHandle stream) {
    for (const LambPiece& piece : pieces)
      if (piece.kept.numbers != nullptr)
        table.one_bit_lamb(settings, piece.state, piece.kept, piece.tensors, stream);
      else
        table.lamb(settings, piece.state, piece.tensors, space, stream);
  };
  return kernels::in_turn(finish_norm(), update);
}

// Behind the residuals.
float* KernelLaunches::lamb_numbers(const BoundBucket& bucket) const {
  const std::int64_t part =
      sim::lowering::one_bit_part(bucket.elements, shapes_.layout().replicas());
  return reinterpret_cast<float*>(at(bucket.residual)) + bucket.padded + part;
}

}  // namespace real
