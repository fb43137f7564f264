#include "real/engine/eight_bit_problems.hpp"

#include <algorithm>

#include "real/engine/eight_bit.hpp"
#include "real/engine/support.hpp"
#include "sim/plan/sharding/eight_bit.hpp"

namespace real {
namespace {

// Several products of one linear share no codes.
bool separates_products(const sim::Model& model) {
  if (model.execution.separate_products) return true;
  for (const sim::Block* layer : model.layers_of_each_kind())
    for (const sim::ModelOp& op : layer->ops)
      if (op.products > 1) return true;
  return false;
}

// Casts that the engine does not make, or that would be lost on the way.
bool casts_otherwise(const sim::Layout& layout, const sim::Model& model) {
  const sim::Execution& runs = model.execution;
  const bool gathers = layout.sequence_parallel && layout.tensor_parallel > 1;
  return layout.compute_dtype != sim::DType::fp8 || !can_scale(runs.eight_bit) ||
         layout.eight_bit_parameters || !layout.fp8_modules.empty() || runs.operation_fuser ||
         runs.eight_bit_attention != sim::EightBitAttention::none || gathers ||
         layout.trains_adapters() || layout.uses_host() || model.has_experts() ||
         model.has_latent_attention() || separates_products(model);
}

}  // namespace

std::vector<CodedSizes> coded_sizes(const sim::Layout& layout, const sim::Model& model) {
  std::vector<CodedSizes> all;
  for (const sim::Block* layer : model.layers_of_each_kind())
    for (const sim::ModelOp& op : layer->ops) {
      if (op.kind != sim::ModelOpKind::linear || !sim::is_quantized(op, layout)) continue;
      const bool row = op.split == sim::TensorSplit::row;
      const bool column = op.split == sim::TensorSplit::column;
      all.push_back({.name = op.name,
                     .tokens = layout.micro_batch * layout.tokens_held(),
                     .in = op.in_features / (row ? layout.tensor_parallel : 1),
                     .out = op.out_features / (column ? layout.tensor_parallel : 1)});
    }
  return all;
}

std::vector<std::string> eight_bit_problems(const sim::Layout& layout, const sim::Model& model) {
  if (!sim::is_quantized(layout.compute_dtype)) return {};
  if (casts_otherwise(layout, model)) return {refusal(Feature::eight_bit_rest)};
  std::vector<std::string> problems;
  const std::int64_t unit = block_of(scaling_of(model.execution.eight_bit, CodedTensor::input));
  for (const CodedSizes& sizes : coded_sizes(layout, model))
    if (!sizes.are_multiples_of(unit))
      problems.push_back(
          refusal(Feature::eight_bit_sizes, sizes.name, unit, sizes.tokens, sizes.in, sizes.out));
  return problems;
}

}  // namespace real
