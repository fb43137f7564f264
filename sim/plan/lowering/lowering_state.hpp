// What the lowering of a stage (stage_lowering.hpp) knows of its tensors, operators, blocks,
// parameters and messages.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/plan/sharding/micro_pipeline.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/plan/sharding/user_buffers.hpp"
#include "sim/program/program.hpp"

namespace sim::lowering {

inline constexpr std::uint32_t none = UINT32_MAX;  // no buffer, operator, kernel or bucket

// A tensor on its way through the chain of operators: one holder of its buffer. Who keeps it
// besides (a saved input, the residual sum, a checkpoint) holds it too; the last to let go of it
// frees it.
struct Value {
  BufferId buffer{none};
  Bytes bytes{};
  OpId ready{none};  // the operator that finishes it
  bool exists() const { return buffer.value != none; }
};

// What an operator of a block keeps between its forward and backward pass.
struct Saved {
  BufferId input{none};    // its input, kept instead of freed
  BufferId extra{none};    // what it keeps besides
  BufferId core{none};     // what selective recomputation has run again
  BufferId output{none};   // its output, where the backward pass reads it
  Value held{};            // its output, where it does not run again
  BufferId weights{none};  // of choices, where an expert's activation multiplies by them
  BufferId keys{none};     // the slice that came last, where attention goes round a ring
  BufferId target_logit{none}, exponential_sum{none};  // of the loss
  // Until the split-off weight gradient: of its output, and of the tokens that this rank adds the
  // bias to, where those are fewer.
  BufferId gradient{none}, bias_gradient{none};
};

// Of attention over context-parallel ranks.
struct ContextWork {
  std::uint32_t exchange_name = none, scatter_name = 0, slice_name = 0, merge_name = 0;
  std::uint32_t shift = none, shift_both = none;  // a slice or its gradient; both
  std::uint32_t shift_gradient = none;            // PyTorch: in fp32
  std::uint32_t attend = none, attend_backward = none;
  std::uint32_t merge = none, first_merge = none, begin_gradients = none, add_gradients = none;
  std::uint32_t gather = none, scatter = none;
  // All-to-all.
  struct Heads {
    std::uint32_t order = none, exchange = none;
    Bytes bytes{};
  };
  std::uint32_t order_name = 0;
  std::array<Heads, 3> heads{};  // queries (or output), keys, values
  bool exists() const { return exchange_name != none; }
};

// Of routers, and of the exchange of tokens.
struct ExpertWork {
  std::uint32_t choose_name = 0, choose = none, choose_backward = none;
  std::uint32_t move_name = 0, permute = none, unpermute = none, sort = none;
  std::uint32_t exchange_name = 0, exchange = none, exchange_weights = none;
  std::uint32_t gather_name = 0, scatter_name = 0, gather = none, scatter = none;
  std::uint32_t gather_weights = none, scatter_weights = none;
};

// Interned work of an operator of a distinct block.
struct OpWork {
  std::uint32_t name = 0, gradient_name = 0, weight_name = 0, bias_name = 0, encode_name = 0;
  std::uint32_t gather_name = 0, sum_name = 0;
  std::uint32_t forward = none, backward = none;
  std::uint32_t encode_input = none, encode_saved = none, encode_gradient = none;
  std::uint32_t encode_weight = none, encode_saved_weight = none;
  // Linears: the products of a pass, in turn. Others that run again: one kernel.
  std::vector<std::uint32_t> products, products_again, input_gradients, weight_gradients;
  std::uint32_t sum_products = none, rescale_input_gradient = none, rescale_weight_gradient = none;
  std::uint32_t reorder_name = 0, reorder_input = none, reorder_output = none;
  std::uint32_t gather_input = none;     // all-gather of the input (column)
  std::uint32_t sum_gradient = none;     // reduction of the input gradient (column)
  std::uint32_t sum_output = none;       // reduction of the output (row, embedding)
  std::uint32_t gather_gradient = none;  // all-gather of the output gradient (row, embedding)
  std::uint32_t loss_maximum = none, loss_sum = none;  // vocabulary-parallel loss
  std::uint32_t gather_output = none, join_output = none, own_output = none;
  std::uint32_t spread_gradient = none, scatter_gradient = none;
  std::uint32_t add_products = none;
  UserBufferWork buffers;
  SlicedWork sliced_forward, sliced_again, sliced_gradient;
  std::uint32_t transpose_gradient = none;
  ContextWork context;
  ExpertWork experts;
  // A residual sum of the block reads the input of this operator; whose add_gradient, if any,
  // stands behind its backward pass.
  bool begins_branch = false;
  bool lends_input = false;         // to the first operator of another branch
  bool begins_mlp = false;          // the first linear behind a residual sum of the block
  std::uint32_t branch_sum = none;  // index in the block
  std::uint32_t add_gradient = none, add_gradient_name = 0;
};
struct BlockWork {
  bool interned = false;
  std::vector<OpWork> ops;
};

// A block of this stage.
struct StageBlock {
  std::uint32_t shape = 0;  // index into ShardedModel::blocks
  std::int16_t layer = -1;
  int chunk = 0;                             // of this rank
  std::uint32_t first_op = 0;                // of all operators of the stage
  std::uint32_t first_saved = 0;             // in the saved states of a micro-batch of its chunk
  bool checkpoint = false;                   // only its input is kept
  bool is_first = false, is_output = false;  // of the model
};
struct Chunk {
  std::uint32_t first_block = 0, blocks = 0;
  std::uint32_t saved = 0;       // operators: saved states of a micro-batch
  std::uint32_t saved_base = 0;  // of micro-batch 0 in saved_
  int last_backward = -1;        // index of the slot that completes its gradients
  int first_gradients = 0;       // the micro-batch that has gradients first
  std::int16_t global = 0;
};

// Where parameters lie.
struct Place {
  std::int64_t elements = 0;
  std::uint32_t bucket = none;
  std::int64_t first = 0;
  int bytes_each = 0;  // as stored
};

// A micro-batch's gradient as autograd gives it, before it is added to that of the step.
struct ApartGradient {
  std::size_t op = 0;  // of the block
  Place place;
  BufferId own{none};
};

// Parameters of an operator of the stage: its own, and the table that a tied head shares.
struct Parameters {
  Place own, table;
  std::uint32_t same_as = none;     // the operator of the stage that holds the table; none: a copy
  bool shared_over_stages = false;  // a table that the first and the last stage hold
  BufferId encoded{none};  // 8-bit copy, unless stored so, and its transpose, made once per step
  std::int64_t encoded_bytes = 0;
  const Place& matrix() const { return table.elements > 0 ? table : own; }
};

// Gradients that are reduced together: a bucket, or under ZeRO-3 a block.
struct Bucket {
  int chunk = 0;
  bool of_experts = false;
  int copies = 1, shards = 1;  // ranks with these parameters; those that share one copy
  std::uint32_t writers = 0;   // operators that write gradients into it, once per micro-batch each
  std::uint32_t pending = 0;   // of them, not yet ready in this backward pass
  std::int64_t elements = 0, padded = 0;
  std::int64_t weight_bytes = 0;    // of all elements, padded
  BufferId gradient{none};          // whole; ZeRO-2/3: alive until reduced
  BufferId gradient_shard{none};    // ZeRO-2/3
  BufferId weight{none};            // whole; ZeRO-3: while gathered
  BufferId weight_shard{none};      // ZeRO-3: what this rank owns of them
  BufferId optimizer{none};         // master weights and moments, or their shard
  bool holds_shared_table = false;  // and nothing else
  bool gathered = false;
  bool copied = false;  // out of the buffer of the gather
  bool keep_gathered = false;
  bool ready = false;  // ZeRO-0/1: all its gradients are there
  OpId weight_ready{none};
  std::uint32_t gather = none, reduce = none, replicate = none;      // collectives
  std::uint32_t copy = none;                                         // Execution::copies_weights
  std::uint32_t cast_out = none, cast_in = none, accumulate = none;  // kernels
  std::uint32_t cast_shard = none;                // to the wire, of the accumulated shard
  std::uint32_t first_block = 0, last_block = 0;  // of the stage, inclusive
};

struct OpenBucket {  // while parameters are put into it
  Bucket bucket;
  std::int64_t limit = 0;  // bytes of gradients at which it closes
  std::vector<Place*> places;
};

struct Frame {  // a micro-batch in a block
  const StageBlock* block = nullptr;
  const ShardedBlock* shape = nullptr;
  const BlockWork* work = nullptr;
  Saved* saved = nullptr;
  OpLabel label{};
  Pass pass = Pass::forward;
  bool keep = true;
  BufferId kept{none};  // outputs that need not be computed again
  std::size_t end = std::numeric_limits<std::size_t>::max();  // no operator from here on runs
};

struct Boundary {        // the tensor between two chunks
  Bytes message{};       // what a rank sends
  Bytes tensor{};        // what the receiver needs
  bool gathers = false;  // the receiver's tensor group puts it together
};

}  // namespace sim::lowering
