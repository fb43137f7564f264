// One rank's operators in issue order: the contract between planner, simulator and real engine.
//
// Invariants of a built Program:
//  1. Arrays `kind .. label` have one entry per operator, in the order the host issues them.
//  2. Operators of one stream run in issue order. `dependencies(op)` names earlier operators of
//     other streams that must have finished; edges that a stream implies are not stored.
//  3. `work` indexes `kernels`, `collectives` or `transfers`, as `kind` says. Equal work is stored
//     once, so a table of costs has one row per distinct kernel, not per operator.
//  4. A buffer is allocated when the first operator that writes it is issued and freed after the
//     operator that frees it; persistent buffers live from before the first operator to the end. A
//     later `write` updates in place; `free` is the last read. A write after that begins a new
//     life: gathered weights and whole gradients of a bucket keep their buffer's number.
//  5. Two uses of a life of which one writes are ordered by a stream or by dependencies, but for
//     those of different parts.
//  6. Of the roles, an operator has those that stand behind its Action, in one buffer each.
//  7. What the host waits for comes before all that it issues behind, by streams or dependencies.
//
// Streams: kernels run on `compute`; the casts and sums that belong to a gradient reduction run on
// `data_comm` beside it. sim/plan/README.md says which operators a layout becomes, and why.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/attention_kernel.hpp"
#include "sim/base/dtype.hpp"
#include "sim/base/ids.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/plan/scratch.hpp"

namespace sim {

enum class OpKind : std::uint8_t {
  gemm,
  attention,
  norm,
  elementwise,
  embedding,
  cross_entropy,
  generic,
  optimizer,
  encode,
  decode,
  collective,
  send,
  recv,
  host_copy,
  barrier,
};
constexpr auto words_of(OpKind) {
  return std::array{Word{OpKind::gemm, "gemm"},
                    Word{OpKind::attention, "attention"},
                    Word{OpKind::norm, "norm"},
                    Word{OpKind::elementwise, "elementwise"},
                    Word{OpKind::embedding, "embedding"},
                    Word{OpKind::cross_entropy, "cross_entropy"},
                    Word{OpKind::generic, "generic"},
                    Word{OpKind::optimizer, "optimizer"},
                    Word{OpKind::encode, "encode"},
                    Word{OpKind::decode, "decode"},
                    Word{OpKind::collective, "collective"},
                    Word{OpKind::send, "send"},
                    Word{OpKind::recv, "recv"},
                    Word{OpKind::host_copy, "host_copy"},
                    Word{OpKind::barrier, "barrier"}};
}
constexpr bool runs_kernel(OpKind kind) {
  return kind <= OpKind::decode;
}

// In-order lanes of a rank. Sends and receives have a lane per direction of the pipeline: with one
// lane for both, a rank waiting to receive a gradient could block the activation behind it.
enum class Stream : std::uint8_t {
  compute,
  tensor_comm,
  data_comm,
  context_comm,
  forward_send,
  forward_recv,
  backward_send,
  backward_recv,
  host_copy,
};
constexpr auto words_of(Stream) {
  return std::array{Word{Stream::compute, "compute"},
                    Word{Stream::tensor_comm, "tensor_comm"},
                    Word{Stream::data_comm, "data_comm"},
                    Word{Stream::context_comm, "context_comm"},
                    Word{Stream::forward_send, "forward_send"},
                    Word{Stream::forward_recv, "forward_recv"},
                    Word{Stream::backward_send, "backward_send"},
                    Word{Stream::backward_recv, "backward_recv"},
                    Word{Stream::host_copy, "host_copy"}};
}
inline constexpr int stream_count = 9;

enum class Pass : std::uint8_t {
  forward,
  recompute,
  backward,         // gradients of inputs, and of weights too unless they are split off
  weight_backward,  // gradients of weights, where the schedule separates them (ZB-H1)
  gradient_sync,
  parameter_sync,
  optimizer,
};
constexpr auto words_of(Pass) {
  return std::array{Word{Pass::forward, "forward"},
                    Word{Pass::recompute, "recompute"},
                    Word{Pass::backward, "backward"},
                    Word{Pass::weight_backward, "weight_backward"},
                    Word{Pass::gradient_sync, "gradient_sync"},
                    Word{Pass::parameter_sync, "parameter_sync"},
                    Word{Pass::optimizer, "optimizer"}};
}

enum class AttentionPart : std::uint8_t { forward, backward };

// A kernel by shape: all that its cost may depend on, besides the device.
//  gemm:      C[m,n] (+)= A[m,k] B[k,n], `batch` times; flops = 2 m n k batch. A linear layer is
//             m = tokens, n = out, k = in forward; m = tokens, n = in, k = out for the gradient of
//             its input; m = out, n = in, k = tokens for that of its weights, where `bytes` counts
//             the result twice: it is added to what is there
//  attention: batch sequences, `m` query tokens, `n` key tokens, `k` head dimension, heads
//  otherwise: memory-bound, `bytes` read + written (generic: max of flops and bytes)
struct Kernel {
  OpKind kind = OpKind::elementwise;
  DType dtype = DType::bf16;
  // Of attention, of norms, and of products in 8 bits: backward ones give gradients.
  AttentionPart part = AttentionPart::forward;
  bool causal = false;
  AttentionKernel attention = AttentionKernel::flash;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t values = 0;  // attention: width of a head's values and output; 0: k
  Flops flops{};            // executed floating-point operations
  Bytes bytes{};            // device memory read + written at least
  Bytes beside{};      // those of them that element-wise kernels around a softmax or a norm move
  Bytes strided{};     // those that kernels move which read a broadcast or a strided tensor
  int launches = 1;    // kernels the host issues for it (an unfused attention is several)
  int spared_sms = 0;  // gemm: SMs that it leaves to others
  int abreast = 1;     // gemm: kernels like it that run at a time, each on a stream of its own
  bool operator==(const Kernel&) const = default;
};

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  ring_shift,  // every member sends `bytes` to the next one
  barrier,
};
constexpr auto words_of(CollectiveKind) {
  return std::array{Word{CollectiveKind::all_reduce, "all_reduce"},
                    Word{CollectiveKind::reduce_scatter, "reduce_scatter"},
                    Word{CollectiveKind::all_gather, "all_gather"},
                    Word{CollectiveKind::broadcast, "broadcast"},
                    Word{CollectiveKind::reduce, "reduce"},
                    Word{CollectiveKind::all_to_all, "all_to_all"},
                    Word{CollectiveKind::ring_shift, "ring_shift"},
                    Word{CollectiveKind::barrier, "barrier"}};
}

// The communicators of a rank, by role. A Program names roles; the Plan maps (rank, role) to the
// group, so that equal ranks share one Program.
enum class GroupRole : std::uint8_t {
  tensor,
  context,         // ranks that share the tokens of a sequence
  data,            // all ranks with the same parameters: data-parallel x context-parallel
  shard,           // hybrid sharding: ranks that hold the shards of one copy
  replicate,       // hybrid sharding: ranks that hold the same shard
  tied_embedding,  // first and last stage, when they share the embedding table
  world,
  maxima,         // all ranks of a stage: share the scales of 8-bit tensors
  expert,         // ranks that share the experts of a layer
  expert_tensor,  // ranks that share the features of each expert
  expert_data,    // ranks with the same experts
};
constexpr auto words_of(GroupRole) {
  return std::array{Word{GroupRole::tensor, "tensor"},
                    Word{GroupRole::context, "context"},
                    Word{GroupRole::data, "data"},
                    Word{GroupRole::shard, "shard"},
                    Word{GroupRole::replicate, "replicate"},
                    Word{GroupRole::tied_embedding, "tied_embedding"},
                    Word{GroupRole::world, "world"},
                    Word{GroupRole::maxima, "maxima"},
                    Word{GroupRole::expert, "expert"},
                    Word{GroupRole::expert_tensor, "expert_tensor"},
                    Word{GroupRole::expert_data, "expert_data"}};
}
inline constexpr int group_role_count = 11;
// Communication inside layers, of activations.
constexpr bool is_within_layers(GroupRole role) {
  return role == GroupRole::tensor || role == GroupRole::context || role == GroupRole::expert ||
         role == GroupRole::expert_tensor;
}

// Who moves the bytes: NCCL's kernels; or, between buffers that the ranks of a node have registered
// with each other (Transformer Engine's user buffers), copy engines or kernels of so many blocks.
enum class Carrier : std::uint8_t { nccl, copy_engines, user_buffers };

// `bytes` is the full buffer (NCCL's S): of an all-gather the gathered result, of a reduce-scatter
// the input, of a broadcast the message.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  GroupRole group = GroupRole::tensor;
  DType dtype = DType::bf16;
  Bytes bytes{};
  Carrier carrier = Carrier::nccl;
  int blocks = 0;  // of Carrier::user_buffers
  bool operator==(const Collective&) const = default;
};

// One side of a message between neighbouring pipeline ranks, matched in order per direction.
enum class Peer : std::uint8_t { next_stage, previous_stage };
struct Transfer {
  Peer peer = Peer::next_stage;
  DType dtype = DType::bf16;
  Bytes bytes{};
  bool operator==(const Transfer&) const = default;
};

// What an operator does, for an engine that executes it: `kind` and its work say what it costs. The
// operands by role (Role) stand behind each; [x]: where the layout or the model has it. A site with
// parameters has `weight` too. In place: a collective with an output and no input works on the
// output; a kernel likewise. Details by function:
//  rotary, q/k norms  in place on the whole [q|k|v]: forward has `output` alone (norms write the
//  raw
//                     queries and keys to `saved`); backward: `gradient` and `input_gradient` are
//                     one buffer, [dq|dk|dv]
//  activation of      the weight of a copy's choice multiplies its output: choice_weights, which
//  are routed experts     in the order in which the copies came; backward: choice_gradient too
//  attention          `saved`: fp32 log-sum-exp [tokens, heads], of an unfused kernel the
//                     probabilities; absent where nothing is kept (first pass of recomputation)
//  add_residual       no backward operator: the gradient passes on, and the backward pass of
//                     `residual_of` adds it. If that is a linear, a `backward` operator of the
//                     sum's own site adds it behind: `gradient` and `input_gradient` are one buffer
//  lookup, add_table  backward: gradient, weight_gradient; add_table passes the gradient on
//  cross_entropy      one operator: forward has input, saved, target_logit, exponential_sum.
//                     backward: saved, target_logit, exponential_sum, input_gradient. Where logits
//                     are fp32, the exponentials take their place: `saved` is their buffer, and
//                     input is absent. Where logits are kept, backward has them as input, and saved
//                     may be absent. target_logit is less the maximum. Columns that pad the
//                     vocabulary are no classes
enum class Action : std::uint8_t {
  // Of a model operator (its site):
  forward,            // [input], [residual], [output], [saved], [choice_weights]; attention run
                      // again: input, saved
  backward,           // [input], [saved], [saved_output], [gradient], [residual_gradient],
                      // [input_gradient], [weight_gradient], [choice_weights], [choice_gradient]
  input_gradient,     // linear: gradient, input_gradient
  weight_gradient,    // linear: input (or saved: of one token per sequence, or kept in 8 bits),
                      // gradient, weight_gradient
  bias_gradient,      // linear: gradient, weight_gradient
  encode,             // operand of an 8-bit product: input (or saved), gradient or weight; or its
                      // copy into a user buffer: [output]
  loss_maximum,       // vocabulary-parallel loss: input (logits), maximum
  loss_exponentials,  // [input], maximum, [saved] (exponentials), target_logit, exponential_sum
  gather_input,       // all-gather over tokens: input (or saved, in 8 bits), output
  sum_output,         // all-reduce in place, or reduce-scatter: input, output
  sum_gradient,       // the same of an input gradient: input, output
  gather_gradient,    // all-gather over tokens: input, output
  reorder_tokens,  // by rank or by sequence, before or behind such a collective, in place: output
  sum_products,    // input gradients of products that are one linear here, in place: output
  reduce_maximum,  // all-reduce in place (maximum): output
  reduce_sum,      // all-reduce in place (sum): output
  // Of attention over the context-parallel ranks. A slice is the keys and values of one rank, its
  // gradient that of both. Ring: step 0 is `forward`, on the rank's own slice; backward, steps go
  // against the ring from the slice received last to the rank's own, without a `backward`.
  shift_keys,     // ring shift of a slice. input: a slice ([q|k|v]: its k and v), output: the one
                  // of the rank before
  attend,         // queries of input on a slice. input: [q|k|v], keys, output: a part with its fp32
                  // log-sum-exp behind it
  merge_outputs,  // input: a part; updated: output and saved, its log-sum-exp
  attend_backward,  // input, keys, saved_output, saved, gradient, output: a part of [dq|dk|dv]
  merge_gradients,  // input: a part; input_gradient: dq updated, by the last step dk and dv too;
                    // keys_gradient: of the slice, added to or, by the first step, begun
  shift_gradients,  // ring shift of the slice's gradient, and of the slice while it is needed:
                    // [input], keys_gradient, [output], input_gradient: the one that comes
  gather_keys,      // all-gather: input: [q|k|v], its k and v; output: those of all ranks, which
                    // `forward` and `backward` then have as keys
  scatter_keys_gradient,  // reduce-scatter: keys_gradient: of all ranks, as `backward` has written
                          // it; output: [dq|dk|dv], its dk and dv
  // All-to-all: before, a rank has its tokens of all heads, behind, all tokens of its share of
  // them,
  // or back. Of [q|k|v] and its gradient each third goes by itself, of the attention's output all.
  order_for_exchange,     // input: a tensor; output: of one third, rank after rank
  exchange_heads,         // all-to-all: input, output
  order_behind_exchange,  // input: rank after rank; output: the tensor, of which a third is written
  // Of a linear that is cut into parts (Layout::overlap_tensor_products). Slices of tokens go round
  // the tensor group, or blocks of output features are summed one by one:
  exchange_part,  // ring shift of a slice: input: the one before, output: of the gathered tensor
  multiply_part,  // a part of `forward`: input, output
  gradient_part,  // a part of input_gradient: gradient, input_gradient
  scatter_part,   // reduce-scatter of a block of features: input, output
  // The same where the slices lie in symmetric memory (micro_pipeline.hpp):
  place_slice,  // input or gradient: of the rank's own tokens; workspace: there; output: the slice
                // that it is of the gathered tensor
  pull_slice,   // ring shift. input: what a partner placed or made there, output: the slice that it
                // is of the gathered tensor, or of those to sum
  sum_slices,   // input, output
  // Of routed experts:
  choose,           // input: a token's scores of all experts; saved: its experts and their weights;
                    // choice_weights: those as the copies of the tokens are sent, in fp32
  choose_backward,  // saved, choice_gradient, input_gradient: of the scores
  move_tokens,      // input; output: one copy for each choice, or their sum; of the former in the
                    // forward pass: saved, the rows of the copies
  sort_tokens,      // input; output: the same by expert, or back in the order in which they came
  exchange_tokens,  // collective between ranks that share experts, or one; also of the weights of
                    // choices and their gradients: input, output
  // Of frameworks other than Megatron-LM (sim/model/model.hpp, Execution):
  gather_logits,         // all-gather: input: the classes of a rank, output: rank after rank
  join_logits,           // input: what was gathered, output: token after token
  own_logits,            // input: gradient of all classes, output: of those of the rank
  add_product_gradient,  // input: of a further product, input_gradient: added to
  add_weight_gradient,   // input: of a micro-batch, weight_gradient: added to
  // Between stages:
  send,             // input; without sequence parallelism the tensor rank's part of it
  receive,          // output
  gather_received,  // all-gather of the parts: input, output
  // Of a pass of a model chunk in 8 bits with delayed scaling:
  collect_maxima,  // of the pass's tensors: output
  share_maxima,    // all-reduce in place: output
  update_scales,   // input
  // Of a parameter bucket:
  gather_weights,     // [input: the shard], output: the whole; in place: from the own slice of it
  copy_weights,       // gathered ones out of the gather's buffer, in place: output
  prepare_gradients,  // read, or scaled in place, before they are reduced: output
  cast_out,           // input: gradients, output: message in the format of the wire
  reduce,             // average, of scaled ones the sum: input, output; in place: all of it, or
                      // into the own slice
  replicate,   // hybrid sharding, average over copies, in place: output (the own slice of it)
  accumulate,  // output += input
  cast_in,     // input: message, output: gradients (own slice) in their format
  // Of the stage, over all its parameter buckets; state: the buffers that it reads or writes
  zero_gradients,
  sum_tensor_gradients,  // all-reduce of Site::summed of all sites, packed into output; of a rank
                         // that holds a shard, what lies in the shard, at the start of output
  sum_tied_gradient,     // all-reduce in place, of the table's bucket (its subject): output
  gradient_norm,         // sum of squares of the owned gradients
  sum_gradient_norm,     // all-reduce of 4 bytes over the world
  adam,
};

// What a buffer is to the operator that uses it.
enum class Role : std::uint8_t {
  input,
  residual,  // second term of a residual sum
  output,
  saved,         // what the forward pass keeps besides its input
  saved_output,  // the output, where the backward pass reads it (attention, ReLU)
  weight,        // the bucket that holds the site's parameters
  encoded_weight,
  gradient,           // of the output
  residual_gradient,  // added to the input gradient: what went past the branch
  input_gradient,
  weight_gradient,  // the bucket that holds the gradients of the site's parameters
  maximum,          // fp32 per token, of the loss, as the next two
  target_logit,
  exponential_sum,
  keys,             // keys and values of other context-parallel ranks
  keys_gradient,    // their gradient
  choice_weights,   // fp32, of each copy of a token that goes to an expert
  choice_gradient,  // their gradient
  state,            // weights, gradients, optimizer state of a whole stage
  workspace,        // taken and freed by the operator itself
};
inline constexpr int role_count = 20;

struct OpLabel {                 // for reports only: never read by the engine
  std::uint32_t name = 0;        // index into Program::names
  std::int16_t layer = -1;       // of the model, -1: none
  std::int16_t chunk = -1;       // model chunk, 0 .. chunks - 1 over all stages
  std::int32_t microbatch = -1;  // -1: none
};

enum class BufferCategory : std::uint8_t {
  weights,
  gradients,
  optimizer,
  activations,
  gathered_parameters,
  communication,
};
constexpr auto words_of(BufferCategory) {
  return std::array{Word{BufferCategory::weights, "weights"},
                    Word{BufferCategory::gradients, "gradients"},
                    Word{BufferCategory::optimizer, "optimizer"},
                    Word{BufferCategory::activations, "activations"},
                    Word{BufferCategory::gathered_parameters, "gathered_parameters"},
                    Word{BufferCategory::communication, "communication"}};
}
inline constexpr int buffer_category_count = 6;

struct Buffer {
  Bytes size{};
  BufferCategory category = BufferCategory::activations;
  bool persistent = false;
  int tensors = 1;  // equal ones, that a framework has in its place
};

// How a framework holds memory: for the replay of its allocator (caching_allocator.hpp).
struct Allocation {
  bool expandable = false;          // segments that grow (expandable_segments:True)
  bool copies_gathered = false;     // FSDP2 (gathered_units.hpp)
  bool flat_parameters = false;     // the first FSDP (flat_units.hpp)
  bool separate_gradients = false;  // each parameter's made by its first backward pass
  int held_logits = 0;              // Execution::held_logits
  int loss_metrics = 0;             // Execution::loss_metrics
  bool master_weights = true;
  // Of the state of Adam: without the masters, which are there from the start.
  Bytes moments_of(Bytes state) const {
    return master_weights ? Bytes{state.count() / 3 * 2} : state;
  }
};

enum class Access : std::uint8_t { read, write, free };
struct BufferUse {
  BufferId buffer;
  Access access = Access::read;
  Role role = Role::state;
  // Of a tensor that comes or goes in parts, one of them; else all of it. Uses of different parts
  // need no order.
  static constexpr std::int16_t whole = -1;
  std::int16_t part = whole;
};

// A model operator on this stage and where its parameters lie: weights [out, in] or table rows,
// then biases (norms: scale, shift), contiguous in a bucket.
enum class BlockPlace : std::uint8_t { input, layer, output };
struct Site {
  BlockPlace place = BlockPlace::layer;
  std::int16_t layer = -1;            // of the model
  std::int16_t op = 0;                // index into Block::ops
  std::uint32_t bucket = UINT32_MAX;  // of the parameters; a tied head: that of the table
  std::int64_t first = 0;             // element of the bucket where they begin
  std::int64_t elements = 0;          // a tied head: those of the table
  // Those whose gradient each tensor rank has only in part, summed once per step.
  std::int64_t summed_first = 0, summed = 0;
  bool tied = false;  // shares the table of another operator, on this stage or the first one
};

// Parameters that are reduced and gathered together: flat, padded to a multiple of the ranks that
// share it. A rank owns elements [i * padded / shards, (i + 1) * padded / shards), i its index in
// the shard group; with one shard, all. Nothing writes the padding of a gradient: what reads owned
// elements one by one (norm, Adam) leaves it out.
struct ParameterBucket {
  std::int64_t elements = 0;
  std::int64_t padded = 0;
  int shards = 1;                     // ranks that share them; of experts fewer than of others
  bool of_experts = false;            // those that have them are GroupRole::expert_data, else data
  BufferId weight{UINT32_MAX};        // padded elements; ZeRO-3: while gathered
  BufferId weight_shard{UINT32_MAX};  // ZeRO-3
  // ZeRO-0/1: padded elements, persistent. ZeRO-2/3: named by the operators that use it
  BufferId gradient{UINT32_MAX};
  BufferId gradient_shard{UINT32_MAX};  // ZeRO-2/3
  BufferId optimizer{UINT32_MAX};  // fp32 of the owned elements: [master,] m, v, each contiguous
};

// The host issues nothing from `before` on until `until` has finished (cudaEventSynchronize).
struct HostWait {
  OpId before;
  OpId until;
  bool operator==(const HostWait&) const = default;
};

class Program {
 public:
  static constexpr std::uint32_t no_subject = UINT32_MAX;

  std::size_t size() const { return kind.size(); }
  std::span<const OpId> dependencies(OpId op) const {
    return slice(dependency, first_dependency, op);
  }
  std::span<const BufferUse> buffer_uses(OpId op) const {
    return slice(buffer_use, first_buffer_use, op);
  }
  const std::string& name(OpId op) const { return names[label[op.value].name]; }

  std::vector<OpKind> kind;
  std::vector<Stream> stream;
  std::vector<Pass> pass;
  std::vector<std::uint32_t> work;
  std::vector<Action> action;
  std::vector<std::uint32_t> subject;  // index into `sites` or `parameter_buckets`, or no_subject
  std::vector<OpLabel> label;
  std::vector<std::uint32_t> first_dependency;  // size() + 1 offsets
  std::vector<OpId> dependency;
  std::vector<std::uint32_t> first_buffer_use;  // size() + 1 offsets
  std::vector<BufferUse> buffer_use;
  std::vector<HostWait> host_waits;  // in issue order; several may stand before one operator

  std::vector<Kernel> kernels;
  std::vector<Collective> collectives;
  std::vector<Transfer> transfers;
  std::vector<Buffer> buffers;
  std::vector<std::string> names;
  std::vector<Site> sites;  // every operator of the stage's blocks, in forward order
  std::vector<ParameterBucket> parameter_buckets;
  // What operators take on their way, in issue order; equal ones stored once.
  std::vector<Scratch> scratches;
  std::vector<std::pair<OpId, std::uint32_t>> scratch_of_op;
  Allocation allocation;
  int stage = 0;  // pipeline rank this program belongs to

 private:
  template <class T>
  static std::span<const T> slice(const std::vector<T>& items,
                                  const std::vector<std::uint32_t>& first, OpId op) {
    return std::span{items}.subspan(first[op.value], first[op.value + 1] - first[op.value]);
  }
};

}  // namespace sim
