// The framework of a row, and what it decides of the layout.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "sim/framework/deepspeed.hpp"
#include "sim/validation/run_scenario.hpp"
#include "sim/validation/run_words.hpp"

namespace sim {

bool recomputes_operators(const RunCells& cells) {
  const std::string text = lower_case(cells["recompute"]);
  return contains(text, "per-op") || contains(text, "torchtitan default");
}

namespace {

// LanguageCrossEntropy and LanguagePerplexity (mpt/modeling_mpt.py, train_metrics).
constexpr int foundry_metrics = 2;

// torchao's recipes by name. "TE": Transformer Engine's linears, behind PyTorch's norms
// (llm-foundry: precision amp_fp8, fc_type te).
EightBit recipe_of(const RunCells& cells) {
  const std::string precision = lower_case(cells["precision"]);
  if (contains(precision, "gw_hp")) return EightBit::torchao_rowwise_with_gw_hp;
  if (contains(precision, "rowwise") || contains(precision, "row-wise"))
    return EightBit::torchao_rowwise;
  return contains(precision, "(te ") ? EightBit::transformer_engine_linear : EightBit::torchao;
}

// PyTorch. llm-foundry, the code of the MPT models: loss_fn is fused_crossentropy by default, the
// kernel of flash-attn (mpt/modeling_mpt.py), and Composer's DecoupledAdamW is a loop of PyTorch
// operators.
Framework fsdp_framework(const RunCells& cells) {
  const std::string notes = lower_case(cells["notes"]);
  const bool compiled = contains(notes, "compile");
  if (contains(lower_case(cells["shard_strategy"]), "fsdp2")) {
    Framework titan = torchtitan_framework(compiled, contains(notes, "loss compiled"),
                                           contains(notes, "fused adamw"));
    titan.execution.eight_bit = recipe_of(cells);
    return titan;
  }
  Framework fsdp = framework_of(compiled ? FrameworkName::megatron : FrameworkName::pytorch);
  if (compiled) fsdp.layer_norm = fsdp.rms_norm = NormForm::compiled;
  const bool foundry = contains(lower_case(cells["model"]), "mpt");
  fsdp.loss = foundry ? LossForm::keeps_logits : LossForm::eager;
  fsdp.execution.eight_bit = recipe_of(cells);
  fsdp.execution.caching_allocator = fsdp.execution.flat_parameters = true;
  // From PyTorch 2.1 on; llm-foundry's tables ran 2.0.1 (scripts/train/benchmarking/sweep.sh).
  fsdp.execution.stops_recomputation = !foundry;
  if (!foundry) return fsdp;
  fsdp.optimizer = OptimizerForm::eager;
  fsdp.execution.loss_metrics = foundry_metrics;
  return fsdp;
}

// NVIDIA's recipes (NeMo): those of Llama and Nemotron fuse the loss (cross_entropy_loss_fusion in
// their yaml, later the default of NeMo 2, collections/llm/gpt/model/base.py), those of GPT-3 and
// Grok-1 have no such key.
bool recipe_fuses_loss(const RunCells& cells) {
  const std::string model = lower_case(cells["model"]);
  return says(cells, {"row_id"}, "dgxc") &&
         (model.starts_with("llama") || model.starts_with("nemotron"));
}

// Megatron-LM's, which a flag fuses. `notes` in lower case.
LossForm megatron_loss(const RunCells& cells, const std::string& notes) {
  if (contains(notes, "fused loss of transformer engine")) return LossForm::in_place;
  if (contains(notes, "fused loss") || recipe_fuses_loss(cells)) return LossForm::fused;
  return LossForm::separate;
}

// Megatron-LM. What was computed and not run counts no placeholders; Transformer Engine keeps them
// from version 2.3 on. Experts have a capacity of 1 to which they are padded, unless a row says
// otherwise.
Framework megatron_framework(const RunCells& cells) {
  Framework framework = framework_of(FrameworkName::megatron);
  const std::string notes = lower_case(cells["notes"]);
  framework.loss = megatron_loss(cells, notes);
  framework.execution.waits_for_counts = contains(notes, "dropless");
  if (cells["status"].starts_with("analytic"))
    framework.execution.gradient_placeholders = Placeholders::none;
  if (const auto version = version_behind(notes, "transformer engine "))
    if (*version >= std::pair{2, 3}) framework.execution.gradient_placeholders = Placeholders::kept;
  if (contains(notes, "optimizer of megatron-lm"))
    framework.execution.scales_gradients = framework.execution.checks_gradients =
        framework.execution.separate_update = true;
  return framework;
}

// Hagemann et al. ran Aleph Alpha's Scaling, and name what was fused in it: the norm ("RMS
// kernel"), the softmax ("fused").
Framework scaling_framework(const RunCells& cells) {
  const std::string attention = lower_case(cells["attn_kernel"]);
  Framework framework = framework_of(FrameworkName::scaling);
  if (contains(attention, "rms kernel")) framework.rms_norm = NormForm::fused;
  if (attention == "fused") framework.softmax = KernelForm::fused;
  return framework;
}

// BigScience's fork has no mixture of experts, for whose sake Microsoft's copies numbers in every
// layer (bigscience-workshop/Megatron-DeepSpeed at 06dc2d7f, megatron/model/transformer.py).
Framework megatron_deepspeed(const RunCells& cells) {
  Framework framework = framework_of(FrameworkName::megatron_deepspeed);
  framework.execution.sync_before_mlp = !says(cells, {"row_id", "source"}, "bigscience");
  return framework;
}

// FSDP is PyTorch's, FSDP2 torchtitan's; DeepSpeed is said by name.
Framework kernel_forms(const RunCells& cells) {
  if (contains(lower_case(cells["shard_strategy"]), "fsdp")) return fsdp_framework(cells);
  const auto runs = {"shard_strategy", "attn_kernel", "notes"};
  if (says(cells, runs, "megatron-deepspeed")) return megatron_deepspeed(cells);
  if (says(cells, runs, "deepspeed")) return framework_of(FrameworkName::deepspeed);
  for (const char* source : {"hagemann", "aleph alpha"})
    if (says(cells, {"row_id", "source", "notes"}, source)) return scaling_framework(cells);
  return megatron_framework(cells);
}

}  // namespace

Framework run_framework(const RunCells& cells) {
  Framework framework = kernel_forms(cells);
  framework.execution.blocking_launches = says(cells, {"notes"}, "cuda_launch_blocking");
  if (const std::optional<double> issue = cells.real("host_issue_us")) {
    framework.host_issue = duration_from_seconds(*issue * 1e-6);
    if (*framework.host_issue > most_host_issue)
      throw NotSimulated(fmt::format("host_issue_us is {:g}; allowed: 0 to 1000", *issue));
  }
  return framework;
}

namespace {

// pipe_partition_balanced (core/nn/parallel_module/pipeline_partitioning.py): of embedding, layers,
// final norm and head, each stage takes from the front what keeps its parameters within the
// smallest possible maximum. Norms are nothing beside them.
std::vector<int> balanced_layers(const Model& model, int stages) {
  const auto first = static_cast<double>(model.input.parameters());
  const auto last = static_cast<double>(model.output.parameters());
  const auto layer = static_cast<double>(model.layers.front().parameters());
  const auto layers = static_cast<int>(model.layers.size());
  std::vector<int> best;
  if (stages > layers) return best;  // refused as any layout is
  double least = std::numeric_limits<double>::infinity();
  // The bottleneck is a stage of some number of layers, with or without an end.
  for (int most = 1; most <= layers; ++most) {
    for (const double end : {0.0, first, last}) {
      const double bound = layer * most + end;
      std::vector<int> split;
      int left = layers;
      for (int stage = 0; stage + 1 < stages; ++stage) {
        const double taken = stage == 0 ? first : 0.0;
        split.push_back(std::clamp(static_cast<int>((bound - taken) / layer + 1e-9), 0, left));
        left -= split.back();
      }
      split.push_back(left);
      if (bound < least && layer * left + last <= bound) {
        least = bound;
        best = std::move(split);
      }
    }
  }
  return best;
}

}  // namespace

// Aleph Alpha's Scaling (core/optimizer/optimizer.py and allreduce.py, core/nn/linear/utils.py,
// core/nn/parallel_module): blocking collectives of PyTorch; gradients reduced in fp32 at the end
// of the step in buckets of 500 million, updated weights gathered behind Adam.
void lay_out_scaling(const Model& model, Layout& layout) {
  layout.overlap_tensor_wgrad = layout.overlap_pipeline = false;
  layout.overlap_gradients = layout.overlap_parameters = false;
  layout.reduce_dtype = DType::fp32;
  if (layout.pipeline_parallel > 1 && layout.virtual_stages == 1)
    layout.layers_per_chunk = balanced_layers(model, layout.pipeline_parallel);
}

// DeepSpeed (runtime/zero/config.py, runtime/engine.py): gradients are reduced beside compute under
// ZeRO-3, and under ZeRO-1 and 2 without a pipeline where a job asks for it; messages are waited
// for.
void lay_out_deepspeed(const RunCells& cells, Layout& layout) {
  const std::string text = lower_case(cells["overlap"]);
  const bool asked = contains(text, "overlap_comm") && !contains(text, "overlap_comm false");
  const bool shards_weights = layout.zero_stage == 3;
  layout.overlap_pipeline = false;
  layout.overlap_parameters = shards_weights;
  layout.overlap_gradients &= can_overlap_gradients(layout) && (shards_weights || asked);
}

// torchtitan (distributed/parallelize: units of a pipeline are not resharded between their passes;
// torch.distributed.pipelining/schedules.py waits for its messages).
void lay_out_torchtitan(Layout& layout) {
  if (layout.pipeline_parallel == 1) return;
  layout.reshard_after_forward = false;
  layout.overlap_pipeline = false;
}

}  // namespace sim
