// A model's operators as one rank runs them on one micro-batch: sharded shapes, kernels and bytes.
//
// Splits: Shoeybi et al. 2019, section 3 (column and row); Korthikanti et al. 2022, section 4.2
// (sequence parallelism). The vocabulary is padded to a multiple of 128 t when t > 1, as
// Megatron-LM does (training/tokenizer: --make-vocab-size-divisible-by 128).
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "sim/layout/batch_loads.hpp"
#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/sharding/kept_set.hpp"
#include "sim/plan/tape/tape.hpp"
#include "sim/program/program.hpp"

namespace sim {

// Attention over context-parallel ranks: beside the rank's own block of scores (`forward`,
// `backward`), those of its queries with the slices of keys and values of the others.
struct ContextAttention {
  Bytes slice{};           // keys and values that a rank holds
  Bytes gradient_slice{};  // their gradients, as they travel
  // Ring. Under a causal mask a rank works on half a block for each foreign slice, since it holds
  // chunks i and 2c - 1 - i of the sequence.
  Kernel attend;
  Kernel attend_backward;
  Kernel merge;            // a part and its log-sum-exp into the output
  Kernel first_merge;      // the same, with what is done once
  Kernel begin_gradients;  // of the first slice: copied where they are added up
  Kernel add_gradients;
  // All-to-all: what goes before the kernel, one exchange each, and what it has made.
  struct Heads {
    Bytes bytes{};  // of the tokens that a rank holds, of all heads
    Kernel order;   // moves them into the order of the ranks
    Kernel behind;  // and what came into that of the sequence
  };
  std::vector<Heads> parts;
  Heads made;
};

// The way of tokens to the experts they have chosen, and back (dispatch, combine).
struct ExpertExchange {
  Bytes sent{};      // tokens that a rank holds, one for each choice
  Bytes came{};      // those that have chosen an expert of the rank's, of the fullest rank
  Bytes gathered{};  // over the ranks that share the features of an expert
  // Weights of the choices, which go with the tokens: where the tokens are sent, came, gathered.
  Bytes weights{}, weights_came{}, weights_gathered{};
  Kernel permute, unpermute;  // between a token and one for each choice
  // Other dispatchers than alltoall: the tokens that are on the rank before they are copied for
  // each of its experts.
  Bytes whole{};
  ExpertRouting routing{};  // of a fused exchange
  Bytes map_gathered{};     // hybridep: which experts the tokens of all ranks have chosen
  Bytes counts{};  // weighs_at_origin(): how many tokens go to each expert, which travels first
  std::optional<Kernel> sort;  // tokens that came, into the order of the rank's experts, or back
};

// A pass of a linear whose products are cut by slices of tokens (micro_pipeline.hpp). It gathers
// its operand, or scatters its result.
struct SlicedPass {
  std::vector<Kernel> products;  // of a slice
  std::optional<Kernel> place;   // gathered: the own slice, into symmetric memory
  std::optional<Kernel> order;   // scattered: the operand, slice after slice
  std::optional<Kernel> sum;     // scattered: of the slices that came
  bool gathers() const { return place.has_value(); }
};

// LowRankAdapter stands beside a linear (low_rank.hpp): x A B. Its tapes read and release the
// linear's input of all tokens, and add to the linear's output.
struct LowRankAdapter {
  Tape forward;
  Tape forward_to_end;  // of the last linear that runs again: without the second product
  // Both gradients of parameters; tape_value::input_gradient is what they make of the input, which
  // add_gradient adds to that of the linear.
  Tape backward, add_gradient;
  bool adds_in_product = false;  // Execution::operation_fuser: the product of the linear adds it
  Bytes kept{};                  // for the backward pass, beside the input
  std::int64_t narrow = 0, rank = 0;  // A is narrow x in, B is out x rank
  std::int64_t parameters = 0;
};

// OperatorTapes are the passes of an operator: of its input, and of the gradient of its output.
struct OperatorTapes {
  Tape forward, backward;
};

// TokenWay is a way of tokens between ranks: what comes before their exchange, that, and what comes
// behind it.
struct TokenWay {
  Tape leave, exchange, arrive;
};
// TokenWays are those of a dispatch or a combine: to the experts (dispatch forward, combine
// backward) and from them.
struct TokenWays {
  TokenWay to, from;
};

struct ShardedOp {
  const ModelOp* op = nullptr;
  // Absent: no kernel runs. A linear has `forward`, `input_gradient` and `weight_gradient`;
  // everything else `forward` and `backward`.
  std::optional<Kernel> forward;
  std::optional<Kernel> backward;  // linear: sums the bias gradient
  std::optional<Kernel> input_gradient;
  std::optional<Kernel> weight_gradient;
  // Adds the gradient that went past a branch: of residual sums behind whose branch stands a
  // linear, and of what begins a second branch.
  std::optional<Kernel> add_gradient;
  // Matrix products in 8 bits: what brings the operands into that format.
  std::optional<Kernel> encode_input;
  std::optional<Kernel> encode_saved;  // the kept input, for the weight gradient; or its copy
  std::optional<Kernel> encode_gradient;
  std::optional<Kernel> encode_weight;
  std::optional<Kernel> encode_saved_weight;  // for the input gradient
  // Multiply gradients by scales of rows.
  std::optional<Kernel> rescale_input_gradient, rescale_weight_gradient;
  std::int64_t encoded_elements = 0;      // of a weight whose products have such operands
  double weight_element = 1;              // bytes of each in one order
  double weight_scale_bytes = 0;          // and of its scales
  bool encodes_weight_each_time = false;  // else once per step
  double gathered_element = 0;  // bytes in which input and gradient are gathered over tensor ranks;
                                // 0: as activations are
  bool gathers_quantized() const { return gathered_element > 0; }
  // Cut into parts (user_buffers.hpp). Column: `forward` by slices of tokens; row: by blocks of
  // output features, and `input_gradient` by slices of tokens.
  std::optional<Kernel> forward_part, gradient_part;
  int forward_parts = 1;
  // Copies of a rank's own slice of a gradient, or of the saved input, to where others read it; and
  // the transposition of the gradient, when all of it is there.
  std::optional<Kernel> place_gradient, place_saved, transpose_gradient;
  std::optional<SlicedPass> sliced_forward, sliced_again, sliced_gradient;
  // Bytes of a rank's own tokens: gathered before a column, scattered behind a row.
  Bytes slice() const { return gathers_input ? input : output; }
  std::optional<ContextAttention> context;
  std::optional<OperatorTapes> whole;  // in place of its kernels
  std::optional<ExpertExchange> experts;
  std::optional<ExpertExchange> messages;  // of it, where other tokens travel than a rank holds
  const ExpertExchange& exchanged() const { return messages ? *messages : *experts; }
  std::optional<TokenWays> ways;
  std::optional<TokenWays> ways_again;  // Recompute::operators: what exchanges brought was kept
  std::optional<Kernel> choose, choose_backward;  // router
  // Where every tensor rank has the output of all: puts what was gathered together; backward, takes
  // a rank's own of logits, or lays the gradient of a rank's part out to be summed and scattered.
  std::optional<Kernel> join_output, own_output, spread_gradient;
  std::optional<Kernel> add_products;  // the input gradients of two products
  int products = 1;                    // linear: that its kernels run each
  // Recompute::operators: the products that run again, or what stands for an output that was kept.
  std::vector<Kernel> forward_again;
  // Execution::separate_products: in place of `forward`, `input_gradient` and `weight_gradient`.
  std::vector<Kernel> forward_apart, input_gradient_apart, weight_gradient_apart;
  std::optional<Kernel> sum_products;  // Execution::separate_products: their input gradients
  std::optional<Kernel> reorder_input, reorder_output;  // Execution::copies_tokens
  bool gathers_input = false;  // column, with sequence parallelism: all-gather before the product
  bool sums_gradient = false;  // column, t > 1: its input gradient is a partial sum
  bool scatters = false;       // what is summed is scattered over the tokens: sequence parallelism
  bool sums_output = false;    // row, vocabulary-parallel embedding, t > 1: its output is one
  bool splits_loss = false;    // a rank has the logits of its classes only
  bool ends_gradient = false;  // frozen, and nothing in front of the first layer is trained
  Bytes input{};               // in its region: divided as TensorSplit says
  Bytes output{};              // after the sum, if any
  Bytes whole_input{};         // gathered over the tensor group: all tokens
  Bytes whole_output{};
  Bytes gathered_output{};  // of every tensor rank
  // Further inputs of an indexer: gathered over the tensor ranks; summed over them, in fp32.
  Bytes gathered_beside{}, summed_beside{};
  Bytes saved{};             // kept for the backward pass, without attention_saved
  Bytes backward_scratch{};  // of the loss: what its backward pass makes on the way
  Bytes attention_saved{};   // dropped by selective recomputation
  // Scratch memory of eager kernels, and of the gather of all logits.
  Scratch scratch_forward, scratch_backward, scratch_gather;
  std::int64_t parameters = 0;         // elements held by a tensor rank
  std::int64_t frozen_parameters = 0;  // beside `parameters`: held, and not trained
  std::optional<LowRankAdapter> adapter;
  std::int64_t tied_parameters = 0;  // table shared with the embedding: held if that is elsewhere
  // Those among `parameters` whose gradient each tensor rank has only in part: it is summed once.
  std::int64_t tensor_summed = 0;
};

struct ShardedBlock {
  const Block* block = nullptr;
  std::vector<ShardedOp> ops;
  Bytes output{};               // the tensor that the next block receives, in the sequence region
  Bytes whole_output{};         // of all tokens
  KeptSet kept, kept_left_out;  // in layers that recomputation leaves out
  Bytes kept_outputs{};         // of the set, in one tensor
};

struct ShardedModel {
  const Model* model = nullptr;
  std::shared_ptr<const Model> shared_keys;  // `model`, where it differs from the one given
  Layout layout;
  // Distinct ones; of each kind of micro-batch, one kind behind the other.
  std::vector<ShardedBlock> blocks;
  std::vector<std::uint32_t> of_layer;  // index into `blocks`
  std::optional<std::uint32_t> input;   // absent: the model has none
  std::optional<std::uint32_t> output;
  // Blocks of the vision encoder (vision.hpp), behind all others of their kind.
  struct Vision {
    std::uint32_t patches = 0, projector = 0;
    std::vector<std::uint32_t> of_layer;
    bool trains_layers = true, trains_projector = true;
  };
  std::optional<Vision> vision;
  std::vector<int> first_layer;  // of each chunk; chunks + 1 entries
  // Where micro-batches differ by the lengths of their sequences. Indices above are of the first
  // kind.
  std::uint32_t blocks_of_kind = 0;
  std::vector<std::uint32_t> kind_of_microbatch;  // empty: all are alike
  // Behind the kinds of whole micro-batches as many of pieces of them, for each number of pieces in
  // which operators run (Replay::pieces).
  std::uint32_t whole_kinds = 1;
  std::vector<int> pieces;
  // How far behind a block of a whole micro-batch that of one of its pieces stands.
  std::uint32_t blocks_before_piece(int of) const {
    const auto at = std::find(pieces.begin(), pieces.end(), of) - pieces.begin();
    return blocks_of_kind * whole_kinds * static_cast<std::uint32_t>(at + 1);
  }
  std::uint32_t kinds() const {
    return blocks_of_kind == 0 ? 1 : static_cast<std::uint32_t>(blocks.size()) / blocks_of_kind;
  }
  std::uint32_t block_for(std::uint32_t block, int microbatch) const {
    if (kind_of_microbatch.empty()) return block;
    return block + blocks_of_kind * kind_of_microbatch[static_cast<std::size_t>(microbatch)];
  }
};

// Whether the keys and values of all context-parallel ranks meet one kernel of attention.
inline bool attends_at_once(const Model& model, const Layout& layout) {
  return layout.context_exchange == ContextExchange::all_gather &&
         model.execution.context == ContextForm::transformer_engine;
}

// Whether a rank has all tokens of a share of the heads within attention.
inline bool exchanges_heads(const Layout& layout) {
  return layout.context_parallel > 1 && layout.context_exchange == ContextExchange::all_to_all;
}

// Sequences of equal length whose attention costs what that of the packed ones does
// (Layout::packed_length): sum and sum of squares are those, but for rounding. 1: nothing is
// packed.
inline std::int64_t packed_sequences(const Layout& layout) {
  const std::int64_t each = layout.attended_length();
  return std::max<std::int64_t>(1, (layout.sequence_length + each / 2) / each);
}

// Whether the weights of choices stay with the tokens' own rank, which multiplies what comes back
// (ExpertForm::torchtitan; DeepEP and HybridEP take them along).
bool weighs_at_origin(const Execution& runs, const Layout& layout);

// `batches`: of one replica, where they are not alike (Layout::has_lengths).
ShardedModel shard(const Model& model, const Layout& layout,
                   const std::vector<MicroBatchLoad>& batches = {});

// Autograd gives a gradient the format of its weight; where gradients are kept in another one,
// every micro-batch's is converted and added to them (DeepSpeed, runtime/bf16_optimizer.py).
bool converts_gradients(const Model& model, const Layout& layout);
// The format in which a weight gradient comes out of its product.
DType written_gradient_dtype(const Model& model, const Layout& layout);
// Execution::holds_units takes effect, or without a pipeline accumulates_whole.
bool holds_units(const Model& model, const Layout& layout);
// In which a rank adds up the gradients of a step. Where units are held FSDP casts them to the
// format in which they are reduced (torch/distributed/fsdp/_fully_shard/_fsdp_param.py,
// to_accumulated_grad_if_needed).
DType summed_gradient_dtype(const Model& model, const Layout& layout);

// The layers of every chunk: as listed, or evenly. REQUIRES: the sum is right.
std::vector<int> layers_of_chunks(const Layout& layout, std::size_t layers);

// Output features of the products that torchtitan runs for a linear: one, or several.
std::vector<std::int64_t> products_of(const Block& layer, std::size_t linear,
                                      const AttentionShape& attention);

std::int64_t padded_vocabulary(std::int64_t vocabulary, int tensor_parallel);

}  // namespace sim
