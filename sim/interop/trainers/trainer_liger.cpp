// Liger's kernels: transformers, use_liger_kernel (integrations/liger.py: by default norms, rotary
// embeddings, gates and the loss with its head; linkedin/Liger-Kernel at 00eba634, transformers/
// monkey_patch.py, apply_liger_kernel_to_llama); LLaMA-Factory at ff6d4d12, enable_liger_kernel
// (model/model_utils/liger_kernel.py); axolotl at 067b021c, integrations/liger/args.py, one flag
// for each.
#include "sim/interop/trainers/trainer_job.hpp"

namespace sim {
namespace {

bool is_on(const ObjectReader& root, const char* key) {
  Flag on;
  read_setting(root, key, on);
  return on.value_or(false);
}

}  // namespace

LigerKernels read_liger(const ObjectReader& root) {
  bool all = false;
  for (const char* key : {"use_liger_kernel", "use_liger", "enable_liger_kernel"})
    all = is_on(root, key) || all;
  const bool gate = is_on(root, "liger_glu_activation") || is_on(root, "liger_swiglu") || all;
  return {.norm = is_on(root, "liger_rms_norm") || all,
          .rotary = is_on(root, "liger_rope") || all,
          .gate = gate,
          .loss = is_on(root, "liger_fused_linear_cross_entropy") || all};
}

void run_with_liger(const LigerKernels& liger, Framework& framework) {
  if (liger.norm) framework.rms_norm = NormForm::fused;
  if (liger.rotary) framework.rotary = RotaryForm::fused;
  if (liger.gate) framework.gate = KernelForm::fused;
  if (liger.loss) framework.loss = LossForm::chunked;
}

}  // namespace sim
