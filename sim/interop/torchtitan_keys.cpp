// Keys of torchtitan's TOML that are no settings: pytorch/torchtitan
// torchtitan/config/job_config.py of v0.2.2 (commit 73a0e697), what v0.1 had besides, and the
// dataclasses of HEAD (commit b5bcd76c, config/configs.py).
#include <fmt/format.h>

#include <array>
#include <span>

#include "sim/interop/settings.hpp"
#include "sim/interop/torchtitan.hpp"

namespace sim {
namespace {

constexpr std::array torchtitan_model_keys{
    KnownKey{"hf_assets_path"},
    KnownKey{"tokenizer_path"},
    KnownKey{"print_after_conversion"},
};
constexpr std::array training_keys{
    KnownKey{"dataset"},
    KnownKey{"dataset_path"},
    KnownKey{"dataloader"},
    KnownKey{"max_norm"},
    KnownKey{"steps"},
    KnownKey{"gc_freq"},
    KnownKey{"gc_debug"},
    KnownKey{"seed"},
    KnownKey{"deterministic", Verdict::unmodelled, "", "kernels are modelled at full speed"},
    KnownKey{"debug_moe_force_load_balance"},
    KnownKey{"compile", Verdict::refused, "", "write [compile] enable"},
    KnownKey{"_target_"},
};
constexpr std::array torchtitan_parallelism_keys{
    KnownKey{"num_pp_microbatches"},
    KnownKey{"enable_fsdp_symm_mem", Verdict::noted, "",
             "gathers and reductions of FSDP are modelled as NCCL's kernels"},
    KnownKey{"context_parallel_ptrr_mask_key"},
    KnownKey{"enable_sequence_parallel"},
    KnownKey{"pipeline_parallel_schedule_csv", Verdict::refused, "",
             "schedules of one's own are not modelled"},
    KnownKey{"pipeline_parallel_split_points", Verdict::refused, "",
             "deprecated: write module_fqns_per_model_part"},
    KnownKey{"pipeline_parallel_expert_parallel_overlap"},
    KnownKey{"pipeline_parallel_microbatch_size"},  // without stages
    KnownKey{"context_parallel_load_balancer", Verdict::noted, "headtail",
             "context ranks are modelled with equal work (headtail)"},
    KnownKey{"disable_loss_parallel", Verdict::noted, "",
             "the loss is modelled as split over the vocabulary"},
    KnownKey{"enable_compiled_autograd", Verdict::noted, "",
             "the backward pass is modelled as the compiler's without it"},
    KnownKey{"spmd_backend", Verdict::noted, "default", "modelled as the default"},
    KnownKey{"_target_"},
};
constexpr std::array checkpoint_keys{
    KnownKey{"memory_budget"},  // of a mode that is refused
    KnownKey{"per_op_sac_force_recompute_mm_shapes_by_fqns", Verdict::noted, "",
             "these products are modelled as every other one"},
    KnownKey{"visualize_memory_budget_pareto"},
    KnownKey{"preserve_rng_state"},
    KnownKey{"determinism_check"},
    KnownKey{"debug"},
};
constexpr std::array compile_keys{
    KnownKey{"backend", Verdict::noted, "inductor", "compiled kernels are modelled as inductor's"},
    KnownKey{"enable_async_tensor_parallel"},
    KnownKey{"_target_"},
};
constexpr std::array torchtitan_optimizer_keys{
    KnownKey{"early_step_in_backward", Verdict::refused, "",
             "steps within the backward pass, which keep no gradients, are not modelled; false "
             "forecasts the job with all gradients held to the end of the step"},
    KnownKey{"lr"},
    KnownKey{"beta1"},
    KnownKey{"beta2"},
    KnownKey{"eps"},
    KnownKey{"weight_decay"},
    KnownKey{"betas"},
    KnownKey{"param_groups", Verdict::noted, "", "all parameters are modelled as updated by AdamW"},
    KnownKey{"optimizer_factory_kwargs_by_name"},
    KnownKey{"_target_"},
};
constexpr std::array profiling_keys{
    KnownKey{"enable_profiling", Verdict::noted, "", "profiled steps are slower"},
    KnownKey{"enable_memory_snapshot", Verdict::noted, "", "recorded steps are slower"},
    KnownKey{"*"},
};
constexpr std::array fault_keys{
    KnownKey{"enable", Verdict::refused, "", "torchft's replicas are not modelled"},
    KnownKey{"*"},
};
constexpr std::array comm_keys{
    KnownKey{"mode", Verdict::refused, "default", "a run without its GPUs is no training step"},
    KnownKey{"init_timeout_seconds"},
    KnownKey{"train_timeout_seconds"},
    KnownKey{"trace_buf_size"},
    KnownKey{"save_traces_folder"},
    KnownKey{"save_traces_file_prefix"},
    KnownKey{"_target_"},
};
constexpr std::array experimental_keys{
    KnownKey{"custom_import", Verdict::unmodelled, "", "code of one's own is not read"},
    KnownKey{"custom_args_module", Verdict::unmodelled, "", "code of one's own is not read"},
};
constexpr std::array debug_keys{
    KnownKey{"deterministic", Verdict::unmodelled, "", "kernels are modelled at full speed"},
    KnownKey{"deterministic_warn_only"},
    KnownKey{"seed"},
    KnownKey{"moe_force_load_balance"},
    KnownKey{"print_config"},
    KnownKey{"save_config_file"},
    KnownKey{"spmd_typechecking", Verdict::noted, "", "checks of types are not modelled"},
    KnownKey{"detect_anomaly", Verdict::unmodelled, "", "anomaly detection is not modelled"},
    KnownKey{"batch_invariant"},
    KnownKey{"enable_structured_logging"},
    KnownKey{"_target_"},
};

struct Section {
  const char* name;
  std::span<const KnownKey> keys;
};
// Those of `anything` work beside training steps, or only with a converter, which is refused.
constexpr std::array sections{
    Section{"model", torchtitan_model_keys},
    Section{"training", training_keys},
    Section{"parallelism", torchtitan_parallelism_keys},
    Section{"activation_checkpoint", checkpoint_keys},
    Section{"compile", compile_keys},
    Section{"optimizer", torchtitan_optimizer_keys},
    Section{"profiling", profiling_keys},
    Section{"fault_tolerance", fault_keys},
    Section{"comm", comm_keys},
    Section{"experimental", experimental_keys},
    Section{"debug", debug_keys},
    Section{"job", anything},
    Section{"metrics", anything},
    Section{"lr_scheduler", anything},
    Section{"checkpoint", anything},
    Section{"memory_estimation", anything},
    Section{"validation", anything},
    Section{"mx", anything},
    Section{"quantize", anything},
};

}  // namespace

void judge_torchtitan_keys(const ObjectReader& root, Imported& result) {
  for (const Section& section : sections)
    if (const auto found = root.find(section.name))
      judge_keys(found->object(), section.keys, fmt::format("{}.", section.name), result);
}

}  // namespace sim
