#include "sim/plan/parameters/unscaled_states.hpp"

namespace sim::lowering {
namespace {

// get_unscaled_state: float(), of fp16 times a scale in place. _apply_scale: bf16: a cast, a copy;
// fp8: the extrema, a cast; fp16: the extrema, a product in place, a copy. Around them operations
// on single numbers: the larger of the extrema, the scale, its reciprocal.
void add(UnscaledStates& sum, DType dtype) {
  constexpr std::int64_t full = 4;
  const std::int64_t kept = bytes_of(dtype);
  sum.states += 1;
  sum.kept_bytes += kept;
  sum.bytes += kept + full;
  switch (dtype) {
    case DType::fp8:
    case DType::nvfp4:
      sum.bytes += full + full + kept;
      sum.launches += 1 + 7;
      break;
    case DType::fp16:
      sum.bytes += 2 * full + full + 2 * full + full + kept;
      sum.launches += 2 + 8;
      break;
    case DType::bf16:
      sum.bytes += full + kept + 2 * kept;
      sum.launches += 1 + 2;
      break;
    case DType::fp32:
    case DType::tf32:
      break;
  }
}

}  // namespace

UnscaledStates unscaled_states(const Layout& layout) {
  UnscaledStates sum;
  // Without masters moments have the format of the weights, and are updated in it.
  const bool plain = layout.state_format == StateFormat::plain;
  if (!plain || !layout.master_weights || layout.optimizer != OptimizerKind::adam) return sum;
  const DType first = layout.dtype_of_moment(0), second = layout.dtype_of_moment(1);
  const bool fused = first == second && (first == DType::fp32 || first == DType::bf16);
  for (const DType moment : {first, second})
    if (!fused && moment != DType::fp32) add(sum, moment);
  if (layout.master_format == MasterFormat::fp16) add(sum, DType::fp16);
  return sum;
}

}  // namespace sim::lowering
