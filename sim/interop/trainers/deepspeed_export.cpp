// A scenario as DeepSpeed's JSON, and as the flags of Megatron-DeepSpeed for what the JSON has no
// word for: tensor and pipeline parallelism, sequence length, recomputation, attention.
//
// Sources: deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py (commit 1b88ac36) and
// runtime/constants.py; deepspeedai/Megatron-DeepSpeed megatron/arguments.py (commit 207b2d5a).
#include <fmt/format.h>

#include <utility>

#include "sim/framework/bucket_sizes.hpp"
#include "sim/framework/deepspeed.hpp"
#include "sim/interop/formats.hpp"
#include "sim/interop/settings.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

std::string_view dtype_name(DType dtype) {
  return dtype == DType::fp8 || dtype == DType::tf32 ? "fp32" : word(dtype);
}

class DeepSpeedWriter {
 public:
  DeepSpeedWriter(const Scenario& scenario, Refusals& refusals, std::vector<Note>& notes)
      : scenario_{scenario}, layout_{scenario.layout}, refusals_{refusals}, notes_{notes} {}

  void check() {
    if (!scenario_.model.shape)
      refuse("the model {}: a list of layers is no transformer", scenario_.model.name);
    if (scenario_.model.has_experts() || scenario_.model.has_latent_attention())
      refuse(
          "the model {}: experts and latent attention are modelled only as Megatron-LM and "
          "torchtitan run them",
          scenario_.model.name);
    if (scenario_.model.is_hybrid())
      refuse("the model {}: layers that differ are modelled only as Megatron-LM runs them",
             scenario_.model.name);
    if (layout_.context_parallel > 1)
      refuse(
          "context_parallel: DeepSpeed's Ulysses is set up by the training script, not in this "
          "file");
    if (layout_.schedule != Schedule::one_f_one_b && layout_.schedule != Schedule::zb_h1)
      refuse("schedule {}: DeepSpeed runs 1F1B, Megatron-DeepSpeed zb-h1, too",
             word(layout_.schedule));
    if (!layout_.layers_per_chunk.empty())
      note("layout.layers_per_chunk", "DeepSpeed splits the layers itself (partition_method)");
    Layout plain = layout_;
    plain.placement = Layout{}.placement;
    if (!same_order(layout_, plain))
      refuse("placement: DeepSpeed orders ranks tp, dp, pp (PipeModelDataParallelTopology)");
    if (layout_.zero_stage > 1 && layout_.pipeline_parallel > 1)
      refuse("zero_stage {} with a pipeline: DeepSpeed's pipeline goes with 0 and 1",
             layout_.zero_stage);
    if (layout_.shard_ranks() < layout_.replicas() && layout_.zero_stage != 3)
      refuse("shard_group {}: DeepSpeed's MiCS shards in groups with zero_stage 3 only",
             layout_.shard_group);
    if (layout_.recompute == Recompute::full && layout_.recompute_every > 1)
      refuse("recompute_every {}: --checkpoint-activations recomputes every layer",
             layout_.recompute_every);
    if (layout_.recompute_layers > 0)
      refuse("recompute_layers {}: --checkpoint-activations recomputes every layer",
             layout_.recompute_layers);
    precision();
    overlap();
    compression();
    offload();
    activations();
    if (scenario_.framework != framework_of(FrameworkName::megatron_deepspeed))
      note("framework",
           "Megatron-DeepSpeed runs Megatron's fused kernels, and DeepSpeed's gradients and "
           "optimizer (framework megatron_deepspeed)");
    if (scenario_.options.graphs) note("simulation.graphs", "CUDA graphs are not switched on");
  }

  std::string json() const {
    std::string text = "{\n";
    text += fmt::format("  \"train_batch_size\": {},\n", layout_.global_batch);
    text += fmt::format("  \"train_micro_batch_size_per_gpu\": {},\n", layout_.micro_batch);
    text += fmt::format("  \"gradient_accumulation_steps\": {},\n", layout_.micro_batches());
    text += optimizer();
    text += zero();
    if (layout_.offloads_activations())
      text += "  \"activation_checkpointing\": {\"cpu_checkpointing\": true},\n";
    if (layout_.activation_dtype != DType::fp32)
      text += fmt::format("  \"{}\": {{\"enabled\": true}},\n", word(layout_.activation_dtype));
    text += fmt::format("  \"data_types\": {{\"grad_accum_dtype\": \"{}\"}},\n",
                        dtype_name(layout_.gradient_dtype));
    text += fmt::format("  \"communication_data_type\": \"{}\"\n}}\n",
                        dtype_name(layout_.reduce_dtype));
    return text;
  }

  std::string_view optimizer() const {
    switch (layout_.optimizer) {
      case OptimizerKind::adam:
        if (layout_.compression == GradientCompression::one_bit)
          return "  \"optimizer\": {\"type\": \"OneBitAdam\"},\n";
        break;
      case OptimizerKind::lion:
        return "  \"optimizer\": {\"type\": \"Lion\"},\n";
      case OptimizerKind::momentum:
        return "  \"optimizer\": {\"type\": \"SGD\", \"params\": {\"momentum\": 0.9}},\n";
      case OptimizerKind::sgd:
        return "  \"optimizer\": {\"type\": \"SGD\"},\n";
      case OptimizerKind::lamb:
        return layout_.compression == GradientCompression::one_bit_lamb
                   ? "  \"optimizer\": {\"type\": \"OneBitLamb\"},\n"
                   : "  \"optimizer\": {\"type\": \"Lamb\"},\n";
      case OptimizerKind::muon:  // refused by refuse_unsaid()
      case OptimizerKind::adafactor:
      case OptimizerKind::ademamix:
        break;
    }
    return "";
  }

  std::string flags() const {
    std::string text = "DEEPSPEED_ARGS=(\n  --deepspeed\n";
    const auto line = [&](std::string_view flag, std::int64_t value) {
      text += fmt::format("  {} {}\n", flag, value);
    };
    line("--zero-stage", layout_.zero_stage);
    line("--tensor-model-parallel-size", layout_.tensor_parallel);
    line("--pipeline-model-parallel-size", layout_.pipeline_parallel);
    if (layout_.pipeline_parallel == 1) text += "  --no-pipeline-parallel\n";
    if (layout_.schedule == Schedule::zb_h1) text += "  --enable-zbh1-pipeline\n";
    if (layout_.sequence_parallel) text += "  --sequence-parallel\n";
    line("--micro-batch-size", layout_.micro_batch);
    line("--global-batch-size", layout_.global_batch);
    line("--seq-length", layout_.sequence_length);
    if (layout_.recompute == Recompute::full)
      text += "  --checkpoint-activations\n  --deepspeed-activation-checkpointing\n";
    if (layout_.recompute == Recompute::selective) text += "  --recompute-granularity selective\n";
    if (layout_.attention == AttentionKernel::flash_1) text += "  --use-flash-attn-v1\n";
    if (layout_.attention == AttentionKernel::flash ||
        layout_.attention == AttentionKernel::flash_2)
      text += "  --use-flash-attn-v2\n";
    return text + ")\n";
  }

 private:
  template <class... Parts>
  void refuse(fmt::format_string<Parts...> text, Parts&&... parts) {
    refusals_.push_back(fmt::format(text, std::forward<Parts>(parts)...));
  }
  void note(const char* key, std::string what) { notes_.push_back({key, std::move(what)}); }

  void compression() {
    const GradientCompression scheme = layout_.compression;
    if (scheme != GradientCompression::none && !sends_signs(scheme) &&
        scheme != GradientCompression::int4)
      refuse(
          "compression.gradients {}: DeepSpeed has 1-bit Adam and LAMB and, with ZeRO-3, integers "
          "of 4 bits",
          word(scheme));
    if (scheme == GradientCompression::int4 && !layout_.secondary_shard)
      note("layout.compression.node_ranks",
           "DeepSpeed reduces integers within each node first, by its GPUs");
    if (sends_signs(scheme))
      note("layout.compression.gradients",
           fmt::format("the first freeze_step steps are those of {}",
                       scheme == GradientCompression::one_bit ? "Adam" : "LAMB"));
  }

  void offload() {
    if (!layout_.offloads()) return;
    const bool nvme = layout_.offload_optimizer == OffloadTarget::nvme;
    if (layout_.zero_stage == 0 || (nvme && layout_.zero_stage != 3))
      refuse(
          "offload.optimizer {} with zero_stage {}: DeepSpeed offloads to cpu with stages 1 to "
          "3, to nvme with stage 3",
          word(layout_.offload_optimizer), layout_.zero_stage);
    if (layout_.offload_fraction != 1 && layout_.zero_stage != 3)
      refuse("offload.fraction {}: DeepSpeed's ratio is of stage 3", layout_.offload_fraction);
    if (layout_.offload_overlap)
      note("layout.offload.overlap", "DeepSpeed updates when all gradients are there");
    if (layout_.uses_disk())
      note("layout.offload.optimizer", "add the folder of the disks as nvme_path");
  }

  // Checkpoints alone.
  void activations() {
    if (!layout_.offloads_activations()) return;
    if (layout_.recompute != Recompute::full)
      refuse("offload.activations cpu without recompute full: cpu_checkpointing is of checkpoints");
    if (layout_.offload_layers > 0)
      refuse("offload.layers {}: cpu_checkpointing takes all checkpoints", layout_.offload_layers);
  }

  void precision() {
    if (layout_.compute_dtype != layout_.activation_dtype)
      refuse("compute_dtype {} with activation_dtype {}: DeepSpeed trains in fp32, bf16 or fp16",
             word(layout_.compute_dtype), word(layout_.activation_dtype));
    if (layout_.moment_dtype != DType::fp32)
      refuse("moment_dtype {}: DeepSpeed's states are fp32", word(layout_.moment_dtype));
    if (layout_.activation_dtype != DType::fp32 && !layout_.master_weights)
      refuse("master_weights false: DeepSpeed keeps fp32 copies of 16-bit weights");
    if (layout_.activation_dtype == DType::fp32 && layout_.master_weights)
      note("layout.master_weights", "fp32 weights have no further copy");
    if (layout_.attention == AttentionKernel::flash)
      note("layout.attention", "the newest kernel that Megatron-DeepSpeed has is flash-2");
  }

  void overlap() {
    if (takes_bf16_optimizer(layout_) && layout_.zero_stage == 0 && layout_.replicas() > 1)
      note("layout.zero_stage",
           "with bf16 and gradients in fp32 DeepSpeed shards the optimizer at stage 0 too");
    if (layout_.overlap_gradients && !can_overlap_gradients(layout_))
      note("layout.overlap.gradients",
           "DeepSpeed overlaps under its ZeRO optimizers without a pipeline");
    const int bytes = bytes_of(layout_.gradient_dtype);
    const BucketSizes sizes = buckets();
    if (layout_.zero_stage < 3 && sizes.others.count() % bytes != 0)
      note("layout.bucket", "rounded to whole gradients");
    if (layout_.zero_stage < 3 && sizes.first != sizes.others)
      note("layout.first_bucket", "DeepSpeed's buckets are all of one size");
    const bool shards = layout_.zero_stage > 0 || takes_bf16_optimizer(layout_);
    // A stage 0 whose optimizer shards all the same has the key read, whatever it says.
    const bool made_one = layout_.zero_stage == 0 && shards && layout_.replicas() > 1;
    if (made_one || (shards && layout_.zero_stage < 3 && layout_.overlap_parameters))
      note("layout.overlap.parameters",
           "ZeRO-1 and 2 gather the new parameters at the end of the step");
    if (layout_.zero_stage == 3 && !layout_.overlap_parameters)
      note("layout.overlap.parameters", "ZeRO-3 prefetches");
    if (layout_.zero_stage == 3 && !layout_.reshard_after_forward)
      note("layout.reshard_after_forward",
           "ZeRO-3 frees gathered weights (see "
           "stage3_max_reuse_distance)");
    if (layout_.pipeline_parallel > 1 && layout_.overlap_pipeline)
      note("layout.overlap.pipeline", "DeepSpeed's pipeline waits for its messages");
    if (layout_.tensor_parallel > 1 && !layout_.overlap_tensor_wgrad)
      note("layout.overlap.tensor_wgrad",
           "Megatron always reduces beside the weight gradient's product");
    if (layout_.cuts_products())
      note("layout.overlap.tensor_products", "Megatron-DeepSpeed cuts no products into parts");
  }

  BucketSizes buckets() const { return bucket_sizes(layout_, scenario_.framework.execution); }

  std::string zero() const {
    const std::int64_t elements =
        std::max<std::int64_t>(1, buckets().others.count() / bytes_of(layout_.gradient_dtype));
    std::string text = fmt::format(
        "  \"zero_optimization\": {{\n    \"stage\": {},\n    \"overlap_comm\": {},\n"
        "    \"reduce_bucket_size\": {},\n    \"allgather_bucket_size\": {}",
        layout_.zero_stage, layout_.overlap_gradients, elements, elements);
    if (layout_.zero_stage == 3)
      text += fmt::format(",\n    \"stage3_prefetch_bucket_size\": {}",
                          layout_.prefetch_layers * layer_parameters());
    if (layout_.shard_ranks() < layout_.replicas())
      text += fmt::format(",\n    \"mics_shard_size\": {}", layout_.shard_group);
    if (layout_.secondary_shard)
      text += fmt::format(",\n    \"zero_hpz_partition_size\": {}", layout_.node_ranks);
    if (layout_.quantized_weights) text += ",\n    \"zero_quantized_weights\": true";
    if (layout_.offloads())
      text += fmt::format(",\n    \"offload_optimizer\": {{\"device\": \"{}\"{}}}",
                          word(layout_.offload_optimizer), ratio());
    if (layout_.offloads_parameters())
      text += fmt::format(",\n    \"offload_param\": {{\"device\": \"{}\"}}",
                          word(layout_.offload_parameters));
    if (layout_.compression == GradientCompression::int4)
      text += ",\n    \"zero_quantized_gradients\": true";
    return text + "\n  },\n";
  }

  std::string ratio() const {
    return layout_.offload_fraction == 1 ? ""
                                         : fmt::format(", \"ratio\": {}", layout_.offload_fraction);
  }

  std::int64_t layer_parameters() const {
    return scenario_.model.layers.empty() ? 1 : scenario_.model.layers.front().parameters();
  }

  const Scenario& scenario_;
  const Layout& layout_;
  Refusals& refusals_;
  std::vector<Note>& notes_;
};

}  // namespace

Exported export_deepspeed(const Scenario& scenario) {
  Exported out;
  Refusals refusals;
  DeepSpeedWriter writer{scenario, refusals, out.notes};
  writer.check();
  throw_refusals(scenario, Target::deepspeed, refusals);
  out.text = writer.json();
  out.flags = header_text(scenario, out.notes, "# ",
                          "Arguments of Megatron-DeepSpeed beside the JSON "
                          "(--deepspeed_config). Add model, data and optimizer.") +
              writer.flags();
  return out;
}

}  // namespace sim
