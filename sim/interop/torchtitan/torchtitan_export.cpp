#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/base/rounding.hpp"
#include "sim/framework/bucket_sizes.hpp"
#include "sim/interop/formats.hpp"
#include "sim/interop/torchtitan/torchtitan.hpp"
#include "sim/schedule/schedule.hpp"

namespace sim {
namespace {

class TitanWriter {
 public:
  TitanWriter(const Scenario& scenario, Refusals& refusals, std::vector<Note>& notes)
      : scenario_{scenario}, layout_{scenario.layout}, refusals_{refusals}, notes_{notes} {}

  std::string write() {
    model();
    precision();
    batch();
    data_parallelism();
    tensor_and_context();
    pipeline();
    gathers();
    recomputation();
    framework();
    attention();
    return text_;
  }

 private:
  template <class... Parts>
  void refuse(fmt::format_string<Parts...> text, Parts&&... parts) {
    refusals_.push_back(fmt::format(text, std::forward<Parts>(parts)...));
  }
  void note(const char* key, std::string what) { notes_.push_back({key, std::move(what)}); }
  void section(std::string_view name) {
    text_ += fmt::format("{}[{}]\n", text_.empty() ? "" : "\n", name);
  }
  template <class Value>
  void add(std::string_view key, const Value& value) {
    text_ += fmt::format("{} = {}\n", key, value);
  }
  void add_text(std::string_view key, std::string_view value) {
    text_ += fmt::format("{} = \"{}\"\n", key, value);
  }
  bool fp8() const { return layout_.compute_dtype == DType::fp8; }
  bool by_rows() const { return fp8() && scales_rows(scenario_.framework.execution.eight_bit); }

  void model() {
    const auto flavor = scenario_.model.shape ? torchtitan_flavor(*scenario_.model.shape)
                                              : std::optional<TorchtitanFlavor>{};
    if (!flavor) {
      refuse("the model {}: torchtitan's flavors of these sizes are {}", scenario_.model.name,
             torchtitan_flavors());
      return;
    }
    section("model");
    add_text("name", flavor->model);
    add_text("flavor", flavor->name);
    const bool blocks = scenario_.framework.execution.eight_bit == EightBit::torchao_mxfp8;
    if (fp8() && blocks)
      text_ += "converters = [\"quantize.linear.mx\"]\n";
    else if (fp8())
      text_ += "converters = [\"float8\"]\n";
  }

  // fully_shard's MixedPrecisionPolicy: fp32 shards, gathered and computed with in param_dtype,
  // gradients of that type reduced in fp32.
  void precision() {
    const bool bf16 = layout_.activation_dtype == DType::bf16;
    const bool fp32 = layout_.activation_dtype == DType::fp32;
    if (!(bf16 && (layout_.compute_dtype == DType::bf16 || fp8())) &&
        !(fp32 && layout_.compute_dtype == DType::fp32))
      refuse(
          "compute_dtype {} with activation_dtype {}: torchtitan trains in bf16, fp32, or float8 "
          "beside bf16",
          word(layout_.compute_dtype), word(layout_.activation_dtype));
    if (layout_.reduce_dtype != DType::fp32)
      note("layout.reduce_dtype", "torchtitan reduces gradients in float32");
    if (layout_.gradient_dtype != layout_.activation_dtype)
      note("layout.gradient_dtype", "gradients have the type of the gathered parameters");
    if (layout_.optimizer != OptimizerKind::adam)
      refuse("optimizer {}: torchtitan has Adam and AdamW", word(layout_.optimizer));
    if (!sixteen_bit_states() && layout_.moment_dtype != DType::fp32)
      refuse("moment_dtype {}: torchtitan's moments have the format of its parameters",
             word(layout_.moment_dtype));
    if (layout_.master_weights != bf16 && !sixteen_bit_states())
      note("layout.master_weights", "torchtitan's parameters are float32, and the only copy");
  }

  // training.dtype
  bool sixteen_bit_states() const {
    return layout_.activation_dtype == DType::bf16 && !layout_.master_weights &&
           layout_.moment_dtype == DType::bf16;
  }

  void batch() {
    section("training");
    if (sixteen_bit_states()) add_text("dtype", "bfloat16");
    // With a pipeline the micro-batches of a run are one local batch.
    const bool pipeline = layout_.pipeline_parallel > 1;
    add("local_batch_size",
        pipeline ? layout_.micro_batch * layout_.run_batches() : layout_.micro_batch);
    add("global_batch_size", layout_.global_batch);
    add("seq_len", layout_.sequence_length);
    add_text("mixed_precision_param",
             layout_.activation_dtype == DType::fp32 ? "float32" : "bfloat16");
    add_text("mixed_precision_reduce", "float32");
    if (layout_.offloads_parameters()) add("enable_cpu_offload", "true");
  }

  void data_parallelism() {
    section("parallelism");
    const int replicas = layout_.replicas();
    const int context = layout_.context_parallel;
    const int zero = layout_.zero_stage;
    const int group = layout_.shard_ranks();
    if (zero == 1 || zero == 2)
      refuse("zero_stage {}: torchtitan replicates (DDP) or shards all (FSDP, zero_stage 3)", zero);
    if (zero == 0 && replicas > 1 && layout_.world_size() > layout_.data_parallel)
      refuse(
          "zero_stage 0 beside tensor, context or pipeline parallelism: torchtitan's DDP goes "
          "alone");
    if (zero == 3 && group % context != 0)
      refuse("shard_group {}: torchtitan shards over all {} context-parallel ranks", group,
             context);
    const bool sharded = zero == 3 && replicas > 1;
    add("data_parallel_replicate_degree", sharded ? replicas / group : layout_.data_parallel);
    add("data_parallel_shard_degree", sharded ? group / context : 1);
    if (sharded) add_text("fsdp_reshard_after_forward", reshard());
    if (!sharded) unsharded();
    if (zero == 3 && layout_.prefetch_layers != 1)
      note("layout.prefetch_layers", "FSDP2 gathers one layer ahead");
    if (sharded && !(layout_.overlap_gradients && layout_.overlap_parameters)) {
      note("layout.overlap.gradients", "FSDP2 always reduces beside the backward pass");
      note("layout.overlap.parameters", "FSDP2 always gathers beside the computation");
    }
  }

  // With scales that are computed once per step for all of them.
  void gathers() {
    if (by_rows() || layout_.gathers_in_eight_bits()) section("float8");
    if (by_rows()) add_text("recipe_name", torchao_recipe(scenario_.framework.execution.eight_bit));
    if (!layout_.gathers_in_eight_bits()) return;
    text_ += "enable_fsdp_float8_all_gather = true\n";
    text_ += "precompute_float8_dynamic_scale_for_fsdp = true\n";
  }

  std::string_view reshard() const { return layout_.reshard_after_forward ? "always" : "never"; }

  // models/llama3/infra/parallelize.py, apply_ddp: replicate(bucket_cap_mb=100). A lone replica has
  // neither DDP nor FSDP.
  void unsharded() {
    const bool alone = layout_.zero_stage == 3;
    if (alone) {
      note("layout.zero_stage", "with one replica nothing is sharded");
      note("layout.reshard_after_forward", "with one replica nothing is gathered");
      note("layout.overlap.parameters", "with one replica nothing is gathered");
    }
    if (alone || bucket_sizes(layout_, scenario_.framework.execution) !=
                     usual_bucket_sizes(layout_, BucketRule::torchtitan)) {
      note("layout.bucket", "torchtitan's DDP has buckets of 100 MiB");
      note("layout.first_bucket", "torchtitan's DDP begins with a bucket of 1 MiB");
    }
    if (!layout_.overlap_gradients && layout_.replicas() > 1)
      note("layout.overlap.gradients", "DDP always reduces beside the backward pass");
  }

  void tensor_and_context() {
    Layout plain = layout_;
    plain.placement = Layout{}.placement;
    if (!same_order(layout_, plain)) refuse("placement: torchtitan orders ranks tp, cp, dp, pp");
    const bool tensor = layout_.tensor_parallel > 1;
    add("tensor_parallel_degree", layout_.tensor_parallel);
    if (tensor)
      add("enable_async_tensor_parallel", layout_.overlap_tensor_products ? "true" : "false");
    if (tensor && layout_.overlap_tensor_wgrad && !layout_.overlap_tensor_products)
      note("layout.overlap.tensor_wgrad", "torch waits for a reduction where it is called");
    if (tensor && !layout_.sequence_parallel)
      refuse("sequence_parallel false: torchtitan's tensor parallelism splits the sequence, too");
    experts();
    add("context_parallel_degree", layout_.context_parallel);
    if (layout_.context_parallel > 1 && layout_.head_ranks() > 1)
      refuse("context_exchange {}: torchtitan's context parallelism has ring, all_gather",
             word(layout_.context_exchange));
    if (layout_.context_parallel > 1)
      add_text("context_parallel_rotate_method",
               layout_.context_exchange == ContextExchange::all_gather ? "allgather" : "alltoall");
  }

  // models/llama4/infra/parallelize.py, apply_moe_ep_tp.
  void experts() {
    if (!scenario_.model.has_experts()) return;
    const int ranks = layout_.expert_parallel, split = layout_.expert_tensor();
    add("expert_parallel_degree", ranks);
    if (ranks > 1) add("expert_tensor_parallel_degree", split);
    if (ranks > 1 ? split != 1 && split != layout_.tensor_parallel
                  : split != layout_.tensor_parallel)
      refuse(
          "expert_tensor_parallel {}: torchtitan splits experts by 1 or by tensor_parallel, and "
          "without expert parallelism as everything else",
          split);
    if (layout_.token_dispatcher == TokenDispatcher::allgather)
      refuse("moe.dispatcher allgather: torchtitan has alltoall (standard), deepep, hybridep");
    if (is_fused(layout_.token_dispatcher))
      add_text("expert_parallel_comm_backend", word(layout_.token_dispatcher));
    if (layout_.expert_capacity > 0)
      refuse("moe.capacity_factor {}: torchtitan drops no token", layout_.expert_capacity);
    if (layout_.overlap_expert_exchange || layout_.overlap_shared_experts)
      refuse("overlap.expert_exchange, overlap.shared_experts: torchtitan's exchanges wait");
    if (layout_.eight_bit_dispatch)
      note("layout.moe.fp8_dispatch", "torchtitan sends tokens in 16 bits");
    if (layout_.dispatch_sms > 0)
      note("layout.moe.dispatch_sms", "torchtitan has no key for the SMs of an exchange");
    if (layout_.expert_imbalance != 1)
      note("layout.expert_imbalance", "no key says how tokens choose");
  }

  void pipeline() {
    add("pipeline_parallel_degree", layout_.pipeline_parallel);
    if (layout_.pipeline_parallel == 1) {
      if (layout_.schedule == Schedule::gpipe || layout_.schedule == Schedule::zb_h1)
        note("layout.schedule", "without a pipeline, micro-batches follow each other");
      return;
    }
    switch (layout_.schedule) {
      case Schedule::one_f_one_b:
        add_text("pipeline_parallel_schedule", "1F1B");
        break;
      case Schedule::gpipe:
        add_text("pipeline_parallel_schedule", "GPipe");
        break;
      case Schedule::interleaved:
        add_text("pipeline_parallel_schedule", "Interleaved1F1B");
        if (layout_.virtual_stages == 1)
          refuse("schedule interleaved with one chunk per stage: Interleaved1F1B needs two");
        break;
      case Schedule::zb_h1:
        refuse(
            "schedule zb-h1: torchtitan has ZBVZeroBubble and InterleavedZeroBubble, which are "
            "others");
        break;
      case Schedule::interleaved_zb:
        add_text("pipeline_parallel_schedule", "InterleavedZeroBubble");
        break;
      case Schedule::zb_v:
        add_text("pipeline_parallel_schedule", "ZBVZeroBubble");
        break;
      case Schedule::dual_pipe_v:
        add_text("pipeline_parallel_schedule", "DualPipeV");
        break;
      case Schedule::v_half:
      case Schedule::v_min:
        refuse(
            "schedule {}: torchtitan has 1F1B, GPipe, Interleaved1F1B, InterleavedZeroBubble, "
            "ZBVZeroBubble",
            word(layout_.schedule));
        break;
    }
    add("pipeline_parallel_microbatch_size", layout_.micro_batch);
    stages();
    const bool waits = !splits_backward(layout_.schedule);
    if (layout_.overlap_pipeline && waits)
      note("layout.overlap.pipeline", "torch's schedules wait for their messages");
  }

  void stages() {
    const auto layers = static_cast<std::int64_t>(scenario_.model.layers.size());
    const int chunks = layout_.chunks();
    if (layout_.layers_per_chunk.empty() ||
        layout_.layers_per_chunk == torchtitan_split(layers, chunks, 0, 0)) {
      add("pipeline_parallel_layers_per_stage", divide_up(layers, chunks));
      add("pipeline_parallel_first_stage_less_layers", 0);
      add("pipeline_parallel_last_stage_less_layers", 0);
      return;
    }
    std::string parts;
    int layer = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      std::vector<std::string> names;
      if (chunk == 0) names.emplace_back("\"tok_embeddings\"");
      for (int i = 0; i < layout_.layers_per_chunk[static_cast<std::size_t>(chunk)]; ++i)
        names.push_back(fmt::format("\"layers.{}\"", layer++));
      if (chunk == chunks - 1) {
        names.emplace_back("\"norm\"");
        names.emplace_back("\"output\"");
      }
      parts += fmt::format("  [{}],\n", fmt::join(names, ", "));
    }
    add("module_fqns_per_model_part", fmt::format("[\n{}]", parts));
  }

  void recomputation() {
    section("activation_checkpoint");
    const bool full = layout_.recompute == Recompute::full;
    if (layout_.recompute == Recompute::selective)
      refuse(
          "recompute selective: torchtitan has no recomputation of the attention's core alone "
          "(its own selective mode recomputes by layer or by operator)");
    if (layout_.recompute_layers > 0)
      refuse("recompute_layers {}: torchtitan recomputes every k-th layer, or all",
             layout_.recompute_layers);
    const bool operators = layout_.recompute == Recompute::operators;
    const bool some = full && layout_.recompute_every > 1;
    add_text("mode", some || operators ? "selective" : full ? "full" : "none");
    if (some) add_text("selective_ac_option", fmt::format("{}", layout_.recompute_every));
    if (operators) add_text("selective_ac_option", "op");
    if (full) add("early_stop", scenario_.framework.execution.stops_recomputation);
  }

  void framework() {
    for (const bool model : {true, false})
      for (const bool loss : {true, false})
        for (const bool fused : {true, false})
          if (runs_so(model, loss, fused)) return run_so(model, loss, fused);
    run_so(true, true, true);
    note("framework", "torchtitan compiles blocks and loss, or runs them eagerly");
  }

  bool runs_so(bool model, bool loss, bool fused) const {
    Framework framework = torchtitan_framework(model, loss, fused);
    const Execution& asked = scenario_.framework.execution;
    framework.execution.stops_recomputation = model || asked.stops_recomputation;
    framework.execution.expert_rows = asked.expert_rows;  // v0.2 pads to 8, HEAD does not
    if (by_rows()) framework.execution.eight_bit = asked.eight_bit;
    return canonical(scenario_.framework, scenario_) == canonical(framework, scenario_);
  }

  void run_so(bool model, bool loss, bool fused) {
    if (layout_.cuts_products() && !model)
      refuse("overlap tensor_products: torchtitan's AsyncTP needs compiled layers");
    section("optimizer");
    add_text("name", "AdamW");
    add_text("implementation", fused ? "fused" : "foreach");
    section("compile");
    add("enable", model || loss ? "true" : "false");
    std::vector<std::string_view> components;
    if (model) components.emplace_back("\"model\"");
    if (loss) components.emplace_back("\"loss\"");
    add("components", fmt::format("[{}]", fmt::join(components, ", ")));
    if (scenario_.options.graphs) note("simulation.graphs", "CUDA graphs are not switched on");
  }

  void attention() {
    if (layout_.attention != AttentionKernel::flash_2)
      note("layout.attention",
           "torchtitan runs scaled_dot_product_attention: flash-2 where the device file has it");
  }

  const Scenario& scenario_;
  const Layout& layout_;
  Refusals& refusals_;
  std::vector<Note>& notes_;
  std::string text_;
};

}  // namespace

std::vector<int> torchtitan_split(std::int64_t layers, std::int64_t stages, std::int64_t before,
                                  std::int64_t behind) {
  if (stages == 1) return {static_cast<int>(layers)};
  const std::int64_t whole = layers + before + behind;
  const std::int64_t each = whole / stages;
  if (each == 0 || before > each || behind > each) return {};
  std::vector<int> split(static_cast<std::size_t>(stages), static_cast<int>(each));
  for (std::int64_t i = 0; i < whole % stages; ++i)
    ++split[static_cast<std::size_t>(i)];
  split.front() -= static_cast<int>(before);
  split.back() -= static_cast<int>(behind);
  return split;
}

Exported export_torchtitan(const Scenario& scenario) {
  Exported out;
  Refusals refusals;
  const std::string text = TitanWriter{scenario, refusals, out.notes}.write();
  throw_refusals(scenario, Target::torchtitan, refusals);
  out.text = header_text(scenario, out.notes, "# ",
                         "For torchtitan v0.2 (--job.config_file). Add data, optimizer and "
                         "checkpoints.") +
             text;
  return out;
}

}  // namespace sim
