#include "real/host/kernels/kernels_context.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "real/host/kernels/flash_blocks.hpp"
#include "real/host/operands.hpp"

namespace real::host {
namespace {

using flash::block_size;
using kernels::HeadExchange;
using kernels::MergeTurn;
using kernels::SliceShape;
using kernels::StreamHandle;

// Tokens that follow each other in a sequence: half of what a rank has of it, or, with one rank,
// all.
struct Chunk {
  std::int64_t row = 0;       // of the first token, among those of its slice
  std::int64_t position = 0;  // in the sequence
  std::int64_t tokens = 0;
};

// Rows of a matrix in which a head's elements begin at `offset`.
struct HeadRows {
  std::int64_t width = 0, offset = 0, head_dim = 0;
  flash::ConstPanel of(std::span<const float> data, std::int64_t row, std::int64_t count) const {
    return {data.data() + row * width + offset, count, head_dim, Rows{width}};
  }
  flash::Panel of(std::span<float> data, std::int64_t row, std::int64_t count) const {
    return {data.data() + row * width + offset, count, head_dim, Rows{width}};
  }
};

struct ContextHead {
  HeadRows query, key, value, out;  // key, value: in a slice, or in [q|k|v] itself
  std::int64_t batch = 0;
  std::int64_t index = 0, global = 0;  // of (sequence, query head): here, in the global batch
};

class Slices {
 public:
  Slices(const SliceShape& shape, bool in_slices) : shape_{shape}, in_slices_{in_slices} {}

  flash::Scores scores() const {
    const kernels::HeadsShape& heads = shape_.heads;
    return {.scale = 1.0F / std::sqrt(static_cast<float>(heads.head_dim)),
            .causal = shape_.causal,
            .sequence = heads.sequence * heads.context.ranks,
            .dropout = shape_.rules.dropout};
  }

  template <class Visit>
  void for_each_head(Visit visit) const {
    const kernels::HeadsShape& heads = shape_.heads;
    const std::int64_t d = heads.head_dim;
    for (std::int64_t batch = 0; batch < heads.tokens / heads.sequence; ++batch)
      for (std::int64_t head = 0; head < heads.heads; ++head) {
        const std::int64_t group = head / (heads.heads / heads.kv_heads);
        const std::int64_t width = in_slices_ ? 2 * heads.kv_heads * d : heads.row();
        const std::int64_t before = in_slices_ ? 0 : heads.heads * d;
        visit(ContextHead{.query = {heads.row(), head * d, d},
                          .key = {width, before + group * d, d},
                          .value = {width, before + (heads.kv_heads + group) * d, d},
                          .out = {heads.heads * d, head * d, d},
                          .batch = batch,
                          .index = batch * heads.heads + head,
                          .global = (shape_.rules.first_sequence + batch) * shape_.rules.all_heads +
                                    shape_.rules.first_head + head});
      }
  }

  // The chunks of a rank, in a sequence of the micro-batch.
  std::vector<Chunk> chunks(std::int64_t batch, std::int64_t rank) const {
    const std::int64_t held = shape_.heads.sequence;
    const kernels::ContextShare share{shape_.heads.context.ranks, rank};
    const std::int64_t parts = share.ranks > 1 ? 2 : 1;
    std::vector<Chunk> made;
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t at = part * held / parts;
      made.push_back({batch * held + at, share.position(at, held), held / parts});
    }
    return made;
  }

  // Blocks of keys that some query of a block sees, the first in the sequence first: every query
  // sees a key of that one. visit(row among the slices, position, keys)
  template <class Visit>
  void for_each_key_block(std::int64_t batch, std::int64_t end, Visit visit) const {
    std::vector<Chunk> seen;
    for (std::int64_t i = 0; i < shape_.count; ++i)
      for (Chunk chunk : chunks(batch, shape_.first + i)) {
        chunk.row += i * shape_.heads.tokens;
        if (!shape_.causal || chunk.position < end) seen.push_back(chunk);
      }
    std::sort(seen.begin(), seen.end(),
              [](const Chunk& a, const Chunk& b) { return a.position < b.position; });
    for (const Chunk& chunk : seen)
      for (std::int64_t key = 0; key < chunk.tokens; key += block_size) {
        if (shape_.causal && chunk.position + key >= end) break;
        visit(chunk.row + key, chunk.position + key, std::min(block_size, chunk.tokens - key));
      }
  }

  // visit(row, position, queries)
  template <class Visit>
  void for_each_query_block(std::int64_t batch, Visit visit) const {
    for (const Chunk& chunk : chunks(batch, shape_.heads.context.rank))
      for (std::int64_t first = 0; first < chunk.tokens; first += block_size)
        visit(chunk.row + first, chunk.position + first,
              std::min(block_size, chunk.tokens - first));
  }

  // The place of a query block in the log-sum-exps, [sequence, head, token].
  std::int64_t sums_at(const ContextHead& head, std::int64_t row) const {
    return head.index * shape_.heads.sequence + row - head.batch * shape_.heads.sequence;
  }

 private:
  const SliceShape& shape_;
  bool in_slices_;
};

auto part_of(auto data, std::int64_t first, std::int64_t count) {
  return array(data.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
}

}  // namespace

void attend(const SliceShape& shape, const void* qkv, const void* keys, void* output,
            float* log_sum_exp, StreamHandle) {
  const In from{shape.heads.dtype, qkv, shape.heads.tokens * shape.heads.row()};
  const In slices{shape.heads.dtype, keys, shape.count * shape.slice()};
  const Out result{shape.heads.dtype, output, shape.outputs()};
  const Out sums{sim::DType::fp32, log_sum_exp, shape.log_sums()};
  const std::span<const float> queries = from, held = keys != nullptr ? slices : from;
  const std::span<float> to = result, log_sums = sums;
  const Slices over{shape, keys != nullptr};
  const flash::Scores how = over.scores();
  flash::Forward forward{how};
  over.for_each_head([&](const ContextHead& head) {
    over.for_each_query_block(
        head.batch, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
          bool any = false;
          forward.begin(head.query.of(queries, row, count), first, head.global, head.out.head_dim);
          over.for_each_key_block(
              head.batch, first + count, [&](std::int64_t at, std::int64_t key, std::int64_t size) {
                forward.add(head.key.of(held, at, size), head.value.of(held, at, size), key);
                any = true;
              });
          flash::Panel block = head.out.of(to, row, count);
          if (any)
            forward.output_to(block);
          else
            block.setZero();
          if (log_sums.empty()) return;
          auto block_sums = part_of(log_sums, over.sums_at(head, row), count);
          if (any)
            block_sums = forward.log_sums();
          else
            block_sums.setConstant(std::numeric_limits<float>::lowest());
        });
  });
}

void attend_backward(const SliceShape& shape, const kernels::SliceBackward& operands,
                     kernels::Workspace, StreamHandle) {
  const kernels::AttentionBackward& of = operands.attention;
  const sim::DType dtype = shape.heads.dtype;
  const std::int64_t rows = shape.heads.tokens * shape.heads.row();
  const In qkv{dtype, of.qkv, rows}, out{dtype, of.output, shape.outputs()};
  const In dout{dtype, of.gradient, shape.outputs()};
  const In sums{sim::DType::fp32, of.log_sum_exp, shape.log_sums()};
  const In slices{dtype, operands.keys, shape.count * shape.slice()};
  const Out dqkv{dtype, of.qkv_gradient, rows};
  const Out dslices{dtype, operands.keys_gradient, shape.count * shape.slice()};
  const std::span<const float> queries = qkv, keys = operands.keys != nullptr ? slices : qkv;
  const std::span<const float> outputs = out, gradients = dout, log_sums = sums;
  const std::span<float> dqueries = dqkv;
  const bool apart = operands.keys_gradient != nullptr;
  const std::span<float> dkeys = apart ? dslices : dqkv;
  SIM_CHECK(apart || shape.count == 1, shape.count);
  array(dqueries).setZero();
  if (apart) array(dkeys).setZero();
  const Slices over{shape, operands.keys != nullptr}, to{shape, apart};
  const flash::Scores how = over.scores();
  flash::Backward backward{how};
  std::vector<ContextHead> targets;
  to.for_each_head([&](const ContextHead& head) { targets.push_back(head); });
  over.for_each_head([&](const ContextHead& head) {
    const ContextHead& target = targets[static_cast<std::size_t>(head.index)];
    over.for_each_query_block(head.batch, [&](std::int64_t row, std::int64_t first,
                                              std::int64_t count) {
      const flash::Backward::Queries block{
          .query = head.query.of(queries, row, count),
          .output = head.out.of(outputs, row, count),
          .gradient = head.out.of(gradients, row, count),
          .log_sums = part_of(log_sums, over.sums_at(head, row), count),
          .first = first,
          .head = head.global};
      over.for_each_key_block(
          head.batch, first + count, [&](std::int64_t at, std::int64_t key, std::int64_t size) {
            backward.pair(block, head.key.of(keys, at, size), head.value.of(keys, at, size), key,
                          {.query = head.query.of(dqueries, row, count),
                           .key = target.key.of(dkeys, at, size),
                           .value = target.value.of(dkeys, at, size)});
          });
    });
  });
}

// out = (out e^a + part e^b) / (e^a + e^b) with a and b the log-sum-exps, of each head and token.
void merge_outputs(const SliceShape& shape, const kernels::MergedOutputs& operands, StreamHandle) {
  const In part{shape.heads.dtype, operands.part, shape.outputs()};
  const In part_sums{sim::DType::fp32, operands.part_sums, shape.log_sums()};
  const Out output{shape.heads.dtype, operands.output, shape.outputs()};
  const Out sums{sim::DType::fp32, operands.log_sum_exp, shape.log_sums()};
  const std::span<const float> added = part, added_sums = part_sums;
  const std::span<float> to = output, to_sums = sums;
  const std::int64_t tokens = shape.heads.sequence;
  Eigen::ArrayXf both;
  Slices{shape, false}.for_each_head([&](const ContextHead& head) {
    auto own = part_of(to_sums, head.index * tokens, tokens);
    const auto other = part_of(added_sums, head.index * tokens, tokens);
    const auto larger = own.max(other).eval();
    both = larger + ((own - larger).exp() + (other - larger).exp()).log();
    flash::Panel rows = head.out.of(to, head.batch * tokens, tokens);
    rows = (rows.array().colwise() * (own - both).exp()).eval() +
           head.out.of(added, head.batch * tokens, tokens).array().colwise() * (other - both).exp();
    own = both;
  });
}

void merge_gradients(const SliceShape& shape, const kernels::MergedGradients& operands,
                     StreamHandle) {
  const kernels::HeadsShape& heads = shape.heads;
  const std::int64_t queries = heads.heads * heads.head_dim, keys = heads.row() - queries;
  const In part{heads.dtype, operands.part, heads.tokens * heads.row()};
  const Out result{heads.dtype, operands.qkv_gradient, heads.tokens * heads.row()};
  const Out slice{heads.dtype, operands.keys_gradient, heads.tokens * keys};
  const auto from = matrix(std::span<const float>{part}, heads.tokens, heads.row());
  auto to = matrix(std::span<float>{result}, heads.tokens, heads.row());
  auto gradient = matrix(std::span<float>{slice}, heads.tokens, keys);
  if (operands.turn == MergeTurn::first) {
    to = from;
    gradient = from.rightCols(keys);
    return;
  }
  to.leftCols(queries) += from.leftCols(queries);
  gradient += from.rightCols(keys);
  if (operands.turn == MergeTurn::last) to.rightCols(keys) = gradient;
}

namespace {

// visit(row of the message, row of the tensor, first column there)
template <class Visit>
void for_each_row(const HeadExchange& shape, Visit visit) {
  const std::int64_t tokens = shape.sequences * shape.held;
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    const kernels::ContextShare share{shape.ranks, rank};
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t message = rank * tokens + t;
      if (!shape.all_tokens) {
        visit(message, t, shape.first + rank * shape.width);
        continue;
      }
      const std::int64_t sequence = t / shape.held;
      visit(message,
            sequence * shape.held * shape.ranks + share.position(t % shape.held, shape.held),
            shape.first);
    }
  }
}

}  // namespace

void order_by_rank(const HeadExchange& shape, const void* tensor, void* message, StreamHandle) {
  const In from{shape.dtype, tensor, shape.tensor()};
  const Out to{shape.dtype, message, shape.message()};
  const std::span<const float> rows = from;
  const std::span<float> parts = to;
  for_each_row(shape, [&](std::int64_t at, std::int64_t row, std::int64_t column) {
    part_of(parts, at * shape.width, shape.width) =
        part_of(rows, row * shape.row + column, shape.width);
  });
}

void order_by_token(const HeadExchange& shape, const void* message, void* tensor, StreamHandle) {
  const In from{shape.dtype, message, shape.message()};
  const Out to{shape.dtype, tensor, shape.tensor()};
  const std::span<const float> parts = from;
  const std::span<float> rows = to;
  for_each_row(shape, [&](std::int64_t at, std::int64_t row, std::int64_t column) {
    part_of(rows, row * shape.row + column, shape.width) =
        part_of(parts, at * shape.width, shape.width);
  });
}

const kernels::ContextTable& host_context() {
#define STEPCAST_KERNEL(name) .name = host::name,
  static constexpr kernels::ContextTable table{STEPCAST_CONTEXT_KERNELS(STEPCAST_KERNEL)};
#undef STEPCAST_KERNEL
  return table;
}

}  // namespace real::host
