#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "sim/interop/formats.hpp"
#include "sim/scenario/write_scenario.hpp"
#include "sim/scripts/scripts.hpp"

namespace sim {
namespace {

Imported read_back(const Exported& exported, const Scenario& scenario, Target target) {
  const ImportRequest request{.gpus = scenario.layout.world_size(),
                              .model = scenario.model.shape,
                              .has_flash_2 = scenario.layout.attention == AttentionKernel::flash_2};
  ImportRequest without_model = request;
  without_model.model.reset();
  switch (target) {
    case Target::megatron:
      return import_megatron(parse_flags(exported.text, "exported"), without_model);
    case Target::torchtitan:
      return import_torchtitan(Document::parse(exported.text, "exported", Syntax::toml),
                               without_model);
    case Target::nemo:
      return import_nemo(Document::parse(exported.text, "exported", Syntax::yaml), without_model);
    default:
      break;
  }
  const Document json = Document::parse(exported.text, "exported", Syntax::json);
  const Document flags = parse_flags(exported.flags, "exported flags");
  return import_deepspeed(json, &flags, request);
}

// A promise that is kept at every export: what the file says is the scenario, but for the notes.
void check(const Exported& exported, const Scenario& scenario, Target target) {
  const std::vector<std::string> keys =
      differences(scenario, read_back(exported, scenario, target));
  for (const std::string& key : keys) {
    const bool noted =
        std::ranges::any_of(exported.notes, [&](const Note& note) { return key == note.key; });
    if (!noted)
      throw_refusals(scenario, target, {fmt::format("its file would not say {} as it is", key)});
  }
}

}  // namespace

void throw_refusals(const Scenario& scenario, Target target, const Refusals& refusals) {
  if (refusals.empty()) return;
  std::vector<Problem> problems;
  problems.reserve(refusals.size());
  for (const std::string& sentence : refusals)
    problems.push_back({SourcePosition{scenario.path, 0, 0},
                        fmt::format("not for {}: {}", word(target), sentence), ""});
  throw InputError{std::move(problems)};
}

std::string header_text(const Scenario& scenario, const std::vector<Note>& notes,
                        std::string_view mark, std::string_view usage) {
  const Layout& layout = scenario.layout;
  std::string text =
      fmt::format("{} on {} GPUs: tp {} x cp {} x pp {} x dp {}. Written by Stepcast.\n{}\n",
                  scenario.name, layout.world_size(), layout.tensor_parallel,
                  layout.context_parallel, layout.pipeline_parallel, layout.data_parallel, usage);
  for (const Note& note : notes)
    text += fmt::format("Not as in the scenario: {}: {}\n", note.key, note.what);
  std::string marked;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    marked += fmt::format("{}{}\n", mark, text.substr(at, end - at));
    at = end + 1;
  }
  return marked;
}

namespace {

// refuse_states() refuses states of the optimizer in other formats than fp32.
void refuse_states(const Layout& layout, Refusals& refusals) {
  for (int moment = 0; moment < moments_of(layout.optimizer); ++moment)
    if (layout.dtype_of_moment(moment) != DType::fp32)
      return refusals.push_back(fmt::format("moment_dtype {}: states in fp32 are written",
                                            word(layout.dtype_of_moment(moment))));
  if (layout.master_weights && layout.master_format != MasterFormat::fp32)
    refusals.push_back(
        fmt::format("master_format {}: states in fp32 are written", word(layout.master_format)));
}

// refuse_optimizer() refuses optimizers that Megatron's flags here have no word for.
void refuse_optimizer(const Scenario& scenario, Target target) {
  const Layout& layout = scenario.layout;
  Refusals refusals;
  const bool muon = layout.optimizer == OptimizerKind::muon && target == Target::megatron;
  if (layout.optimizer != OptimizerKind::adam && !muon)
    refusals.push_back(fmt::format("optimizer {}: Adam is written", word(layout.optimizer)));
  if (target == Target::nemo) refuse_states(layout, refusals);
  throw_refusals(scenario, target, refusals);
}

// refuse_unsaid_training() refuses what no file, or only Megatron-LM's, says of training and of
// GEMMs.
void refuse_unsaid_training(const Layout& layout, Target target, Refusals& refusals) {
  if (layout.state_format != StateFormat::plain)
    refusals.push_back(
        fmt::format("state_format {}: moments are written plain", word(layout.state_format)));
  const bool trainers =
      layout.optimizer == OptimizerKind::adafactor || layout.optimizer == OptimizerKind::ademamix;
  if (trainers)
    refusals.push_back(
        fmt::format("optimizer {}: no file that is written has it", word(layout.optimizer)));
  if (layout.trains_adapters())
    refusals.push_back(fmt::format("lora.rank {}: all parameters are trained in what is written",
                                   layout.lora_rank));
  if (layout.packed_length > 0)
    refusals.push_back(
        fmt::format("packed_length {}: sequences are written as filled", layout.packed_length));
  if (layout.has_lengths())
    refusals.push_back(fmt::format("packing.lengths {}: sequences are written as filled",
                                   layout.packing_lengths.name));
  if (layout.pipeline_runs > 1 && target != Target::torchtitan)
    refusals.push_back(
        fmt::format("pipeline_runs {}: one run of the schedule is written", layout.pipeline_runs));
  const bool megatron = target == Target::megatron || target == Target::nemo;
  if (layout.compute_dtype == DType::nvfp4 && !megatron)
    refusals.emplace_back("compute_dtype nvfp4: is Megatron-LM's");
  if ((layout.first_bf16_layers > 0 || layout.last_bf16_layers > 0) && !megatron)
    refusals.emplace_back("bf16_layers: all layers are written alike");
  if ((!layout.bf16_modules.empty() || !layout.fp8_modules.empty()) && !megatron)
    refusals.emplace_back("bf16_modules, fp8_modules: formats by module are Megatron-LM's");
  if (layout.buckets > 0 && !megatron) refusals.emplace_back("buckets: is Megatron-LM's");
}

// torchtitan offloads parameters and optimizer to the host's memory, or nothing.
void refuse_offload(const Layout& layout, Target target, Refusals& refusals) {
  const bool all = layout.offload_parameters == OffloadTarget::cpu &&
                   layout.offload_optimizer == OffloadTarget::cpu;
  const bool whole = target == Target::torchtitan && all;
  if (layout.offloads() && target != Target::megatron && !whole)
    refusals.push_back(fmt::format("offload.optimizer {}: the optimizer stays on the device",
                                   word(layout.offload_optimizer)));
  if (layout.offloads_parameters() && !whole)
    refusals.push_back(fmt::format("offload.parameters {}: parameters stay on the device",
                                   word(layout.offload_parameters)));
  if (layout.offloads_activations() && target != Target::megatron)
    refusals.emplace_back("offload.activations cpu: activations stay on the device");
}

// DeepSpeed's files alone say how gradients are compressed; its and Megatron-LM's, what is
// offloaded.
void refuse_unsaid(const Scenario& scenario, Target target) {
  if (target == Target::scenario) return;
  const Layout& layout = scenario.layout;
  Refusals refusals;
  refuse_unsaid_training(layout, target, refusals);
  if (layout.offload_delay)
    refusals.emplace_back("offload.delay: no framework's files have a key for it");
  if (layout.images > 0)
    refusals.push_back(fmt::format(
        "images {}: a vision encoder is written to no framework's files; allowed: 0",
        layout.images));
  if (layout.mlp_tiles > 1)
    refusals.push_back(
        fmt::format("mlp_tiles {}: no key of the framework's files has it", layout.mlp_tiles));
  if (layout.loss_chunks > 1)
    refusals.push_back(
        fmt::format("loss_chunks {}: no key of the framework's files has it", layout.loss_chunks));
  if (target == Target::deepspeed) return throw_refusals(scenario, target, refusals);
  if (target == Target::torchtitan) {
    if (layout.dtype_of_moment(1) != layout.moment_dtype)
      refusals.push_back(fmt::format("second_moment_dtype {}: moments have one format",
                                     word(layout.dtype_of_moment(1))));
    if (layout.master_weights && layout.master_format != MasterFormat::fp32)
      refusals.push_back(
          fmt::format("master_format {}: masters in fp32 are written", word(layout.master_format)));
    if (!layout.recompute_modules.empty())
      refusals.emplace_back("recompute_modules: modules that run again are Megatron-LM's");
  }
  refuse_offload(layout, target, refusals);
  if (layout.compression != GradientCompression::none)
    refusals.push_back(fmt::format("compression.gradients {}: gradients are sent as they are",
                                   word(layout.compression)));
  if (layout.quantized_weights || layout.secondary_shard)
    refusals.emplace_back("compression: ZeRO++ is DeepSpeed's");
  throw_refusals(scenario, target, refusals);
}

}  // namespace

Exported export_scenario(const Scenario& scenario, Target target, const std::string& folder) {
  refuse_unsaid(scenario, target);
  if (target == Target::megatron || target == Target::nemo) refuse_optimizer(scenario, target);
  Exported exported;
  switch (target) {
    case Target::scenario:
      exported.text = scenario_yaml(scenario, folder);
      return exported;
    case Target::megatron:
      exported = export_megatron(scenario);
      break;
    case Target::torchtitan:
      exported = export_torchtitan(scenario);
      break;
    case Target::nemo:
      exported = export_nemo(scenario);
      break;
    case Target::deepspeed:
      exported = export_deepspeed(scenario);
      break;
  }
  check(exported, scenario, target);
  return exported;
}

}  // namespace sim
