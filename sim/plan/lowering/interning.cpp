#include "sim/plan/lowering/interning.hpp"

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
  const DType sent = op.gathers_eight_bits ? DType::fp8 : kept;
  return {sent, Bytes{tokens.count() / bytes_of(kept) * bytes_of(sent)}};
}

std::uint32_t shift_by_copy_engines(ProgramBuilder& builder, const Gathered& slice) {
  return builder.collective({CollectiveKind::ring_shift, GroupRole::tensor, slice.dtype,
                             slice.bytes, Carrier::copy_engines});
}

}  // namespace sim::lowering
