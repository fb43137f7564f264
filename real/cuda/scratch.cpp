#include "real/cuda/scratch.hpp"

#include "real/cuda/kernels/kernels.hpp"
#include "sim/plan/arena.hpp"

namespace real {

ScratchLayout scratch_layout(const ScratchNeeds& needs) {
  ScratchLayout layout;
  const auto take = [&](std::int64_t bytes) {
    const std::int64_t at = layout.bytes;
    const std::int64_t unit = sim::arena_alignment;
    layout.bytes += (bytes + unit - 1) / unit * unit;
    return at;
  };
  constexpr auto id_bytes = static_cast<std::int64_t>(sizeof(std::int32_t));
  layout.upload = take(static_cast<std::int64_t>(sizeof(kernels::AdamStep)));
  layout.ids = take(needs.ids * id_bytes);
  layout.upload_bytes = layout.ids - layout.upload + needs.ids * id_bytes;
  layout.results = take(static_cast<std::int64_t>(sizeof(StepResults)));
  layout.rotary_table = take(needs.rotary_table);
  for (const std::int64_t ranges : needs.decay) {
    layout.decay.push_back(take(ranges * static_cast<std::int64_t>(sizeof(kernels::Range))));
  }
  for (std::size_t s = 0; s < needs.workspaces.size(); ++s) {
    layout.workspaces[s] = take(needs.workspaces[s]);
  }
  layout.gemm_workspace = take(needs.gemm_workspace);
  return layout;
}

}  // namespace real
