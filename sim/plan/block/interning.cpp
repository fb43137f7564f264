#include "sim/plan/block/interning.hpp"

#include <cmath>

namespace sim::lowering {

std::uint32_t interned(ProgramBuilder& builder, const std::optional<Kernel>& kernel) {
  return kernel ? builder.kernel(*kernel) : none;
}

std::vector<std::uint32_t> interned(ProgramBuilder& builder, const std::vector<Kernel>& kernels) {
  std::vector<std::uint32_t> ids;
  ids.reserve(kernels.size());
  for (const Kernel& kernel : kernels)
    ids.push_back(builder.kernel(kernel));
  return ids;
}

Gathered as_gathered(const Layout& layout, const ShardedOp& op, Bytes tokens) {
  const DType kept = layout.activation_dtype;
  if (!op.gathers_quantized()) return {kept, tokens};
  const std::int64_t elements = tokens.count() / bytes_of(kept);
  return {DType::fp8, Bytes{std::llround(static_cast<double>(elements) * op.gathered_element)}};
}

std::uint32_t shift_by_copy_engines(ProgramBuilder& builder, const Gathered& slice) {
  return builder.collective({CollectiveKind::ring_shift, GroupRole::tensor, slice.dtype,
                             slice.bytes, Carrier::copy_engines});
}

}  // namespace sim::lowering
