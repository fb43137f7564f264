#include "sim/plan/sharding/chunked_loss.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "sim/base/rounding.hpp"
#include "sim/plan/sharding/kept_set.hpp"

namespace sim {
namespace {

void chunk_head(const Region& region, std::int64_t tokens, std::int64_t chunks, ShardedOp& head) {
  const ModelOp& op = *head.op;
  head.output = head.whole_output = Bytes{tokens * op.out_features * region.element};
  const auto repeat = [&](std::optional<Kernel>& kernel) {
    if (kernel) kernel->launches *= static_cast<int>(chunks);
  };
  repeat(head.forward);
  repeat(head.input_gradient);
  repeat(head.weight_gradient);
  if (head.weight_gradient)
    head.weight_gradient->bytes +=
        Bytes{2 * (chunks - 1) * op.in_features * op.out_features * region.element};
}

}  // namespace

std::int64_t tokens_of_chunk(std::int64_t tokens, std::int64_t hidden, std::int64_t classes) {
  const std::int64_t parts = divide_up(classes, hidden);
  const auto power = std::bit_ceil(static_cast<std::uint64_t>(divide_up(tokens, parts)));
  return std::min(tokens, static_cast<std::int64_t>(power));
}

void chunk_logits(const Region& region, ShardedBlock& sharded) {
  const auto loss = std::ranges::find(sharded.ops, ModelOpKind::cross_entropy,
                                      [](const ShardedOp& op) { return op.op->kind; });
  if (loss == sharded.ops.begin() || loss == sharded.ops.end()) return;
  ShardedOp& head = *(loss - 1);
  if (head.op->kind != ModelOpKind::linear) return;
  const std::int64_t all = tokens_of(region, *head.op);
  const std::int64_t tokens = tokens_of_chunk(all, head.op->in_features, head.op->out_features);
  const std::int64_t chunks = divide_up(all, tokens);
  chunk_head(region, tokens, chunks, head);
  loss->input = loss->whole_input = head.output;
  loss->forward->launches *= static_cast<int>(chunks);
}

std::vector<std::uint32_t> head_and_loss(const Block& block) {
  const auto is_loss = [](const ModelOp& op) { return op.kind == ModelOpKind::cross_entropy; };
  if (block.ops.empty() || !is_loss(block.ops.back()) ||
      std::ranges::count_if(block.ops, is_loss) > 1)
    return {};
  const auto head = std::find_if(block.ops.rbegin(), block.ops.rend(),
                                 [](const ModelOp& op) { return op.kind == ModelOpKind::linear; });
  if (head == block.ops.rend()) return {};
  std::vector<std::uint32_t> ops(static_cast<std::size_t>(head - block.ops.rbegin()) + 1);
  std::iota(ops.begin(), ops.end(), static_cast<std::uint32_t>(block.ops.size() - ops.size()));
  return ops;
}

void run_loss_in_chunks(const Block& block, const Model& model, const Layout& layout,
                        KeptSet& kept) {
  std::vector<std::uint32_t> ops = head_and_loss(block);
  if (ops.empty()) return;
  kept.replay_of.resize(block.ops.size(), KeptSet::none);
  kept.input_from.resize(block.ops.size(), KeptSet::none);
  for (const std::uint32_t op : ops)
    kept.replay_of[op] = static_cast<int>(kept.replays.size());
  const LossChunks form = model.execution.loss_chunks;
  const PieceOrder order = form == LossChunks::again    ? PieceOrder::again
                           : form == LossChunks::behind ? PieceOrder::behind
                                                        : PieceOrder::at_once;
  const std::uint32_t last = ops.back();
  kept.replays.push_back(
      {.ops = std::move(ops), .before = last, .pieces = layout.loss_chunks, .order = order});
}

}  // namespace sim
