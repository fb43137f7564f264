// The words of a program: kinds of operators, streams, passes, what an operator does and what its
// operands are to it (action_table.hpp: which operands each action has).
#pragma once

#include <array>
#include <cstdint>

#include "sim/base/words.hpp"

namespace sim {

enum class OpKind : std::uint8_t {
  gemm,
  attention,
  norm,
  elementwise,
  embedding,
  cross_entropy,
  generic,
  scan,  // carries a state along a sequence
  optimizer,
  encode,
  decode,
  collective,
  send,
  recv,
  host_copy,    // a kernel of a copy engine: to the host's memory, or from it
  host_update,  // of the optimizer, on the host
  // With parameter servers: what a worker waits for is simulated apart (sim/servers).
  server_exchange,
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
                    Word{OpKind::scan, "scan"},
                    Word{OpKind::optimizer, "optimizer"},
                    Word{OpKind::encode, "encode"},
                    Word{OpKind::decode, "decode"},
                    Word{OpKind::collective, "collective"},
                    Word{OpKind::send, "send"},
                    Word{OpKind::recv, "recv"},
                    Word{OpKind::host_copy, "host_copy"},
                    Word{OpKind::host_update, "host_update"},
                    Word{OpKind::server_exchange, "server_exchange"},
                    Word{OpKind::barrier, "barrier"}};
}
// Whether a kernel runs on the host, or between its memory and the device's.
constexpr bool is_of_host(OpKind kind) {
  return kind == OpKind::host_copy || kind == OpKind::host_update;
}
constexpr bool runs_kernel(OpKind kind) {
  return kind <= OpKind::decode || is_of_host(kind) || kind == OpKind::server_exchange;
}
// A kernel that a rank runs to its end by itself: it waits for no other rank, and for no server.
constexpr bool runs_by_itself(OpKind kind) {
  return runs_kernel(kind) && kind != OpKind::server_exchange;
}

// In-order lanes of a rank. Sends and receives have a lane per direction of the pipeline: with one
// lane for both, a rank waiting to receive a gradient could block the activation behind it.
enum class Stream : std::uint8_t {
  compute,
  tensor_comm,
  data_comm,
  context_comm,  // also of tokens that are exchanged beside compute
  forward_send,
  forward_recv,
  backward_send,
  backward_recv,
  host_copy,  // to the host, and the weights that it has updated
  host_compute,
  host_load,  // from the host, beside compute
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
                    Word{Stream::host_copy, "host_copy"},
                    Word{Stream::host_compute, "host_compute"},
                    Word{Stream::host_load, "host_load"}};
}
inline constexpr int stream_count = 11;

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

// Action is what an operator does, for an engine that executes it: `kind` and its work say what it
// costs. action_table.hpp has the operands of each by role (Role); what they are stands behind it
// where the role does not say so. [x]: where the layout or the model has it. A site with parameters
// has `weight` too. In place: a collective with an output and no input works on the
// output; a kernel likewise. Details by function:
//  rotary, q/k norms  in place on the whole [q|k|v]: forward has `output` alone (norms
//                     write the raw queries and keys to `saved`); backward: `gradient` and
//                     `input_gradient` are one buffer, [dq|dk|dv]
//  activation of      the weight of a copy's choice multiplies its output: choice_weights, which
//  are routed experts     in the order in which the copies came; backward: choice_gradient too
//  attention          `saved`: fp32 log-sum-exp [tokens, heads], of an unfused kernel the
//                     probabilities; absent where nothing is kept (first pass of recomputation)
//  add_residual       no backward operator: the gradient passes on, and the backward pass of
//                     `residual_of` adds it. If that is a linear, a `backward` operator of the
//                     sum's own site adds it behind: `gradient` and `input_gradient` are one buffer
//  lookup, add_table  backward: gradient, weight_gradient; add_table passes the gradient on
//  cross_entropy      one operator: forward has input, saved, target_logit, exponential_sum.
//                     backward: saved, target_logit, exponential_sum, input_gradient, [workspace],
//                     of which nothing is read. Where logits are fp32, the exponentials take their
//                     place: `saved` is their buffer, and input is absent. Where logits are kept,
//                     backward has them as input, saved may be absent, and a split vocabulary has
//                     maximum too; input and input_gradient may be one buffer. target_logit is less
//                     the maximum. Columns that pad the vocabulary are no classes
enum class Action : std::uint8_t {
  // A model operator (its site):
  forward,            // [input], [residual], [output], [saved], [choice_weights]; attention run
                      // again: input, saved
  backward,           // [input], [saved], [saved_output], [gradient], [residual_gradient],
                      // [input_gradient], [weight_gradient], [choice_weights], [choice_gradient]
  input_gradient,     // linear
  weight_gradient,    // linear: input (or saved: of one token per sequence, or kept in 8 bits),
                      // gradient, weight_gradient
  bias_gradient,      // linear
  encode,             // operand of an 8-bit product: input (or saved), gradient or weight; or its
                      // copy into a user buffer: [output]
  loss_maximum,       // vocabulary-parallel loss: input (logits), maximum
  loss_exponentials,  // [input], maximum, [saved] (exponentials), target_logit, exponential_sum
  gather_input,       // all-gather over tokens: input (or saved, in 8 bits), output
  sum_output,         // all-reduce in place, or reduce-scatter
  sum_gradient,       // the same of an input gradient
  gather_gradient,    // all-gather over tokens
  reorder_tokens,     // by rank or by sequence, before or behind such a collective, in place
  sum_products,       // input gradients of products that are one linear here, in place
  rescale_gradient,   // by scales of rows, in place: input_gradient, or weight_gradient
  adapt,              // a kernel of a low-rank adapter: [input], [saved], [gradient], [weight],
                      // [output], [input_gradient], [weight_gradient]
  exchange_adapted,   // all-gather or all-reduce in place, between its products
  reduce_maximum,     // all-reduce in place (maximum)
  reduce_sum,         // all-reduce in place (sum)
  // Attention over the context-parallel ranks. A slice is the keys and values of one rank; its
  // gradient is that of both. Ring: step 0 is `forward`, on the rank's own slice. Backward steps go
  // against the ring, from the slice received last to the rank's own, without a `backward`.
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
  // All-to-all: before, a rank has its tokens of all heads; behind, all tokens of its share of
  // them; or back. [q|k|v] and its gradient go by thirds, attention's output as a whole.
  order_for_exchange,     // input: a tensor; output: of one third, rank after rank
  exchange_heads,         // all-to-all
  order_behind_exchange,  // input: rank after rank; output: the tensor, of which a third is written
  // A linear that is cut into parts (Layout::overlap_tensor_products). Slices of tokens go round
  // the tensor group, or blocks of output features are summed one by one:
  exchange_part,  // ring shift of a slice: input: the one before, output: of the gathered tensor
  multiply_part,  // a part of `forward`
  gradient_part,  // a part of input_gradient
  scatter_part,   // reduce-scatter of a block of features
  // The same where the slices lie in symmetric memory (micro_pipeline.hpp):
  place_slice,  // input or gradient: of the rank's own tokens; workspace: there; output: the slice
                // that it is of the gathered tensor
  pull_slice,   // ring shift. input: what a partner placed or made there, output: the slice that it
                // is of the gathered tensor, or of those to sum
  sum_slices,
  // Routed experts:
  choose,           // input: a token's scores of all experts; saved: its experts and their weights;
                    // choice_weights: those as the copies of the tokens are sent, in fp32
  choose_backward,  // saved, choice_gradient, input_gradient: of the scores
  move_tokens,      // input; output: one copy for each choice, or their sum; of the former in the
                    // forward pass: saved, the rows of the copies. Of dispatchers other than
                    // alltoall: residual: weights of the choices of the tokens that came, or the
                    // gradients of those of the copies; choice_weights or choice_gradient: moved
  sort_tokens,      // input; output: the same by expert, or back in the order in which they came
  exchange_tokens,  // collective between ranks that share experts, or one; also of the weights of
                    // choices and their gradients: input, output. Fused: residual: the weights or
                    // gradients that go with the tokens; choice_weights or choice_gradient: as they
                    // come; [saved]: the map of all choices
  // Where every tensor rank has the output of all: logits of frameworks other than Megatron-LM
  // (sim/model/model.hpp, Execution), queries, keys and values of shared key/value heads:
  gather_output,    // all-gather: input: the features of a rank, output: rank after rank
  join_output,      // input: what was gathered, output: token after token
  own_output,       // input: gradient of all features, output: of those of the rank
  spread_gradient,  // input: gradient of what the rank took, output: of all, in the order of ranks
  scatter_output_gradient,  // reduce-scatter: input, output: of the features of the rank
  add_product_gradient,     // input: of a further product, input_gradient: added to
  add_weight_gradient,      // input: of a micro-batch, weight_gradient: added to
  // Between stages:
  send,  // input; without sequence parallelism the tensor rank's part of it
  receive,
  gather_received,  // all-gather of the parts
  // A pass of a model chunk in 8 bits with delayed scaling:
  collect_maxima,  // of the pass's tensors
  share_maxima,    // all-reduce in place
  update_scales,
  // A tensor that a layer keeps for its backward pass (Layout::offload_activations): input, output;
  // one of them on the host
  activations_to_host,
  activations_from_host,
  // A parameter bucket:
  gather_weights,     // [input: the shard], output: the whole; in place: from the own slice of it
  copy_weights,       // gathered ones out of the gather's buffer, in place, or a shard that is
                      // the whole: [input], output
  prepare_gradients,  // read, or scaled in place, before they are reduced
  cast_out,           // input: gradients, output: message in the format of the wire
  reduce,             // average, of scaled ones the sum: input, output; in place: all of it, or
                      // into the own slice
  replicate,   // hybrid sharding, average over copies, in place: output (the own slice of it)
  accumulate,  // output += input
  cast_in,     // input: message, output: gradients (own slice) in their format
  // A bucket with compressed gradients (Layout::compression); state: what is kept from step to
  // step. A factor is the first of power_sgd, with what travels whole behind it.
  compress,             // gradient, [state], output: message
  exchange_compressed,  // collective
  recompress,           // [gradient], [state], input: what came, [saved: a factor], output: message
  decompress,           // [input: what came], [saved: a factor], [state], output: gradients
  quantize_weights,     // input: the shard, or the secondary one; output: message
  dequantize_weights,   // input: what came; output: the whole
  keep_secondary_shard,  // input: the whole; output: the part of a node's copy
  // A bucket whose optimizer states lie on the host (Layout::offload_optimizer).
  // Layout::offload_parameters: they come before weights are gathered; if one rank alone holds the
  // shard, output is the whole. Gradients come back to be added to.
  parameters_from_host,  // input: on the host; output: the shard
  gradients_from_host,   // input: on the host; output: gradients that the rank owns
  gradients_to_host,     // input: gradients that the rank owns; output: on the host
  update_on_host,        // input: gradients, output: new weights, state: all on the host
  weights_from_host,     // input: on the host; output: the weights that the rank owns
  // The meeting of ranks that train a bucket apart for some steps (Layout::local_steps). input: the
  // owned weights, or the states of the optimizer, of which the first are fp32 masters; state: fp32
  // parameters and momentum of the last meeting:
  outer_gradient,  // input, [state], output: message: parameters, or how far they have come
  average_outer,   // all-reduce, mean, in place: output: message
  // Quantised (Layout::outer_quantization): the message is integers, in a piece for each group.
  exchange_outer,  // all-to-all of the pieces, or all-gather of their means
  mean_outer,      // input: what came, output: message: the mean of the rank's own piece
  apply_outer,     // input: message, [state], [saved: states of the optimizer], output: weights
  // Where the state lies on the host (Layout::outer_on_host):
  last_from_host,   // before outer_gradient: the parameters. input: on the host; output
  outer_from_host,  // before apply_outer: both. input: on the host; output
  outer_to_host,    // behind it. input; output: on the host
  // A bucket whose gradients go to parameter servers (Layout::servers). synchronous: output: a
  // worker's gradients, then the mean of all. Else: input: gradients; output: new weights.
  exchange_with_servers,
  // The stage, over all its parameter buckets; state: the buffers that it reads or writes
  zero_gradients,
  sum_tensor_gradients,  // all-reduce of Site::summed of all sites, packed into output; of a rank
                         // that holds a shard, what lies in the shard, at the start of output
  sum_tied_gradient,     // all-reduce in place, of the table's bucket (its subject)
  gradient_norm,         // sum of squares of the owned gradients
  sum_gradient_norm,     // all-reduce of 4 bytes over the world
  adam,                  // ... [workspace]: states in fp32
  orthogonalize,         // Muon, of the matrices of the stage: a product, or a pass over them
};

// Whether an action belongs to a meeting (Layout::local_steps), which is in some steps only.
constexpr bool is_of_meeting(Action action) {
  return action >= Action::outer_gradient && action <= Action::outer_to_host;
}

// Role is what a buffer is to the operator that uses it.
enum class Role : std::uint8_t {
  input,
  residual,  // second term of a residual sum; of tokens, the weights that go with them
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

// Where an operator comes from. The engine of the simulator never reads it. Reports do, bounds of
// the search, and real/engine: the micro-batch of a launch, who was the first that is not finite.
struct OpLabel {
  std::uint32_t name = 0;        // index into Program::names
  std::int16_t layer = -1;       // of the model, -1: none
  std::int16_t chunk = -1;       // model chunk, 0 .. chunks - 1 over all stages
  std::int32_t microbatch = -1;  // -1: none
};

}  // namespace sim
