// Checks of a layout: optimizer states, parameters and activations on the host
// (Layout::offload_optimizer, offload_parameters, offload_activations).
#include <algorithm>

#include "sim/plan/layout_problem_list.hpp"
#include "sim/schedule/schedule_rules.hpp"

namespace sim {
namespace {

void check_optimizer(const Layout& layout, const Model& model, LayoutProblemList& list) {
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
  if (model.execution.flat_parameters && !layout.offloads_parameters())
    list.problem("offload.optimizer",
                 "the optimizer alone is not offloaded with framework.flat_parameters (PyTorch's "
                 "first FSDP); allowed: offload.parameters with it");
}

// The update of the step before and the passes of this one work on one copy of the weights, the
// host's, where that is the only one.
void check_delay(const Layout& layout, LayoutProblemList& list) {
  if (!layout.offload_delay) {
    if (layout.offload_delay_after > 0)
      list.problem("offload.delay_after", "offload.delay_after is set without offload.delay");
    return;
  }
  const char* excludes = !layout.offloads()                        ? "offload.optimizer none"
                         : layout.offload_fraction != 1            ? "offload.fraction below 1"
                         : layout.offloads_parameters()            ? "offload.parameters"
                         : layout.trains_apart()                   ? "local_steps"
                         : layout.has_servers()                    ? "servers"
                         : !layout.master_weights                  ? "master_weights false"
                         : layout.optimizer == OptimizerKind::muon ? "optimizer muon"
                                                                   : nullptr;
  if (excludes != nullptr)
    list.problem("offload.delay", "offload.delay is not possible with {}", excludes);
}

// deepspeedai/DeepSpeed, runtime/zero/stage3.py: "parameter offload is only available with
// optimizer state offload"; PyTorch, CPUOffloadPolicy: the optimizer runs on the host, too.
void check_parameters(const Layout& layout, const Model& model, LayoutProblemList& list) {
  if (!layout.offloads_parameters()) return;
  const char* key = "offload.parameters";
  const auto target = word(layout.offload_parameters);
  if (layout.zero_stage != 3)
    list.problem(key, "offload.parameters is {} with zero_stage {}; allowed: zero_stage 3", target,
                 layout.zero_stage);
  if (!layout.offloads() || layout.offload_fraction != 1)
    list.problem(key,
                 "offload.parameters is {}: the host updates them; allowed: offload.optimizer cpu "
                 "or nvme, offload.fraction 1",
                 target);
  bool norms_in_heads = false;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      norms_in_heads = norms_in_heads || op.name == "qk_norm";
  const bool sums = layout.tensor_parallel > 1 && (layout.sequence_parallel || norms_in_heads);
  const char* excludes = layout.pipeline_parallel > 1 ? "pipeline_parallel above 1"
                         : layout.shard_ranks() == 1 && layout.replicas() > 1 ? "shard_group 1"
                         : sums                        ? "sequence_parallel or norms of heads"
                         : model.has_experts()         ? "experts"
                         : layout.eight_bit_parameters ? "fp8_parameters"
                         : layout.quantized_weights || layout.secondary_shard ? "compressed weights"
                         : layout.compression != GradientCompression::none ? "compression.gradients"
                         : layout.trains_apart()                           ? "local_steps"
                         : layout.has_servers()                            ? "servers"
                         : layout.optimizer == OptimizerKind::muon         ? "optimizer muon"
                                                                           : nullptr;
  if (excludes != nullptr)
    list.problem(key, "offload.parameters is {}, which is not modelled with {}", target, excludes);
}

// Megatron-LM at d98e8a64, core/transformer/transformer_config.py, __post_init__.
void check_grouped_mlp(const Layout& layout, const Model& model, LayoutProblemList& list) {
  const auto has = [&](OffloadModule module) {
    return std::ranges::find(layout.offload_modules, module) != layout.offload_modules.end();
  };
  if (!has(OffloadModule::fused_group_mlp)) return;
  if (!model.execution.operation_fuser)
    list.problem("offload.modules",
                 "offload.modules has fused_group_mlp, which is the operation fuser's; allowed "
                 "with framework.operation_fuser false: expert_fc1, moe_act");
  if (has(OffloadModule::expert_fc1) || has(OffloadModule::moe_act))
    list.problem("offload.modules",
                 "offload.modules has fused_group_mlp beside expert_fc1 or moe_act, which are "
                 "parts of it; allowed: one of them");
}

// Passes that are merged or split have no one place for a layer's copies.
void check_activations(const Layout& layout, const Model& model, LayoutProblemList& list) {
  const char* key = "offload.activations";
  if (layout.offload_least > 0 && layout.offload_modules.empty())
    list.problem("offload.least",
                 "offload.least is {} without offload.modules; allowed: 0, or a list of modules",
                 layout.offload_least);
  if (!layout.offloads_activations()) {
    if (layout.offload_layers > 0 || !layout.offload_modules.empty())
      list.problem(key,
                   "offload.activations is none, but offload.layers or offload.modules is set; "
                   "allowed: cpu");
    return;
  }
  if (layout.offload_activations == OffloadTarget::nvme)
    list.problem(key, "offload.activations is nvme: no framework does that; allowed: none, cpu");
  const char* excludes = splits_backward(layout.schedule) ? "a split backward pass"
                         : layout.overlap_expert_exchange ? "overlap.expert_exchange"
                         : layout.cuts_products()         ? "overlap.tensor_products"
                         : layout.trains_apart()          ? "local_steps"
                                                          : nullptr;
  if (excludes != nullptr)
    list.problem(key, "offload.activations is cpu, which is not modelled with {}", excludes);
  check_grouped_mlp(layout, model, list);
  if (!layout.offload_modules.empty() && layout.recompute == Recompute::full)
    list.problem("offload.modules",
                 "offload.modules with recompute full, which keeps the inputs of layers alone; "
                 "allowed: []");
}

}  // namespace

void check_offload(const Layout& layout, const Model& model, LayoutProblemList& list) {
  if (!(layout.offload_fraction >= 0 && layout.offload_fraction <= 1))
    list.problem("offload.fraction", "offload.fraction is {}; allowed: 0 to 1",
                 layout.offload_fraction);
  check_optimizer(layout, model, list);
  check_delay(layout, list);
  check_parameters(layout, model, list);
  check_activations(layout, model, list);
}

}  // namespace sim
