// Optimizer states on the host (Layout::offload_optimizer).
#include "sim/plan/layout_problem_list.hpp"

namespace sim {

void check_offload(const Layout& layout, const Model& model, LayoutProblemList& list) {
  if (!(layout.offload_fraction >= 0 && layout.offload_fraction <= 1))
    list.problem("offload.fraction", "offload.fraction is {}; allowed: 0 to 1",
                 layout.offload_fraction);
  if (!layout.offloads()) {
    if (layout.offload_fraction != 1 || layout.offload_overlap)
      list.problem("offload.optimizer",
                   "offload.optimizer is none, but offload.fraction or offload.overlap is set; "
                   "allowed: cpu, nvme");
    return;
  }
  if (layout.optimizer == OptimizerKind::sgd && !layout.master_weights)
    list.problem("offload.optimizer",
                 "offload.optimizer is {}, but sgd without master_weights has no states to offload",
                 word(layout.offload_optimizer));
  if (sends_signs(layout.compression))
    list.problem("offload.optimizer",
                 "offload.optimizer is {} with compression.gradients {}, which needs the momentum "
                 "on the device",
                 word(layout.offload_optimizer), word(layout.compression));
  if (model.execution.flat_parameters)
    list.problem(
        "framework",
        "offloading is not modelled with framework.flat_parameters (PyTorch's first FSDP)");
}

}  // namespace sim
