#include "sim/plan/sharding/chunked_loss.hpp"

#include <algorithm>
#include <bit>

#include "sim/base/rounding.hpp"

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

}  // namespace sim
