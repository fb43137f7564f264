#include "sim/report/memory_kinds.hpp"

#include <fmt/format.h>

namespace sim {

// Frameworks hold the same thing in ways of their own.
std::vector<std::string> memory_kinds(FrameworkName framework, const Layout& layout,
                                      const Model& model) {
  std::vector<std::string> kinds{fmt::format("framework {}", word(framework))};
  const auto add = [&](bool is, std::string_view what) {
    if (is) kinds.emplace_back(what);
  };
  const auto under = [&](bool is, std::string_view what) {
    if (is) kinds.push_back(fmt::format("{} under {}", what, word(framework)));
  };
  if (layout.pipeline_parallel > 1)
    kinds.push_back(fmt::format("schedule {}", word(layout.schedule)));
  under(layout.zero_stage == 3, "ZeRO-3");
  under(model.has_experts(), "experts");
  under(layout.context_parallel > 1, "context parallel");
  under(!model.is_layer_list && layout.compute_dtype != layout.activation_dtype,
        fmt::format("products in {}", word(layout.compute_dtype)));
  add(layout.trains_adapters(), "low-rank adapters");
  add(layout.offloads(), "optimizer on the host");
  add(layout.offloads_parameters(), "parameters on the host");
  add(layout.offloads_activations(), "activations on the host");
  add(model.execution.chunks_logits || layout.loss_chunks > 1, "loss in chunks");
  return kinds;
}

}  // namespace sim
