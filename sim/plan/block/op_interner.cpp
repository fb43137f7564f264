#include "sim/plan/block/op_interner.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace sim::lowering {

std::vector<BlockWork> OpInterner::intern_blocks() {
  std::vector<BlockWork> all(model_.blocks.size());
  for (std::uint32_t kind = 0; kind < model_.kinds(); ++kind)
    for (const StageBlock& block : context_.blocks) {
      const std::uint32_t shape = block.shape + kind * model_.blocks_of_kind;
      BlockWork& work = all[shape];
      if (work.interned) continue;
      work.interned = true;
      for (std::size_t i = 0; i < model_.blocks[shape].ops.size(); ++i)
        intern_op(model_.blocks[shape].ops[i], kind > 0 ? &all[block.shape].ops[i] : nullptr,
                  work.ops.emplace_back());
      find_branches(model_.blocks[shape], work);
    }
  return all;
}

void OpInterner::find_branches(const ShardedBlock& block, BlockWork& work) {
  branches_.past.resize(std::max(branches_.past.size(), block.ops.size()));
  branches_.gradient_past.resize(branches_.past.size());
  branches_.lent_gradient.resize(branches_.past.size());
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    const ShardedOp& sum = block.ops[i];
    if (sum.op->residual_of < 0) {
      if (sum.op->starts_from >= 0)
        work.ops[static_cast<std::size_t>(sum.op->starts_from)].borrower =
            static_cast<std::uint32_t>(i);
      if (sum.add_gradient) intern_gradient_sum(sum, i, work.ops[i]);
      continue;
    }
    SIM_CHECK(static_cast<std::size_t>(sum.op->residual_of) < i, sum.op->name);
    OpWork& first = work.ops[static_cast<std::size_t>(sum.op->residual_of)];
    SIM_CHECK(!first.begins_branch, sum.op->name);
    first.begins_branch = true;
    first.branch_sum = static_cast<std::uint32_t>(i);
    if (sum.add_gradient) intern_gradient_sum(sum, i, first);
    const auto behind = block.ops.begin() + static_cast<std::ptrdiff_t>(i);
    const auto linear = std::find_if(behind, block.ops.end(), [](const ShardedOp& op) {
      return op.op->kind == ModelOpKind::linear;
    });
    if (linear != block.ops.end())
      work.ops[static_cast<std::size_t>(linear - block.ops.begin())].begins_mlp = true;
  }
}

void OpInterner::intern_gradient_sum(const ShardedOp& op, std::size_t i, OpWork& work) {
  work.branch_sum = static_cast<std::uint32_t>(i);
  work.add_gradient = builder_.kernel(*op.add_gradient);
  work.add_gradient_name = builder_.name(op.op->name + ".add_gradient");
}

// `first`: of the first kind of micro-batch, with which it shares buffers that outlive both; null:
// this is it. Where there are kinds, linears that are cut into parts are as large in all of them
// (layout_problems_packing.cpp).
void OpInterner::intern_op(const ShardedOp& op, const OpWork* first, OpWork& work) {
  const std::string& name = op.op->name;
  work.name = builder_.name(name);
  work.gradient_name = op.input_gradient ? builder_.name(name + ".input_gradient") : work.name;
  if (op.weight_gradient) work.weight_name = builder_.name(name + ".weight_gradient");
  if (op.weight_gradient && op.backward) work.bias_name = builder_.name(name + ".bias_gradient");
  if (op.encode_gradient || op.encode_weight || op.encode_input)
    work.encode_name = builder_.name(name + ".encode");
  else if (op.encode_saved || op.transpose_gradient)
    work.encode_name = builder_.name(name + ".reorder");
  work.forward = interned(builder_, op.forward);
  work.backward = interned(builder_, op.backward);
  work.encode_input = interned(builder_, op.encode_input);
  work.encode_saved = interned(builder_, op.encode_saved);
  work.encode_gradient = interned(builder_, op.encode_gradient);
  work.encode_weight = interned(builder_, op.encode_weight);
  work.encode_saved_weight = interned(builder_, op.encode_saved_weight);
  work.join_output = interned(builder_, op.join_output);
  work.own_output = interned(builder_, op.own_output);
  work.spread_gradient = interned(builder_, op.spread_gradient);
  work.add_products = interned(builder_, op.add_products);
  work.sum_products = interned(builder_, op.sum_products);
  work.rescale_input_gradient = interned(builder_, op.rescale_input_gradient);
  work.rescale_weight_gradient = interned(builder_, op.rescale_weight_gradient);
  work.reorder_input = interned(builder_, op.reorder_input);
  work.reorder_output = interned(builder_, op.reorder_output);
  if (op.reorder_input || op.reorder_output) work.reorder_name = builder_.name(name + ".reorder");
  intern_products(op, work);
  intern_collectives(op, work);
  work.transpose_gradient = interned(builder_, op.transpose_gradient);
  if (op.forward_part && first != nullptr)
    work.buffers = first->buffers;
  else if (op.forward_part)
    parts_.user_buffers.intern_user_buffers(op, work.buffers);
  if (op.sliced_forward) parts_.sliced.intern_slices(op, work);
  parts_.tapes.intern_tapes(op);
  work.choose = interned(builder_, op.choose);
  work.choose_backward = interned(builder_, op.choose_backward);
  if (op.choose) work.choose_name = builder_.name(name + ".choose");
}

void OpInterner::intern_products(const ShardedOp& op, OpWork& work) {
  work.products_again = interned(builder_, op.forward_again);
  if (!op.input_gradient) return;
  const auto each = static_cast<std::size_t>(op.products);
  const bool apart = !op.forward_apart.empty();
  work.products = interned(builder_, apart ? op.forward_apart : std::vector(each, *op.forward));
  work.input_gradients =
      interned(builder_, apart ? op.input_gradient_apart : std::vector{*op.input_gradient});
  if (!op.weight_gradient) return;
  work.weight_gradients =
      interned(builder_, apart ? op.weight_gradient_apart : std::vector(each, *op.weight_gradient));
}

void OpInterner::intern_collectives(const ShardedOp& op, OpWork& work) {
  const bool scattered = op.scatters;
  const Carrier carrier = op.forward_part ? Carrier::user_buffers : Carrier::nccl;
  const int sms = op.forward_part ? user_buffer_sms : 0;
  const auto make = [&](CollectiveKind kind, Bytes bytes) {
    return builder_.collective(
        {kind, GroupRole::tensor, layout_.activation_dtype, bytes, carrier, sms});
  };
  const auto gather = [&](Bytes bytes) {
    const Gathered sent = as_gathered(layout_, op, bytes);
    return builder_.collective(
        {CollectiveKind::all_gather, GroupRole::tensor, sent.dtype, sent.bytes, carrier, sms});
  };
  const CollectiveKind sum =
      scattered ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce;
  const std::string& name = op.op->name;
  if (op.gathers_input || (op.sums_output && scattered)) {
    work.gather_name = builder_.name(name + ".all_gather");
  }
  if (op.gathers_input) work.gather_input = gather(op.whole_input);
  if (op.sums_gradient || op.sums_output) {
    work.sum_name = builder_.name(name + (scattered ? ".reduce_scatter" : ".all_reduce"));
  }
  if (op.sums_gradient) work.sum_gradient = make(sum, op.whole_input);
  if (op.sums_output) {
    work.sum_output = make(sum, op.whole_output);
    if (scattered) work.gather_gradient = gather(op.whole_output);
  }
  if (op.join_output) {
    work.gather_name = builder_.name(name + ".all_gather");
    work.gather_output = make(CollectiveKind::all_gather, op.gathered_output);
  }
  if (op.spread_gradient) {
    work.sum_name = builder_.name(name + ".reduce_scatter");
    work.scatter_gradient = make(CollectiveKind::reduce_scatter, op.gathered_output);
  }
  if (op.gathered_beside.count() > 0) {
    work.gather_name = builder_.name(name + ".all_gather");
    work.gather_beside = make(CollectiveKind::all_gather, op.gathered_beside);
  }
  if (op.summed_beside.count() > 0) {
    work.sum_name = builder_.name(name + ".all_reduce");
    work.sum_beside = builder_.collective(
        {CollectiveKind::all_reduce, GroupRole::tensor, DType::fp32, op.summed_beside});
  }
  if (op.splits_loss) {
    // One fp32 number per token, three times (Megatron-LM, core/tensor_parallel/cross_entropy.py):
    // the maximum, the logit of the target, the sum of exponentials.
    const Bytes bytes{op.forward->m * 4};
    work.loss_maximum =
        builder_.collective({CollectiveKind::all_reduce, GroupRole::tensor, DType::fp32, bytes});
    work.loss_sum = work.loss_maximum;
    work.sum_name = builder_.name(name + ".all_reduce");
  }
}

}  // namespace sim::lowering
