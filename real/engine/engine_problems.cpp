// Plans that no backend can execute, refused before anything starts.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "real/engine/bound_program.hpp"
#include "real/engine/expert_problems.hpp"
#include "real/engine/operator_facts.hpp"
#include "sim/model/expert_bias.hpp"
#include "sim/model/key_heads.hpp"
#include "sim/plan/sharding/kept_set.hpp"

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
    if (op.function != Function::none) continue;
    if (sim::is_expert_bias(op)) continue;  // refused with the model (expert_problems.hpp)
    std::string text = fmt::format("operator {} of the {} block: the engine does not execute {}",
                                   op.name, block.name, reason(model, op));
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
    problems.push_back(
        fmt::format("{}: dropout of 1 leaves nothing to train; allowed: less than 1", model.name));
    return;
  }
}

// A classifier reads the first token of each sequence, another model trains the next token.
void check_mask(const sim::Plan& plan, const sim::Model& model,
                std::vector<std::string>& problems) {
  const bool classifies = reads_labels(model);
  if (classifies && model.attention.causal)
    problems.push_back(fmt::format(
        "operator attention: {} is causal, so the first token, of which its head makes the class, "
        "sees no other; allowed: attention bidirectional",
        model.name));
  if (!classifies && !model.attention.causal)
    problems.push_back(fmt::format(
        "operator attention: {} is not causal, and the engine trains the next token", model.name));
  if (classifies && plan.layout.sequence_parallel && plan.layout.tensor_parallel > 1)
    problems.push_back(fmt::format(
        "layout.sequence_parallel: the head of {} reads the first token of each sequence, which "
        "one rank alone would hold; allowed: false",
        model.name));
}

// Refuses layers of other forms than those of Llama and GPT: kernels and checks know no others.
void check_layers(const sim::Plan& plan, const sim::Model& model,
                  std::vector<std::string>& problems) {
  if (!model.shape) return;
  const auto refuse = [&](bool has, const std::string& what) {
    if (has)
      problems.push_back(fmt::format("{}: the engine does not execute {}", model.name, what));
  };
  const sim::TransformerShape& shape = *model.shape;
  refuse(sim::is_shorter(shape.window, plan.layout.sequence_length),
         fmt::format("attention within a window of {} tokens", shape.window));
  refuse(shape.rotary_share < 1, "rotary positions of a part of a head");
  refuse(shape.qk_norm_whole, "a norm over all queries of a token");
  refuse(sim::norms_branch(shape.norm_placement), "norms behind attention and MLP");
}

bool computes_loss(const sim::Model& model) {
  return std::any_of(model.output.ops.begin(), model.output.ops.end(),
                     [](const sim::ModelOp& op) { return op.function == Function::cross_entropy; });
}

bool runs_otherwise(const sim::Model& model, const sim::Layout& layout) {
  for (const sim::ModelOp& op : model.output.ops)
    if (op.function == Function::cross_entropy && op.in_place) return true;
  for (const sim::Block& layer : model.layers)
    for (const sim::ModelOp& op : layer.ops)
      if (op.products > 1) return true;
  const sim::Execution& runs = model.execution;
  return runs.gathers_logits || runs.adds_gradients || runs.keeps_gathered_inputs ||
         runs.all_reduces_gradients || runs.holds_units || runs.sends_whole ||
         runs.recomputes_head || runs.separate_products ||
         ((runs.copies_attention || runs.copies_flash_output) && layout.micro_batch > 1) ||
         runs.gradient_buckets != sim::GradientBuckets::flat || runs.held_logits > 0;
}

// Problems of optimizers and their states, and of recomputation.
void add_state_problems(const sim::Layout& layout, std::vector<std::string>& problems) {
  const bool known =
      layout.optimizer == sim::OptimizerKind::adam || layout.optimizer == sim::OptimizerKind::lamb;
  if (!known || layout.moment_dtype != sim::DType::fp32 ||
      layout.dtype_of_moment(1) != sim::DType::fp32)
    problems.emplace_back(
        "layout.optimizer, layout.moment_dtype: the engine updates with Adam or LAMB, moments in "
        "fp32");
  if (layout.state_format != sim::StateFormat::plain)
    problems.emplace_back(
        "layout.state_format: the engine keeps moments as numbers; allowed: plain");
  if (layout.optimizer == sim::OptimizerKind::muon)
    problems.emplace_back("layout.optimizer: the engine does not make matrices orthogonal");
  if (layout.master_format != sim::MasterFormat::fp32)
    problems.emplace_back("layout.master_format: the engine keeps masters in fp32; allowed: fp32");
}

// Problems of tensors on the host, and of replicas that train apart.
void add_exchange_problems(const sim::Layout& layout, std::vector<std::string>& problems) {
  if (layout.offloads() && layout.offload_fraction != 1)
    problems.emplace_back(
        "layout.offload.fraction: the engine offloads all of the optimizer; allowed: 1");
  if (layout.offloads_parameters() && layout.shard_ranks() == 1 &&
      layout.reduce_dtype != layout.gradient_dtype)
    problems.emplace_back(
        "layout.offload.parameters: the gradients of one rank travel as they are kept; allowed: "
        "reduce_dtype as gradient_dtype");
  if (layout.trains_apart() && layout.outer_dtype != sim::DType::fp32)
    problems.emplace_back("layout.local_steps.wire: the engine averages in fp32; allowed: fp32");
}

// Problems with how a framework treats gradients.
void add_gradient_problems(const sim::Execution& runs, std::vector<std::string>& problems) {
  // separate_update is of time alone: the same values come of Adam's kernel, which clips gradients
  // and writes new weights.
  if (runs.scales_gradients || runs.checks_gradients)
    problems.emplace_back(
        "framework: the engine averages gradients in their collectives, and does not check them; "
        "allowed: gradient_prescale and check_for_nan_in_grad: false");
}

}  // namespace

std::vector<std::string> engine_problems(const sim::Plan& plan, const sim::Model& model,
                                         bool by_scores) {
  if (model.is_diffusion)
    return {fmt::format("{}: the engine executes no diffusion transformers", model.name)};
  if (model.is_layer_list)
    return {fmt::format("{} is a list of layers: the engine executes transformers", model.name)};
  if (model.has_latent_attention())
    return {fmt::format("{}: the engine does not execute latent attention", model.name)};
  if (model.is_hybrid())
    return {
        fmt::format("{}: the engine does not execute layers that differ in what they are made "
                    "of (layer_pattern, layer_kinds)",
                    model.name)};
  std::vector<std::string> problems = expert_problems(plan.layout, model, by_scores);
  check_block(model, model.input, problems);
  for (const sim::Block& layer : model.layers)
    check_block(model, layer, problems);
  check_block(model, model.output, problems);
  check_layers(plan, model, problems);
  const bool reads_tokens =
      !model.input.ops.empty() && model.input.ops.front().function == Function::lookup;
  if (!reads_tokens && problems.empty())
    problems.push_back(fmt::format("{} reads no tokens: the engine trains on text", model.name));
  if (!computes_loss(model) && problems.empty())
    problems.push_back(fmt::format("{} ends in no loss: there is nothing to train", model.name));
  check_mask(plan, model, problems);
  check_dropout(model, problems);
  if (plan.layout.context_parallel > 1)
    problems.emplace_back(
        "layout.context_parallel: the engine does not split the tokens of a sequence");
  if (sim::shares_key_heads(model, plan.layout.tensor_parallel))
    problems.push_back(fmt::format(
        "layout.tensor_parallel: the engine splits {} key/value heads over as many ranks at most",
        model.attention.kv_heads));
  if (runs_otherwise(model, plan.layout))
    problems.emplace_back(
        "framework: the engine runs logits, gradients and messages as Megatron-LM does; "
        "sim/framework/FRAMEWORKS.md has the keys");
  add_gradient_problems(model.execution, problems);
  if (plan.layout.cuts_products())
    problems.emplace_back(
        "layout.overlap.tensor_products: the engine does not execute products cut into parts");
  if (sim::is_quantized(plan.layout.compute_dtype))
    problems.emplace_back("layout.compute_dtype: the engine does not execute 8-bit products");
  if (plan.layout.trains_adapters())
    problems.emplace_back("layout.lora.rank: the engine trains all parameters; allowed: 0");
  if (plan.layout.has_lengths())
    problems.emplace_back(
        "layout.packing.lengths: the engine trains on sequences of one length; allowed: none");
  if (plan.layout.images > 0)
    problems.emplace_back("layout.images: the engine runs no vision encoder; allowed: 0");
  if (plan.layout.mlp_tiles > 1)
    problems.emplace_back("layout.mlp_tiles: the engine runs an MLP as a whole; allowed: 1");
  if (plan.layout.packed_length > 0)
    problems.emplace_back("layout.packed_length: the engine does not pack sequences; allowed: 0");
  add_exchange_problems(plan.layout, problems);
  add_state_problems(plan.layout, problems);
  if (plan.layout.recompute == sim::Recompute::operators &&
      !sim::keeps_tensors(model.execution, plan.layout))
    problems.emplace_back(
        "layout.recompute: by operators the engine keeps the outputs that a gradient needs, each "
        "as a whole; allowed: recompute none, selective, full, or framework.keeps_unread_outputs, "
        "keeps_gathered_inputs and copies_attention: false");
  if (model.execution.copies_tokens || model.execution.copies_weights)
    problems.emplace_back(
        "framework: the engine does not copy what it has gathered (token_collectives and "
        "weight_gathers: fused)");
  return problems;
}

}  // namespace real
