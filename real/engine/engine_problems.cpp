// Plans that no backend can execute, refused before anything starts.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "real/engine/bound_program.hpp"
#include "real/engine/eight_bit_problems.hpp"
#include "real/engine/expert_problems.hpp"
#include "real/engine/operator_facts.hpp"
#include "real/engine/support.hpp"
#include "sim/model/expert_bias.hpp"
#include "sim/model/key_heads.hpp"
#include "sim/plan/sharding/kept_set.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/schedule/schedule_rules.hpp"

namespace real {
namespace {

using sim::Function;

// Why an operator is forecast only.
const char* reason(const sim::Model& model, const sim::ModelOp& op) {
  if (op.kind == sim::ModelOpKind::attention)
    return model.attention.softcap ? "a soft cap of scores"
           : op.biases > 0         ? "attention sinks"
                                   : "ALiBi's slopes";
  if (op.kind == sim::ModelOpKind::linear && op.tied_to_embedding) return "a tied head with a bias";
  if (op.once_per_sequence) return "what is computed for one token of each sequence";
  return "its function";
}

void check_block(const sim::Model& model, const sim::Block& block,
                 std::vector<std::string>& problems) {
  for (const sim::ModelOp& op : block.ops) {
    if (function_of(model, op) != Function::none) continue;
    if (sim::is_expert_bias(op)) continue;  // refused with the model (expert_problems.hpp)
    std::string text = refusal(Feature::operators, op.name, block.name, reason(model, op));
    if (std::find(problems.begin(), problems.end(), text) == problems.end())
      problems.push_back(std::move(text));
  }
}

void check_dropout(const sim::Model& model, std::vector<std::string>& problems) {
  if (!model.shape) return;
  const sim::TransformerShape& shape = *model.shape;
  for (const double dropout : {shape.embedding_dropout, shape.attention_dropout,
                               shape.projection_dropout, shape.mlp_dropout}) {
    if (dropout < 1) continue;
    problems.push_back(refusal(Feature::dropout_of_all, model.name));
    return;
  }
}

// A classifier reads the first token of each sequence, another model trains the next token.
void check_mask(const sim::Plan& plan, const sim::Model& model,
                std::vector<std::string>& problems) {
  const bool classifies = reads_labels(model);
  if (classifies && model.attention.causal)
    problems.push_back(refusal(Feature::causal_classifier, model.name));
  if (!classifies && !model.attention.causal)
    problems.push_back(refusal(Feature::bidirectional_tokens, model.name));
  if (classifies && plan.layout.sequence_parallel && plan.layout.tensor_parallel > 1)
    problems.push_back(refusal(Feature::classifier_slices, model.name));
  if (classifies && plan.layout.context_parallel > 1)
    problems.push_back(refusal(Feature::classifier_context, model.name));
}

// Refuses layers of other forms than those of Llama and GPT: kernels and checks know no others.
void check_layers(const sim::Model& model, std::vector<std::string>& problems) {
  if (!model.shape) return;
  const auto refuse = [&](bool has, const std::string& what) {
    if (has) problems.push_back(refusal(Feature::layer_forms, model.name, what));
  };
  const sim::TransformerShape& shape = *model.shape;
  const std::int64_t turned = rotary_dim(model);
  if (shape.positions == sim::Positions::rotary && shape.rotary_share > 0 &&
      (turned == 0 || turned % 2 != 0))
    problems.push_back(refusal(Feature::odd_heads, model.name, turned));
  refuse(shape.qk_norm_whole, "a norm over all queries of a token");
  refuse(sim::norms_branch(shape.norm_placement), "norms behind attention and MLP");
}

void check_context(const sim::Layout& layout, const sim::Model& model,
                   std::vector<std::string>& problems) {
  if (layout.context_parallel == 1) return;
  const sim::ContextForm form = model.execution.context;
  if (form != sim::ContextForm::transformer_engine)
    problems.push_back(refusal(Feature::context_form, sim::word(form)));
  if (layout.has_servers() || layout.trains_apart())
    problems.push_back(refusal(Feature::context_apart));
  if (layout.context_exchange == sim::ContextExchange::all_to_all_ring)
    problems.push_back(refusal(Feature::context_rings));
  const std::int64_t window = model.shape ? model.shape->window : 0;
  if (sim::is_shorter(window, layout.attended_length()) &&
      layout.context_exchange == sim::ContextExchange::all_gather)
    problems.push_back(refusal(Feature::window_slices, window));
}

// The plan keeps the heads of a rank beside its log-sum-exps, where nothing else reads them.
void check_shared_heads(const sim::Layout& layout, const sim::Model& model,
                        std::vector<std::string>& problems) {
  if (!sim::shares_key_heads(model, layout.tensor_parallel)) return;
  if (layout.context_parallel > 1 && layout.context_exchange == sim::ContextExchange::all_gather)
    problems.push_back(refusal(Feature::context_shared_heads, model.attention.kv_heads));
  const bool unfused = !sim::is_flash(layout.attention) && layout.recompute_modules.empty();
  if (layout.recomputes(sim::RecomputeModule::core_attn) ||
      (layout.recompute == sim::Recompute::selective && unfused))
    problems.push_back(refusal(Feature::shared_heads_again, model.attention.kv_heads));
}

// The plan sends no gradient of the rotary keys, which all heads share, and its operators follow
// each other in a pass.
void check_latent(const sim::Layout& layout, const sim::Model& model,
                  std::vector<std::string>& problems) {
  if (!model.has_latent_attention()) return;
  if (layout.tensor_parallel > 1 || layout.context_parallel > 1 ||
      sim::rules_of(layout.schedule).splits_backward || layout.delay_weight_gradients ||
      layout.overlap_expert_exchange || layout.uses_host() ||
      layout.recompute == sim::Recompute::operators ||
      layout.recomputes(sim::RecomputeModule::mla_up_proj) ||
      layout.recomputes(sim::RecomputeModule::layernorm))
    problems.push_back(refusal(Feature::latent_layouts, model.name));
}

void check_adapters(const sim::Layout& layout, const sim::Model& model,
                    std::vector<std::string>& problems) {
  if (!layout.trains_adapters()) return;
  if (layout.frozen_format == sim::FrozenFormat::int8 || layout.lora_dropout > 0 ||
      layout.lora_magnitudes || layout.trains_embedding || layout.trains_head ||
      layout.expert_adapters != sim::ExpertAdapters::none)
    problems.push_back(refusal(Feature::adapter_forms));
  if (layout.tensor_parallel > 1 || layout.zero_stage > 2 || model.has_experts() ||
      layout.compression != sim::GradientCompression::none || layout.uses_host() ||
      layout.trains_apart() || layout.has_servers() || model.has_latent_attention() ||
      layout.optimizer != sim::OptimizerKind::adam || model.execution.operation_fuser)
    problems.push_back(refusal(Feature::adapter_layouts));
}

bool computes_loss(const sim::Model& model) {
  return std::any_of(model.output.ops.begin(), model.output.ops.end(),
                     [](const sim::ModelOp& op) { return op.function == Function::cross_entropy; });
}

bool runs_otherwise(const sim::Model& model, const sim::Layout& layout) {
  const sim::Execution& runs = model.execution;
  const bool exchanges_heads =
      layout.context_parallel > 1 && layout.context_exchange == sim::ContextExchange::all_to_all;
  return runs.gathers_logits || sim::holds_units(model, layout) ||
         (runs.sends_whole && layout.pipeline_parallel > 1) ||
         (runs.recomputes_head && layout.recompute == sim::Recompute::full) ||
         (runs.repeats_key_heads && exchanges_heads) || runs.keeps_gate_inputs_in_fp8 ||
         runs.held_logits > 1 || runs.chunks_logits;
}

// Collectives that average what the plan has scaled before.
bool averages_scaled(const sim::Execution& runs, const sim::Layout& layout) {
  return runs.scales_gradients &&
         (layout.compression != sim::GradientCompression::none || layout.trains_apart() ||
          layout.has_servers() || !layout.replica_batches.empty());
}

bool has_known_moments(const sim::Layout& layout) {
  const sim::DType dtype = layout.moment_dtype;
  if (layout.dtype_of_moment(1) != dtype) return false;
  if (dtype == sim::DType::fp32) return true;
  return dtype == sim::DType::bf16 && layout.optimizer == sim::OptimizerKind::adam &&
         !layout.updates_on_servers() && layout.compression != sim::GradientCompression::one_bit;
}

// Problems of optimizers and their states, and of recomputation.
void add_state_problems(const sim::Layout& layout, std::vector<std::string>& problems) {
  const bool known =
      layout.optimizer == sim::OptimizerKind::adam || layout.optimizer == sim::OptimizerKind::lamb;
  if (!known || !has_known_moments(layout)) problems.push_back(refusal(Feature::other_optimizers));
  if (layout.state_format != sim::StateFormat::plain)
    problems.push_back(refusal(Feature::state_format));
  if (layout.optimizer == sim::OptimizerKind::muon) problems.push_back(refusal(Feature::muon));
  if (layout.master_format != sim::MasterFormat::fp32)
    problems.push_back(refusal(Feature::master_format));
}

// Problems of tensors on the host, and of replicas that train apart.
void add_exchange_problems(const sim::Layout& layout, std::vector<std::string>& problems) {
  if (layout.offloads() && layout.offload_fraction != 1)
    problems.push_back(refusal(Feature::offload_fraction));
  if (layout.offloads_parameters() && layout.shard_ranks() == 1 &&
      layout.reduce_dtype != layout.gradient_dtype)
    problems.push_back(refusal(Feature::offload_gradients));
  if (layout.trains_apart() && layout.outer_dtype != sim::DType::fp32)
    problems.push_back(refusal(Feature::outer_wire));
}

// Actions that no key has told of.
void check_actions(const sim::Plan& plan, std::vector<std::string>& problems) {
  std::set<std::string> seen;
  for (const sim::Program& program : plan.programs)
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      const ActionSupport& action = action_support()[static_cast<std::size_t>(program.action[op])];
      const SupportRow& row = support_row(action.feature);
      if (row.host.runs() || row.cuda.runs() || !seen.insert(std::string{action.name}).second)
        continue;
      problems.push_back(fmt::format("operator {}: the engine does not execute {} ({})",
                                     program.name(sim::OpId{op}), action.name, row.title));
    }
}

}  // namespace

std::vector<std::string> engine_problems(const sim::Plan& plan, const sim::Model& model,
                                         bool by_scores) {
  if (model.is_diffusion) return {refusal(Feature::diffusion, model.name)};
  if (model.is_layer_list) return {refusal(Feature::layer_list, model.name)};
  if (model.is_hybrid()) return {refusal(Feature::hybrid, model.name)};
  const sim::Layout& layout = plan.layout;
  std::vector<std::string> problems = expert_problems(layout, model, by_scores);
  const auto refuse = [&](bool has, Feature feature) {
    if (has) problems.push_back(refusal(feature));
  };
  check_block(model, model.input, problems);
  for (const sim::Block& layer : model.layers)
    check_block(model, layer, problems);
  check_block(model, model.output, problems);
  check_layers(model, problems);
  if (!computes_loss(model) && problems.empty())
    problems.push_back(refusal(Feature::no_loss, model.name));
  check_mask(plan, model, problems);
  check_dropout(model, problems);
  check_context(layout, model, problems);
  check_latent(layout, model, problems);
  check_shared_heads(layout, model, problems);
  refuse(runs_otherwise(model, layout), Feature::framework_forms);
  // separate_update is of time alone: the same values come of Adam's kernel, which clips gradients
  // and writes new weights.
  refuse(averages_scaled(model.execution, layout), Feature::gradient_passes);
  refuse(layout.cuts_products(), Feature::tensor_products);
  for (std::string& problem : eight_bit_problems(layout, model))
    problems.push_back(std::move(problem));
  check_adapters(layout, model, problems);
  refuse(layout.has_lengths(), Feature::lengths);
  refuse(layout.images > 0, Feature::vision);
  refuse(layout.mlp_tiles > 1, Feature::mlp_tiles);
  refuse(layout.loss_chunks > 1, Feature::loss_chunks);
  if (layout.sequence_length % layout.attended_length() != 0)
    problems.push_back(refusal(Feature::packed_rest, layout.packed_length, layout.sequence_length));
  const int chunks = 2 * layout.context_parallel;
  if (layout.packed_length > 0 && chunks > 2 && layout.packed_length % chunks != 0)
    problems.push_back(refusal(Feature::packed_chunks, layout.packed_length, chunks));
  add_exchange_problems(layout, problems);
  add_state_problems(layout, problems);
  refuse(
      layout.recompute == sim::Recompute::operators && !sim::keeps_tensors(model.execution, layout),
      Feature::kept_parts);
  if (problems.empty()) check_actions(plan, problems);
  return problems;
}

}  // namespace real
