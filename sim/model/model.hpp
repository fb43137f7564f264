// A model as the planner sees it: blocks of operators with full (unsharded) shapes.
//
// A model is a row of blocks: an input block (embedding), `layers` identical or different layers,
// and an output block (final norm, head, loss). Each block lists its forward operators in order.
// Sizes are per token (per sample for layer lists), so that the planner can shard and batch them;
// how an operator shards under tensor parallelism is its `split`.
//
// Sources: Vaswani et al. 2017; Shoeybi et al. 2019 (column/row splits); Korthikanti et al. 2022
// (saved activations, eq. 1-4, section 4.3); parameter counts as published by the authors of each
// model.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/dtype.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/model/transformer_shape.hpp"

namespace sim {

class Document;
class ObjectReader;

enum class ModelOpKind : std::uint8_t {
  embedding,      // table lookup, weights [in_features = vocabulary rows, out_features]
  linear,         // Y[tokens, out] = X[tokens, in] W (+ bias)
  attention,      // softmax(Q K^T / sqrt(d)) V for all heads
  norm,           // LayerNorm or RMSNorm over `in_features`
  elementwise,    // activation, gating, residual add, dropout, rotary embedding: bytes only
  cross_entropy,  // loss over `in_features` = vocabulary (or classes)
  router,         // scores of every token for every expert; hands the tokens on as they are
  dispatch,       // tokens to their experts, on whatever rank these are
  combine,        // and back: the sum of what a token's experts made of it
  generic,        // a layer of a layer list: FLOPs and bytes as given
  scan,           // carries a state from token to token: FLOPs and bytes as given
};

// Function is what an operator computes, for an engine that executes it. `none`: it can be forecast
// only.
enum class Function : std::uint8_t {
  none,
  lookup,     // rows of the table
  add_table,  // learned positions: adds row i to token i of its sequence
  linear,
  layer_norm,          // scale and shift
  layer_norm_no_bias,  // scale
  rms_norm,            // scale
  rotary,              // of queries and keys, in place (rotates halves, base 10,000)
  latent_rotary,       // of latent attention: turns parts of heads, puts keys and values together
  attention,           // [queries | keys | values] to the heads' outputs, scale 1/sqrt(head_dim)
  add_residual,        // input + residual
  gelu,                // tanh form
  relu,
  squared_relu,
  swiglu,  // silu(first half) * second half
  geglu,
  cross_entropy,
  route,     // a product, and each token's experts with the weights of its choices
  exchange,  // of tokens between the ranks of their experts
};
constexpr auto words_of(Function) {
  return std::array{Word{Function::none, "none"},
                    Word{Function::lookup, "lookup"},
                    Word{Function::add_table, "add_table"},
                    Word{Function::linear, "linear"},
                    Word{Function::layer_norm, "layer_norm"},
                    Word{Function::layer_norm_no_bias, "layer_norm_no_bias"},
                    Word{Function::rms_norm, "rms_norm"},
                    Word{Function::rotary, "rotary"},
                    Word{Function::latent_rotary, "latent_rotary"},
                    Word{Function::attention, "attention"},
                    Word{Function::add_residual, "add_residual"},
                    Word{Function::gelu, "gelu"},
                    Word{Function::relu, "relu"},
                    Word{Function::squared_relu, "squared_relu"},
                    Word{Function::swiglu, "swiglu"},
                    Word{Function::geglu, "geglu"},
                    Word{Function::cross_entropy, "cross_entropy"},
                    Word{Function::route, "route"},
                    Word{Function::exchange, "exchange"}};
}

// Where an operator stands under tensor parallelism of size t: which of its weights, traffic and
// saved activations are divided by t.
//
//              weights    biases      traffic and `saved_elements`, `saved_fixed_bytes`
//  sequence    whole      whole       by t only with sequence parallelism
//  column      by t       by t        by t (the output side; its input: saved_input_elements)
//  row         by t       whole       by t (the input side)
//  inner       whole      whole       by t (weights: the q/k norms, one scale for every head)
//  vocabulary  by t       by t        head, loss: by t (padded); embedding: its output is a partial
//                                     sum that becomes `sequence` when reduced, it saves nothing
//
// A linear may be `sequence` too: patch embedding, pooler and masked-language-model transform are
// whole on every rank and cost no collective.
enum class TensorSplit : std::uint8_t {
  sequence,  // outside the split blocks: replicated, or split over tokens with sequence parallelism
  column,    // weights split by output features; needs the full input (all-gather or identity)
  row,       // weights split by input features; output is a partial sum (reduce-scatter/all-reduce)
  inner,     // between a column and a row split: features or heads divided by t
  vocabulary,  // embedding table, head or loss split over the (padded) vocabulary
};

// ModelOp is an operator of a model. Its sizes mean for each kind:
//  embedding      in_features rows of out_features = hidden; split vocabulary
//  linear         the matrix; a gated MLP's gate and up are one linear of 2 * feed_forward outputs
//  attention      in_features = (heads + 2 kv_heads) head_dim, out_features = heads * head_dim
//  norm           in_features = out_features = what is normalised over (head_dim for q/k norms)
//  elementwise    in_features, out_features: width of its input and output; learned positions and
//                 token types carry their table as `weights`
//  cross_entropy  in_features = classes, out_features = 1
//  router         in_features = hidden, out_features = experts; its traffic is that of the choice
//  dispatch, combine  in_features = out_features = hidden
//  generic        0; output_elements of its block says what it hands on
//  scan           in_features, out_features: what it reads and writes of a token
struct ModelOp {
  std::string
      name;  // "qkv", "attention", "mlp_down": the same in traces, reports and the real engine
  ModelOpKind kind = ModelOpKind::elementwise;
  TensorSplit split = TensorSplit::sequence;
  Function function = Function::none;
  // Residual sums: index in its block of the operator whose input is the second term, and whose
  // backward pass adds the gradient that went past the branch; -1: none. Pre-norm: the norm at the
  // head of the branch; post-norm: the first linear of the branch.
  int residual_of = -1;
  // A second branch: works on the input of this operator of its block; what the operator before it
  // hands on goes past it, as the second term of the sum whose `residual_of` it is. -1: none.
  int starts_from = -1;
  // Routed experts: as many matrices of this shape, spread over the expert-parallel ranks; 0: none.
  // Sizes are per token that comes to an expert, of which there are `per_token` for each token of
  // the micro-batch (also of dispatch and combine).
  std::int64_t experts = 0;
  std::int64_t per_token = 1;
  bool in_place = false;               // works on its input: rotary embedding, q/k norms
  bool backward_reads_output = false;  // attention, ReLU: the next operator keeps it
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  std::int64_t weights = 0;  // parameters of the matrix or table (0 for attention, activations)
  std::int64_t biases = 0;   // further parameters: bias, norm scale and shift
  bool tied_to_embedding = false;  // head that shares the table: `weights` is 0, FLOPs remain
  // Index in its block of an earlier operator whose parameters it has: `weights` and `biases` are
  // 0, FLOPs remain; -1: its own.
  int shares_with = -1;
  bool sixteen_bits = false;  // a linear that no format of 8 or 4 bits multiplies
  // Runs on one token of each sequence (pooler, classification head): costs and saved activations
  // below are per sequence, not per token.
  bool once_per_sequence = false;
  // Linear of column split: products that share the input, each with an equal part of the outputs;
  // backward, each has an input gradient of its own, and a kernel adds them.
  int products = 1;
  // Column: tensor ranks gather the output, and of it these features go on, split over them
  // (key_heads.hpp). 0: the output of a rank is its own.
  std::int64_t gathered_features = 0;
  // Attention: keys that a query sees, its own included (TransformerShape::window); 0: all.
  std::int64_t window = 0;
  // Attention: tokens of a piece of the sequence, outside of which nothing is seen
  // (VisionEncoder::window); 0: the sequence.
  std::int64_t piece = 0;
  // Attention: key/value heads of this layer; 0: as the model.
  std::int64_t kv_heads = 0;
  // Attention: keys that a query chooses (SparseAttention); 0: all that it sees.
  std::int64_t top_keys = 0;
  bool reuses_choice = false;  // they are those that an earlier layer chose
  // Inner: parameters of heads, which tensor ranks divide as they do the features.
  bool splits_parameters = false;
  std::optional<ScanShape> scan{};

  // Device memory traffic besides that of a matrix product (which its shape implies): reads +
  // writes per token in elements of the activation dtype; an fp32 value counts as two and a mask
  // byte as half an element, as at 16 bit. 0: no kernel runs in that pass. Attention: Q, K, V and
  // the output once, what a flash kernel moves; an unfused kernel moves its s-dependent matrices
  // besides. Linear: the pass that sums the gradient of its bias. Reasons: blocks.cpp.
  double forward_elements = 0;
  double backward_elements = 0;
  // Those among them that element-wise kernels of their own move around a norm (beside), and those
  // moved by kernels that read a broadcast or a strided tensor (strided).
  double forward_beside = 0, backward_beside = 0;
  double forward_strided = 0, backward_strided = 0;
  // Elements that a loss moves in addition where the vocabulary is split.
  double forward_split_elements = 0, backward_split_elements = 0;
  int forward_launches = 1, backward_launches = 1;  // kernels that the host issues
  // Tensors kept for the backward pass, per token: elements of the activation dtype that lie in the
  // `split` region of this operator, and bytes that do not scale with the dtype (dropout masks,
  // fp32 logits). Attention: Q, K and V only; what depends on the kernel is
  // attention_kernel_saved_bytes(). Its output is counted at the projection that reads it.
  double saved_elements = 0;
  double saved_fixed_bytes = 0;
  double backward_scratch_bytes = 0;  // of a loss: what its backward pass takes besides, per token
  // For a column-split linear: its input is saved in the sequence region (and gathered again in the
  // backward pass with sequence parallelism); these elements are counted here, not above.
  double saved_input_elements = 0;

  // generic: per sample. Others, where their shape does not say it (scan, sparse attention and its
  // indexer): what their kernels compute, per token.
  Flops forward_flops{};
  Flops backward_flops{};
  // The same other kinds: forward FLOPs of the model, per token, backward twice as many.
  Flops model_flops{};

  bool operator==(const ModelOp&) const = default;
};

// One of the products that tensor parallelism splits within layers; embedding and head are not.
inline bool is_linear_of_layer(const ModelOp& op) {
  return op.kind == ModelOpKind::linear &&
         (op.split == TensorSplit::column || op.split == TensorSplit::row);
}

// Whether the operator chooses the keys of sparse attention (sparse_attention.cpp).
inline bool is_indexer(const ModelOp& op) {
  return op.kind == ModelOpKind::scan && !op.scan;
}

// Multiplies by a matrix of weights.
inline bool is_product(const ModelOp& op) {
  return op.kind == ModelOpKind::linear || op.kind == ModelOpKind::router;
}

struct Block {
  std::string name;  // "embedding", "layer", "head"
  std::vector<ModelOp> ops;
  std::int64_t output_elements = 0;  // per token (sample): what the next block, or stage, receives
  std::int64_t parameters() const;   // weights + biases of all operators
  bool operator==(const Block&) const = default;
};

struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;   // of queries and keys
  std::int64_t value_dim = 0;  // of values and outputs
  bool causal = true;
  bool dropout = false;        // dropout on the attention probabilities
  bool eager_softmax = false;  // unfused attention: mask, casts, softmax in kernels of their own
  // The fused softmax works on four matrices of scores at a time; other counts are eager.
  bool softmax_in_fours = false;
  bool softcap = false;     // of the scores
  double rotary_share = 1;  // of a head's width that rotary positions turn
  bool operator==(const AttentionShape&) const = default;
};

// Whether a window of keys leaves any of `tokens` out.
constexpr bool is_shorter(std::int64_t window, std::int64_t tokens) {
  return window > 0 && window < tokens;
}
// The share of the scores under a causal mask that lie within a window of w of s keys, (w s - w^2 /
// 2) / (s^2 / 2), counted as the mask is: its diagonal halved. 1 where the window is not shorter.
constexpr double share_in_window(std::int64_t window, std::int64_t tokens) {
  if (!is_shorter(window, tokens)) return 1;
  const double share = static_cast<double>(window) / static_cast<double>(tokens);
  return share * (2 - share);
}

// Which software brings the operands of 8-bit products into that format
// (sim/plan/sharding/eight_bit.hpp). Transformer Engine with delayed scaling as a whole, or its
// linears alone, behind norms of another make; with scales of tensors as they are
// (Float8CurrentScaling), of blocks of 128 (Float8BlockScaling), of 32 elements
// (MXFP8BlockScaling). torchao with scales of tensors, of rows, of rows with weight gradients in 16
// bits, or of 32 elements.
enum class EightBit : std::uint8_t {
  transformer_engine,
  transformer_engine_linear,
  transformer_engine_tensorwise,
  transformer_engine_blockwise,
  transformer_engine_mxfp8,
  torchao,
  torchao_rowwise,
  torchao_rowwise_with_gw_hp,
  torchao_mxfp8,
};
constexpr auto words_of(EightBit) {
  return std::array{Word{EightBit::transformer_engine, "transformer_engine"},
                    Word{EightBit::transformer_engine_linear, "transformer_engine_linear"},
                    Word{EightBit::transformer_engine_tensorwise, "transformer_engine_tensorwise"},
                    Word{EightBit::transformer_engine_blockwise, "transformer_engine_blockwise"},
                    Word{EightBit::transformer_engine_mxfp8, "transformer_engine_mxfp8"},
                    Word{EightBit::torchao, "torchao"},
                    Word{EightBit::torchao_rowwise, "torchao_rowwise"},
                    Word{EightBit::torchao_rowwise_with_gw_hp, "torchao_rowwise_with_gw_hp"},
                    Word{EightBit::torchao_mxfp8, "torchao_mxfp8"}};
}
constexpr bool is_transformer_engine(EightBit software) {
  return software <= EightBit::transformer_engine_mxfp8;
}
constexpr bool scales_blocks(EightBit software) {
  return software == EightBit::transformer_engine_blockwise ||
         software == EightBit::transformer_engine_mxfp8 || software == EightBit::torchao_mxfp8;
}
// Scales follow from the maxima of earlier steps.
constexpr bool delays_scaling(EightBit software) {
  return software == EightBit::transformer_engine ||
         software == EightBit::transformer_engine_linear;
}
constexpr bool scales_rows(EightBit software) {
  return software == EightBit::torchao_rowwise || software == EightBit::torchao_rowwise_with_gw_hp;
}

// Attention whose products have 8 bits, of Transformer Engine (fp8_dpa, fp8_mha): dot_product casts
// what comes from the linears before, and what goes to those behind; multi_head exchanges 8 bits
// with them.
enum class EightBitAttention : std::uint8_t { none, dot_product, multi_head };
constexpr auto words_of(EightBitAttention) {
  return std::array{Word{EightBitAttention::none, "none"},
                    Word{EightBitAttention::dot_product, "dot_product"},
                    Word{EightBitAttention::multi_head, "multi_head"}};
}

// How chunks of the tokens go back through the loss and the head (Layout::loss_chunks). at_once:
// each behind its own forward pass; at_once_fp32: the same, and gradients of chunks are put
// together and added up in fp32 (torchtitan); behind: when all have gone forward, for which each
// keeps what the loss keeps (torchtune); again: the same, but they keep nothing and run again
// (TRL).
enum class LossChunks : std::uint8_t { at_once, at_once_fp32, behind, again };
constexpr auto words_of(LossChunks) {
  return std::array{Word{LossChunks::at_once, "at_once"},
                    Word{LossChunks::at_once_fp32, "at_once_fp32"},
                    Word{LossChunks::behind, "behind"}, Word{LossChunks::again, "again"}};
}

// Attention over context-parallel ranks. transformer_engine: kernels of its own. The others are
// PyTorch's context_parallel (sim/plan/sharding/context_tapes.cpp). eager: operator by operator;
// compiled: within a compiled layer, which fuses what stands between the kernels of attention and
// waits for every exchange where it is issued.
enum class ContextForm : std::uint8_t { transformer_engine, eager, compiled };
constexpr auto words_of(ContextForm) {
  return std::array{Word{ContextForm::transformer_engine, "transformer_engine"},
                    Word{ContextForm::eager, "eager"}, Word{ContextForm::compiled, "compiled"}};
}

// The way of tokens to experts and back (sim/plan/rules/experts.md). megatron: the weights of
// choices go with the tokens, and an expert's activation multiplies by them. torchtitan: they stay,
// and multiply what has come back; counts travel in an exchange of their own. automodel: as
// megatron, under FSDP2, the products of a rank's experts in one kernel (torch._grouped_mm);
// automodel_each: in a kernel for each expert (Transformer Engine, grouped_gemm).
enum class ExpertForm : std::uint8_t { megatron, torchtitan, automodel, automodel_each };
constexpr auto words_of(ExpertForm) {
  return std::array{
      Word{ExpertForm::megatron, "megatron"}, Word{ExpertForm::torchtitan, "torchtitan"},
      Word{ExpertForm::automodel, "automodel"}, Word{ExpertForm::automodel_each, "automodel_each"}};
}
constexpr bool is_of_automodel(ExpertForm form) {
  return form == ExpertForm::automodel || form == ExpertForm::automodel_each;
}
constexpr bool groups_products(ExpertForm form) {
  return form == ExpertForm::torchtitan || form == ExpertForm::automodel;
}

// The gradients that autograd wants of weights whose gradients a product has added to those of the
// step already (gradient accumulation fusion): tensors of their size that nobody reads. temporary:
// made each time; kept: Transformer Engine holds one per shape, other linears make theirs each
// time; all_kept: those of other linears are Transformer Engine's, too.
enum class Placeholders : std::uint8_t { none, temporary, kept, all_kept };
constexpr auto words_of(Placeholders) {
  return std::array{Word{Placeholders::none, "none"}, Word{Placeholders::temporary, "temporary"},
                    Word{Placeholders::kept, "kept"}, Word{Placeholders::all_kept, "all_kept"}};
}

// Where gradients lie when a bucket of them is reduced. flat: where they are. copied: put together,
// divided by the ranks, reduced and taken apart again. sliced: the same, but with ZeRO a rank takes
// out only what it owns.
enum class GradientBuckets : std::uint8_t { flat, copied, sliced };
constexpr auto words_of(GradientBuckets) {
  return std::array{Word{GradientBuckets::flat, "flat"}, Word{GradientBuckets::copied, "copied"},
                    Word{GradientBuckets::sliced, "sliced"}};
}

// BucketRule is the framework whose bucket sizes hold where a layout gives none
// (sim/framework/bucket_sizes.hpp).
enum class BucketRule : std::uint8_t { pytorch, torchtitan, megatron, deepspeed };

// Adam. fused: one pass over memory; eager: one per arithmetic operation; deepspeed: fused between
// passes that put gradients together in fp32, measure and scale them, and write the new weights.
enum class OptimizerForm : std::uint8_t { fused, eager, deepspeed };
constexpr auto words_of(OptimizerForm) {
  return std::array{Word{OptimizerForm::fused, "fused"}, Word{OptimizerForm::eager, "eager"},
                    Word{OptimizerForm::deepspeed, "deepspeed"}};
}

// How a framework does otherwise what Megatron-LM does in the way that the first words stand for.
// Set by run_with (framework.hpp); sim/framework/FRAMEWORKS.md lists the pages with the sources.
struct Execution {
  EightBit eight_bit = EightBit::transformer_engine;
  EightBitAttention eight_bit_attention = EightBitAttention::none;
  // The device's 8-bit products with scales of tensors read their operands in either order, so that
  // Transformer Engine makes no transposed copies (is_non_tn_fp8_gemm_supported: Blackwell).
  bool reads_either_order = false;
  bool shares_key_heads = false;       // of more tensor ranks than such heads (key_heads.hpp)
  bool gathers_logits = false;         // every tensor rank has the logits of the whole vocabulary
  bool adds_gradients = false;         // a micro-batch's gradients lie apart, until a kernel adds
  bool keeps_gathered_inputs = false;  // sequence parallelism: not gathered again backward
  bool all_reduces_gradients = false;  // ZeRO-1, 2: reduced whole on every rank, not scattered
  bool scales_gradients = false;  // a kernel divides them by the replicas, then they are summed
  bool checks_gradients = false;  // read for what is not finite before they are reduced
  bool separate_update = false;   // clipping and new weights are passes apart from Adam's
  // Transformer Engine's operation fuser: activations between the linears of an MLP write the
  // format of products themselves, or take its maximum; adapters add to what the frozen product has
  // written.
  bool operation_fuser = false;
  bool router_fusion = false;  // its kernels choose the experts of tokens (Megatron-LM)
  // SwiGLU casts its input to 8 bits to keep it, and back (Megatron-LM).
  bool keeps_gate_inputs_in_fp8 = false;
  // A compiler's tensor parallelism: products are cut as micro_pipeline.hpp of sim/plan says, and
  // nothing else overlaps.
  bool symmetric_memory = false;
  bool sends_whole = false;      // between stages: every tensor rank sends the whole tensor
  bool recomputes_head = false;  // full recomputation: the final norm and the head as well
  // Full recomputation of a layer ends where its last tensor to keep is there: the product behind
  // it and what sums and adds that are not run again.
  bool stops_recomputation = false;
  bool copies_attention = false;     // output of several sequences: copied into another order
  bool copies_flash_output = false;  // the same of flash kernels alone, with nothing else copied
  // Heads exchanged among more context ranks than there are key heads: these are repeated.
  bool repeats_key_heads = false;
  bool copies_tokens = false;  // gathers and scatters of tokens work on a copy in another order
  ContextForm context = ContextForm::transformer_engine;
  ExpertForm experts = ExpertForm::megatron;
  int expert_rows = 1;  // the tokens of an expert are padded to a multiple of them
  Placeholders gradient_placeholders = Placeholders::none;
  GradientBuckets gradient_buckets = GradientBuckets::flat;
  // Without ZeRO-2 and 3: buckets of PyTorch's DistributedDataParallel beside the gradients, which
  // are copied there and back (gradient_as_bucket_view=False).
  bool ddp_buckets = false;
  // Muon's ZeRO-1: all parameters belong to replicas as wholes, those that Adam updates, too.
  bool deals_parameters = false;
  BucketRule bucket_rule = BucketRule::pytorch;
  bool separate_products = false;  // of queries, keys, values; of a gate and what it gates
  // Adapters are fp32: what goes into them, and the gradient that comes out, is cast to fp32 and
  // back.
  bool casts_adapters = false;
  bool copies_weights = false;  // gathered weights are copied out of the gather's buffer
  OptimizerForm optimizer = OptimizerForm::fused;
  // An optimizer on the host works on copies: masters stay on the device, too, and come back in
  // fp32.
  bool offload_keeps_masters = false;
  bool caching_allocator = false;  // memory in PyTorch's blocks (sim/memory/caching_allocator.hpp)
  bool expandable_segments = false;  // of that allocator (PYTORCH_CUDA_ALLOC_CONF)
  Bytes max_split_size{};            // the same; 0: any
  Bytes workspaces{};       // of libraries, as tensors, beyond those that the device file reserves
  bool eager_ends = false;  // head and last norm lie outside of what is compiled
  bool keeps_unread_outputs = false;  // recomputation by operators: also what no gradient needs
  bool flat_parameters =
      false;  // ZeRO-3 as PyTorch's first FSDP has it (sim/memory/flat_units.hpp)
  // ZeRO-3 in a pipeline: what is gathered stays so, and gradients stay whole, from a stage's first
  // micro-batch to its last (torch.distributed.pipelining).
  bool holds_units = false;
  bool holds_over_runs = false;  // from run to run of the pipeline, too
  // The same without a pipeline, where units are gathered for every micro-batch all the same
  // (no_sync), or not (no_reshard).
  bool accumulates_whole = false;
  bool keeps_gathered = false;
  // The host waits for the device: before each attention, for the length of its sequences; before
  // tokens are exchanged, for how many go to each expert; for messages, where nothing overlaps
  // them, and all else that is under way; before each MLP, to copy numbers to the device; for every
  // launch (CUDA_LAUNCH_BLOCKING=1).
  bool waits_for_lengths = false;
  bool waits_for_counts = false;
  bool waits_for_messages = false;
  bool sync_before_mlp = false;
  bool blocking_launches = false;
  // Whether the host waits behind every run of the pipeline, or micro-batch without one: a clock is
  // read there.
  bool waits_for_batches = false;
  // The head and the loss take tokens in chunks, whose logits alone are there at a time (Liger).
  bool chunks_logits = false;
  LossChunks loss_chunks = LossChunks::at_once;
  int held_logits = 0;   // micro-batches whose logits are referenced during a backward pass
  int loss_metrics = 0;  // losses that are computed once more, for the log
  bool operator==(const Execution&) const = default;
};

struct Model {
  std::string name;
  std::string family;  // "gpt2", "llama", "bert", "vit", "layers", ...
  std::string source;  // where its figures come from
  bool is_layer_list = false;
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;    // unpadded; 0 for ViT and layer lists
  std::int64_t max_sequence = 0;  // longest sequence, 0: unlimited (rotary embedding)
  std::int64_t fixed_sequence =
      0;  // ViT: patches + class token; layer list: 1; 0: the scenario says
  AttentionShape attention;
  Execution execution;
  std::int64_t feed_forward = 0;
  bool tied_embedding = false;
  Block input;                             // embedding; may be empty
  std::vector<Block> layers;               // one entry per layer
  Block output;                            // final norm, head, loss; may be empty
  // The encoder of images, one or none, whose output takes the place of tokens of this model: its
  // `input` is made of patches, and its `output` is the projector, which works on merged patches.
  std::vector<Model> vision;
  std::optional<TransformerShape> shape;   // the shape it was built from; none for a list of layers
  std::vector<std::string> notes;          // parts of its file that it leaves out, a line each
  std::int64_t parameters() const;         // tied weights counted once
  std::int64_t active_parameters() const;  // that a token passes: of the routed experts, its own
  bool has_experts() const { return shape && shape->experts.count > 0; }
  const Block* first_layer_with_experts() const;  // null: none
  bool is_hybrid() const { return shape && shape->hybrid.exists(); }
  bool has_vision() const { return !vision.empty(); }
  bool has_scan() const { return shape && shape->hybrid.has_scan(); }
  // A layer of each kind, in their order: of a hybrid model by what it is made of, else the first
  // one and the first with experts.
  std::vector<const Block*> layers_of_each_kind() const;
  bool has_latent_attention() const { return shape && shape->latent.exists(); }
  bool operator==(const Model&) const = default;
};

// Reads a model: a YAML file of ours (`transformer:` or `layer_list:`), a Hugging Face config.json
// (recognised by `model_type` or `architectures`), or a folder that holds one. Throws InputError;
// an unknown architecture, and mixtures of experts that have more than is modelled, are refused by
// name.
Model load_model(const std::string& path);
Model read_model(const Document& document);
// The mapping {name, source, transformer: {...}} of a model file of ours, or of a scenario that
// carries its model. Records problems; nothing may be built from the shape before they are thrown.
TransformerShape read_transformer_shape(const ObjectReader& root, std::string_view default_name);

// The operator that puts image tokens into the sequence.
inline constexpr std::string_view place_images_name = "place_images";

// Takes the encoder of images away (Layout::images 0), and notes it.
void leave_out_vision(Model& model);

// Forward floating-point operations of one sequence of `sequence` tokens (one sample of a layer
// list): 2 * in * out per token of a linear, and for attention 4 * sequence * heads * head_dim per
// token, the full square also where the mask is causal. Nothing for the rest,
// nor for a vision encoder.
Flops forward_flops(const Block& block, const AttentionShape& attention, std::int64_t sequence);
Flops forward_flops(const Model& model, std::int64_t sequence);

// Tensors that the attention kernel itself keeps for its backward pass, in bytes per token, divided
// by t. flash: the fp32 log-sum-exp of each head. Otherwise Korthikanti 2022, section 4.1, with a
// heads and s tokens: the softmax output and, with attention dropout, its mask and the dropped
// output.
double attention_kernel_saved_bytes(const AttentionShape& attention, bool flash,
                                    std::int64_t sequence, int bytes_per_element);

// All that a block keeps for its backward pass, in bytes of one token, by what divides it.
struct SavedBytes {
  double sequence = 0;  // by t only with sequence parallelism
  double inner = 0;     // by t
};
SavedBytes saved_bytes(const Block& block, const AttentionShape& attention, bool flash,
                       std::int64_t sequence, int bytes_per_element);

}  // namespace sim
