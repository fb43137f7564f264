// Aleph Alpha's Scaling, github.com/Aleph-Alpha/scaling at 78489292, under src/scaling:
// core/optimizer/optimizer.py and allreduce.py, core/nn/linear/utils.py, core/nn/parallel_module,
// core/nn/attention (torch unless flash attention is configured). Collectives of PyTorch that
// block: gradients are reduced in fp32 at the end of the step, updated weights gathered behind
// Adam.
#include <algorithm>
#include <limits>
#include <utility>

#include "sim/framework/presets/tables.hpp"

namespace sim::preset_tables {
namespace {

// pipe_partition_balanced (core/nn/parallel_module/pipeline_partitioning.py): of embedding, layers,
// final norm and head, each stage takes from the front what keeps its parameters within the
// smallest possible maximum. Norms are nothing beside them.
std::vector<int> balanced_layers(const Model& model, const Layout& layout) {
  const int stages = layout.pipeline_parallel;
  const auto first = static_cast<double>(model.input.parameters());
  const auto last = static_cast<double>(model.output.parameters());
  const auto layer = static_cast<double>(model.layers.front().parameters());
  const auto layers = static_cast<int>(model.layers.size());
  std::vector<int> best;
  if (stages == 1 || layout.virtual_stages > 1) return best;
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

LayoutDefault waits(std::string_view key, void (*set)(Layout&)) {
  return {key, set, "torch.distributed calls block the stream", true};
}

std::vector<LayoutDefault> scaling_layout() {
  return {
      no_recomputation("activation_checkpointing_type disabled"),
      attention(AttentionKernel::unfused, "masked_softmax kernel torch"),
      {"reduce_dtype", [](Layout& layout) { layout.reduce_dtype = DType::fp32; },
       "gradients are reduced in fp32", true},
      waits("overlap.gradients", [](Layout& layout) { layout.overlap_gradients = false; }),
      waits("overlap.parameters", [](Layout& layout) { layout.overlap_parameters = false; }),
      waits_for_messages("torch.distributed calls block the stream", true),
      waits("overlap.tensor_wgrad", [](Layout& layout) { layout.overlap_tensor_wgrad = false; }),
  };
}

}  // namespace

Framework scaling_kernels() {
  Framework framework = pytorch_kernels();
  framework.name = FrameworkName::scaling;
  framework.joint_gate = false;
  framework.accuracy = true;
  framework.execution = {.eight_bit = EightBit::torchao,
                         .gathers_logits = true,
                         .adds_gradients = true,
                         .keeps_gathered_inputs = true,
                         .all_reduces_gradients = true,
                         .sends_whole = true,
                         .recomputes_head = true,
                         .copies_attention = true,
                         .gradient_buckets = GradientBuckets::copied,
                         .bucket_rule = BucketRule::deepspeed,
                         .caching_allocator = true,
                         .waits_for_lengths = true,
                         .held_logits = 2};
  return framework;
}

std::vector<Preset> scaling() {
  const auto preset = [](std::string_view version) {
    return Preset{PresetName::scaling, version,          "Scaling",
                  scaling_kernels(),   scaling_layout(), balanced_layers};
  };
  return {preset(""), preset("78489292")};
}

}  // namespace sim::preset_tables
