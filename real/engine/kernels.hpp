// The kernels of the engine, which every backend implements: `Table` at the end has one of each.
// Declared here as functions: those of real/cuda/kernels have these names,
// real/host/kernels/host_kernels has its own.
//
// Everything is asynchronous on `stream` (on the host: has run when the call returns); pointers are
// memory of the device, not checked; `dtype` is bf16 or fp32. Rows are contiguous.
//
// Arithmetic is fp32 throughout; bf16 is a format of memory (and of the operands of the tensor
// cores, in attention). Every kernel is deterministic: sums have a fixed order, no floating-point
// atomics. Pointers that are not 16-byte aligned, and widths that are no multiple of 16 bytes, are
// taken too.
//
// Where a parameter's gradient is written, `accumulate` says whether it is added to what is there;
// it has a dtype of its own. A `Workspace` is scratch memory that a call uses until it has run: one
// per stream will do, as large as the largest need below says.
//
// Throws std::invalid_argument for shapes that are not supported (named below), std::runtime_error
// for errors of the launch.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "real/engine/kernels/eight_bit.hpp"
#include "real/engine/kernels/routing.hpp"
#include "sim/base/dtype.hpp"
#include "sim/model/model.hpp"

struct CUstream_st;  // cudaStream_t is a pointer to it: no CUDA header needed here; null on a host

namespace real::kernels {

using StreamHandle = CUstream_st*;

// Beside the variance: the default of torch.nn.LayerNorm, and what GPT-2 and Llama 2 use.
inline constexpr float norm_epsilon = 1e-5f;
inline constexpr double rotary_base = 10'000;  // Su et al. 2021

struct Workspace {
  void* memory = nullptr;  // 256-byte aligned
  std::int64_t bytes = 0;
};

// ---- What a step brings ----------------------------------------------------------------------

// Token ids as a step brings them: sequences `stride` apart (sequence + 1: the last is a target
// only, or the label of the sequence). Token t of a micro-batch is ids[t / sequence * stride + t %
// sequence].
struct TokenIds {
  const std::int32_t* ids = nullptr;
  std::int64_t tokens = 0, sequence = 0, stride = 0;
  constexpr std::int32_t operator[](std::int64_t t) const {
    return ids[t / sequence * stride + t % sequence];
  }
};

// ContextShare says which tokens of a sequence a context rank holds: chunks `rank` and
// 2 ranks - 1 - rank of 2 ranks, so that a causal mask leaves all ranks the same work
// (sim/plan/rules/context-parallel.md). Backends without context parallelism have one rank.
struct ContextShare {
  std::int64_t ranks = 1, rank = 0;
  // The position in its sequence of token `at` of the `held` ones.
  constexpr std::int64_t position(std::int64_t at, std::int64_t held) const {
    if (ranks == 1) return at;
    const std::int64_t chunk = held / 2;
    return (at < chunk ? rank : 2 * ranks - 2 - rank) * chunk + at;
  }
};

// AdamStep is the part of Adam's settings that changes from step to step, in device memory: a
// captured CUDA graph reads it anew.
struct AdamStep {
  double rate = 0;
  double correction1 = 1, correction2 = 1;  // 1 - beta1^step, 1 - beta2^step
  std::int64_t number = 0;                  // of the step, from 0
};

// Dropout tells which elements an operator drops (real/engine/kernels/dropout.hpp).
struct Dropout {
  double probability = 0;  // below 1; 0: none
  std::uint64_t seed = 0;
  std::uint32_t site = 0;  // of the operator: none other of the model has it
  const AdamStep* step = nullptr;
};

// ---- Norms (norm.cu) -------------------------------------------------------------------------

// layer_norm: scale, shift; layer_norm_no_bias: scale (the mean is subtracted); rms_norm: scale.
struct NormShape {
  sim::Function function = sim::Function::layer_norm;
  sim::DType dtype = sim::DType::bf16;
  std::int64_t rows = 0, width = 0;  // width at most norm_width_limit
  float epsilon = norm_epsilon;
};
inline constexpr std::int64_t norm_width_limit = 16384;

// `parameters`: scale, then shift. The input may be the output.
void norm_forward(const NormShape& shape, const void* input, const void* parameters, void* output,
                  StreamHandle stream);

// Statistics are computed again from the input. input_gradient = J^T gradient + residual_gradient;
// it may lie where `gradient` or `residual_gradient` do.
struct NormBackward {
  const void* input = nullptr;
  const void* parameters = nullptr;
  const void* gradient = nullptr;
  const void* residual_gradient = nullptr;  // may be null
  void* input_gradient = nullptr;
  void* parameter_gradient = nullptr;  // scale, then shift; null: frozen
  sim::DType gradient_dtype = sim::DType::fp32;
  bool accumulate = true;
};
void norm_backward(const NormShape& shape, const NormBackward& operands, Workspace workspace,
                   StreamHandle stream);
std::int64_t norm_backward_workspace(const NormShape& shape);

// ---- Rows of [queries | keys | values] -------------------------------------------------------

struct HeadsShape {
  sim::DType dtype = sim::DType::bf16;
  std::int64_t tokens = 0;
  std::int64_t sequence = 0;  // tokens of one sequence that are here; divides `tokens`
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  ContextShare context{};
  std::int64_t value_dim = 0;   // of values and outputs; 0: head_dim
  std::int64_t rotary_dim = 0;  // of a head's first elements, which rotary() turns; 0: head_dim
  std::int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
  std::int64_t turned() const { return rotary_dim > 0 ? rotary_dim : head_dim; }
  std::int64_t row() const { return (heads + kv_heads) * head_dim + kv_heads * values(); }
};

// Norm of every query and key head over head_dim (a multiple of 32, at most 256). Parameters: scale
// (and shift) of the queries, then of the keys. `saved` gets the raw queries and keys, [tokens,
// (heads + kv_heads) * head_dim]; null: not kept. Output may be the input; else values are copied.
struct HeadNorm {
  sim::Function function = sim::Function::rms_norm;
  float epsilon = norm_epsilon;
};
void head_norm_forward(const HeadsShape& shape, const HeadNorm& norm, const void* input,
                       const void* parameters, void* output, void* saved, StreamHandle stream);
struct HeadNormBackward {
  const void* saved = nullptr;
  const void* parameters = nullptr;
  const void* gradient = nullptr;
  void* input_gradient = nullptr;      // may be `gradient`
  void* parameter_gradient = nullptr;  // null: frozen
  sim::DType gradient_dtype = sim::DType::fp32;
  bool accumulate = true;
};
void head_norm_backward(const HeadsShape& shape, const HeadNorm& norm,
                        const HeadNormBackward& operands, Workspace workspace, StreamHandle stream);
std::int64_t head_norm_backward_workspace(const HeadsShape& shape);

// Rotary embedding (Su et al. 2021) of the first d = turned() elements of queries and keys,
// rotating halves: element i with element i + d / 2 by position * base^(-2 i / d). Output may be
// the input; else all other elements are copied. The table, fp32 cosine and sine per (position, i),
// is filled once.
std::int64_t rotary_table_bytes(std::int64_t sequence, std::int64_t turned);
void fill_rotary_table(std::int64_t sequence, std::int64_t turned, double base, float* table,
                       StreamHandle stream);
void rotary(const HeadsShape& shape, bool backward, const float* table, const void* input,
            void* output, StreamHandle stream);

// ---- Attention (attention*.cu) ---------------------------------------------------------------

// Scaled dot-product attention of each sequence, scale 1 / sqrt(head_dim), memory linear in the
// sequence (FlashAttention-2, Dao 2023). bf16: tensor cores, fp32 accumulation; fp32, other values
// than queries, padding and dropout: no tensor cores. head_dim, values(): multiples of 16 up to
// 256, with tensor cores up to 128. Query heads h * heads / kv_heads ... share key/value head h.
// qkv: [tokens, row()]; output: [tokens, heads * values()]; log_sum_exp: fp32 [heads, tokens],
// natural logarithm of the sum of exponentials of the scaled products; null: not kept.
//
// Padding and dropout of the probabilities. A sequence may end in padding, which no query sees; of
// a probability, the element's number in the global batch is that of [sequences, all heads,
// queries, keys].
struct ScoreRules {
  TokenIds tokens{};         // without ids: no padding
  std::int32_t padding = 0;  // the id that is none
  Dropout dropout{};
  std::int64_t first_sequence = 0;  // of these in the global batch
  std::int64_t first_head = 0, all_heads = 0;
  bool exist() const { return tokens.ids != nullptr || dropout.probability > 0; }
};
struct AttentionShape {
  HeadsShape heads;
  bool causal = true;
  // Else `log_sum_exp` is the probabilities, fp32 [heads of all sequences, sequence, sequence], as
  // a framework without a fused kernel keeps them. On the host only.
  bool fused = true;
  ScoreRules rules{};
  std::int64_t window = 0;  // keys that a query of a causal mask sees, its own included; 0: all
};
void attention_forward(const AttentionShape& shape, const void* qkv, void* output,
                       float* log_sum_exp, StreamHandle stream);
struct AttentionBackward {
  const void* qkv = nullptr;
  const void* output = nullptr;
  const float* log_sum_exp = nullptr;
  const void* gradient = nullptr;  // of output
  void* qkv_gradient = nullptr;    // every element is written
};
void attention_backward(const AttentionShape& shape, const AttentionBackward& operands,
                        Workspace workspace, StreamHandle stream);
std::int64_t attention_backward_workspace(const AttentionShape& shape);

// ---- Elementwise (elementwise.cu) ------------------------------------------------------------

// gelu (tanh form), relu, squared_relu: [rows, width] to [rows, width]. swiglu, geglu: [rows,
// 2 width] to [rows, width], first half gate. Output may be the input unless it is gated.
struct ActivationShape {
  sim::Function function = sim::Function::gelu;
  sim::DType dtype = sim::DType::bf16;
  std::int64_t rows = 0, width = 0;
};
void activation_forward(const ActivationShape& shape, const void* input, void* output,
                        StreamHandle stream);
// `saved`: the input, of relu the output (its input does as well). input_gradient may be `gradient`
// unless it is gated.
void activation_backward(const ActivationShape& shape, const void* saved, const void* gradient,
                         void* input_gradient, StreamHandle stream);

// output = a + b: residual sums, sums of gradients. May lie where a or b do.
void add(sim::DType dtype, std::int64_t elements, const void* a, const void* b, void* output,
         StreamHandle stream);
// to (+)= from, formats of their own: casts, and sums of gradients that arrived.
struct Cast {
  sim::DType from = sim::DType::bf16, to = sim::DType::bf16;
  bool accumulate = false;
  float scale = 1;  // of the input
};
void cast(const Cast& how, std::int64_t elements, const void* from, void* to, StreamHandle stream);
// Within the device; nothing where both are one place.
void copy(void* to, const void* from, std::int64_t bytes, StreamHandle stream);
// A zero of any format.
void zero(void* memory, std::int64_t bytes, StreamHandle stream);

// rows [rows, width] += bias [width]; for products whose epilogue did not add it.
void add_bias(sim::DType dtype, std::int64_t rows, std::int64_t width, const void* bias,
              void* output, StreamHandle stream);
// bias_gradient (+)= column sums of gradient [rows, width].
struct ColumnSum {
  sim::DType dtype = sim::DType::bf16, gradient_dtype = sim::DType::fp32;
  std::int64_t rows = 0, width = 0;
  bool accumulate = true;
};
void bias_gradient(const ColumnSum& shape, const void* gradient, void* bias_gradient,
                   Workspace workspace, StreamHandle stream);
std::int64_t bias_gradient_workspace(const ColumnSum& shape);

// Ranges of one buffer, side by side in another: `elements` from `at` (elements).
struct Range {
  std::int64_t at = 0, elements = 0;
};
// Device-to-device copies, one per range; null-free, any count.
void pack(sim::DType dtype, const Range* ranges, std::int64_t count, const void* from, void* packed,
          StreamHandle stream);
void unpack(sim::DType dtype, const Range* ranges, std::int64_t count, const void* packed, void* to,
            StreamHandle stream);

// ---- Mixtures of experts (experts.cu) --------------------------------------------------------

// Softmax over the scores of the experts that a token has chosen, over all where that is one.
// `probabilities`: fp32 [tokens, experts], zero for those that take no part; `weights`: fp32, of
// the copies in the order in which they are sent.
struct ChoiceShape {
  sim::DType dtype = sim::DType::bf16;  // of the scores
  Routing routing;
};
void choose(const ChoiceShape& shape, const void* scores, float* probabilities, float* weights,
            StreamHandle stream);
void choose_backward(const ChoiceShape& shape, const float* probabilities,
                     const float* weight_gradients, void* score_gradients, StreamHandle stream);

// A row for each choice of a token, and the sum of them.
struct CopyShape {
  sim::DType dtype = sim::DType::bf16;
  Routing routing;
  std::int64_t width = 0;
};
void copy_tokens(const CopyShape& shape, const void* tokens, void* copies, StreamHandle stream);
void sum_copies(const CopyShape& shape, const void* copies, void* tokens, StreamHandle stream);

// Rows as they came, and by expert.
struct SortShape {
  sim::DType dtype = sim::DType::bf16;
  Arrived arrived;
  std::int64_t width = 0;
};
void sort_copies(const SortShape& shape, const void* came, void* sorted, StreamHandle stream);
void restore_order(const SortShape& shape, const void* sorted, void* came, StreamHandle stream);

// Activations of rows by expert, each times its weight; weights lie as they came.
struct WeighedShape {
  sim::Function function = sim::Function::swiglu;
  sim::DType dtype = sim::DType::bf16;
  Arrived arrived;
  std::int64_t width = 0;
};
void weighed_forward(const WeighedShape& shape, const void* input, const float* weights,
                     void* output, StreamHandle stream);
// `saved`: the input, of relu the output.
struct WeighedBackward {
  const void* saved = nullptr;
  const float* weights = nullptr;
  const void* gradient = nullptr;
  void* input_gradient = nullptr;
  float* weight_gradients = nullptr;
};
void weighed_backward(const WeighedShape& shape, const WeighedBackward& operands,
                      StreamHandle stream);

// ---- Embedding and loss (embedding.cu, cross_entropy.cu) -------------------------------------

// Rows first_row ... first_row + rows of the table lie here; other tokens give zeros (a partial sum
// over the tensor ranks).
struct TableShape {
  sim::DType dtype = sim::DType::bf16;
  std::int64_t first_row = 0, rows = 0, width = 0;
};
void embedding_forward(const TableShape& shape, const TokenIds& tokens, const void* table,
                       void* output, StreamHandle stream);
struct TableGradient {
  const void* gradient = nullptr;  // [tokens, width]
  void* table_gradient = nullptr;
  sim::DType gradient_dtype = sim::DType::fp32;
  bool accumulate = true;
};
// Tokens of one id are added in their order (a stable sort by counting), then once to the table.
void embedding_backward(const TableShape& shape, const TokenIds& tokens,
                        const TableGradient& operands, Workspace workspace, StreamHandle stream);
std::int64_t embedding_backward_workspace(std::int64_t tokens);

// Learned positions: output = input + table[position], position = (first_token + t) % sequence.
// The table has rows 0 ... rows (first_row is 0).
struct Positions {
  std::int64_t tokens = 0, sequence = 0;  // sequence: tokens of it that are here
  std::int64_t first_token = 0;           // sequence parallel: where this rank's tokens begin
  ContextShare context{};
  constexpr std::int64_t position(std::int64_t t) const {
    return context.position((first_token + t) % sequence, sequence);
  }
};
void add_table_forward(const TableShape& shape, const Positions& positions, const void* table,
                       const void* input, void* output, StreamHandle stream);
void add_table_backward(const TableShape& shape, const Positions& positions,
                        const TableGradient& operands, StreamHandle stream);

// Cross-entropy over `classes` columns of which the first `valid` exist (the rest is padding of the
// vocabulary: never a target, exponential and gradient 0). Columns first ... first + classes of the
// vocabulary lie here.
struct LossShape {
  sim::DType dtype = sim::DType::bf16;
  std::int64_t first = 0, classes = 0;
  std::int64_t valid = 0;  // of these columns; may be 0
};
// Targets: ids as above, shifted by one by the caller (ids + 1).
// Pieces; where the vocabulary is split, the ranks reduce between them maximum (max), target_logit
// and exponential_sum (sum). Where this rank has all of it, loss_exponentials finds the maximum.
// maximum of no valid column: lowest float. exponentials: exp(x - maximum). target_logit: logit -
// maximum of the target where it lies here, else 0.
void loss_maximum(const LossShape& shape, std::int64_t tokens, const void* logits, float* maximum,
                  StreamHandle stream);
struct LossExponentials {
  const void* logits = nullptr;
  // Null: of the row itself; a target that is not here makes the loss NaN, so that it is seen.
  const float* maximum = nullptr;
  float* exponentials = nullptr;  // fp32 [tokens, classes], or null; fp32 logits may lie there
  float* target_logit = nullptr;
  float* exponential_sum = nullptr;
};
void loss_exponentials(const LossShape& shape, const TokenIds& targets,
                       const LossExponentials& operands, StreamHandle stream);
// *loss += sum over tokens of log(exponential_sum) - target_logit, divided by `parts`. Finishes the
// loss; with `exponentials`, divides them by their sum so that they become probabilities.
struct LossFinish {
  const float* target_logit = nullptr;
  const float* exponential_sum = nullptr;
  float* exponentials = nullptr;  // may be null: left as they are
  double parts = 1;
  double* loss = nullptr;
};
void loss_finish(const LossShape& shape, std::int64_t tokens, const LossFinish& operands,
                 StreamHandle stream);
// logit_gradient = scale * (saved / exponential_sum - one at the target), in the dtype of the
// logits; exponential_sum null: saved are probabilities already. Without `saved` they come again of
// the logits, less their maximum; where the maximum is null, the slice is the whole vocabulary and
// it follows from the target's logit. The gradient may lie where the logits do.
struct LossGradient {
  const float* saved = nullptr;
  const float* exponential_sum = nullptr;
  void* logit_gradient = nullptr;
  float scale = 1;
  const void* logits = nullptr;
  const float* maximum = nullptr;
  const float* target_logit = nullptr;
};
void loss_gradient(const LossShape& shape, const TokenIds& targets, const LossGradient& operands,
                   StreamHandle stream);

// ---- End of the step (optimizer.cu) ----------------------------------------------------------

// *sum (+)= sum of squares of elements [0, elements), fp32 scalar on the device. Calls that add to
// one sum follow each other on a stream with the same workspace.
struct SquareSum {
  sim::DType dtype = sim::DType::fp32;
  bool accumulate = false;
  float weight = 1;  // of this sum: 1 / ranks that hold the same elements
};
void square_sum(const SquareSum& how, std::int64_t elements, const void* values, float* sum,
                Workspace workspace, StreamHandle stream);
std::int64_t square_sum_workspace();
// norm = sqrt(*sum); clip_scale = min(1, clip / (norm + 1e-6)) as torch.nn.utils.clip_grad_norm_;
// clip 0: 1. A norm that is not finite gives clip_scale 1 (and is reported by the flag below).
void finish_norm(const float* sum, double clip, float* norm, float* clip_scale,
                 StreamHandle stream);
// *sum = NaN if *value is not finite.
void require_finite(const double* value, float* sum, StreamHandle stream);

// AdamW (Loshchilov & Hutter 2019; as torch.optim.AdamW): per element
//   g = gradient * clip_scale; w -= rate decay w (decay ranges only);
//   m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
//   w -= rate (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon).
// The weight moves by m and v in fp32, also where they are stored in bf16 (round to nearest).
// Element i of all arrays is element i of the owned range.
struct Adam {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, decay = 0.1;
  std::int64_t step = 1;  // from 1
};
struct AdamState {
  sim::DType weight_dtype = sim::DType::bf16, gradient_dtype = sim::DType::fp32;
  sim::DType moment_dtype = sim::DType::fp32;  // of m and v; all but adam() take fp32 alone
  void* weight = nullptr;
  float* master = nullptr;  // null: the weight is fp32 and its own master
  void* m = nullptr;
  void* v = nullptr;
  const void* gradient = nullptr;
  const float* clip_scale = nullptr;  // device scalar; null: 1
  const AdamStep* step = nullptr;     // device; null: from the settings
  // Device scalar (the gradient norm): where it is not finite, nothing is written. Null: no gate.
  const float* gate = nullptr;
};
// Weight decay acts on elements inside `decay_ranges` (device memory, ascending, disjoint).
struct DecayRanges {
  const Range* ranges = nullptr;
  std::int64_t count = 0;
};
void adam(const Adam& settings, const AdamState& state, std::int64_t elements,
          const DecayRanges& decay_ranges, StreamHandle stream);

// *first = min(*first, index) if any of the elements is not finite.
void find_not_finite(sim::DType dtype, std::int64_t elements, const void* values,
                     std::int32_t index, std::int32_t* first, StreamHandle stream);

// ---- Casts to 8 bits (eight_bit.cu) ----------------------------------------------------------

// The scale of a tensor is that of `operands`; the maximum is taken before it is multiplied.
void encode(const CodedShape& shape, const Encoded& operands, StreamHandle stream);
// The other order of codes. REQUIRES: one scale for the tensor.
void turn_codes(std::int64_t rows, std::int64_t columns, const std::uint8_t* codes,
                std::uint8_t* turned, StreamHandle stream);
// Current scaling: *maximum is raised to the largest magnitude; then the scale is made of it (1
// where there is none), and it is zero again.
void find_maximum(sim::DType dtype, std::int64_t elements, const void* values, float* maximum,
                  StreamHandle stream);
void make_scale(Float8 format, float* maximum, TensorScale* scale, StreamHandle stream);
// Delayed scaling: the maxima are brought to `all`, and are zero again; with those of all ranks
// scales follow from the largest of the history (a scale stays where that is zero or not finite).
void collect_maxima(const DelayedScales& state, float* all, StreamHandle stream);
void update_scales(const DelayedScales& state, const float* all, StreamHandle stream);

// ---- All of them -----------------------------------------------------------------------------

// DO(name of a kernel), for each that launches call.
// clang-format off
#define STEPCAST_KERNELS(DO)                                                                       \
  DO(norm_forward) DO(norm_backward) DO(norm_backward_workspace)                                   \
  DO(head_norm_forward) DO(head_norm_backward) DO(head_norm_backward_workspace)                    \
  DO(rotary_table_bytes) DO(fill_rotary_table) DO(rotary)                                          \
  DO(attention_forward) DO(attention_backward) DO(attention_backward_workspace)                    \
  DO(activation_forward) DO(activation_backward)                                                   \
  DO(add) DO(cast) DO(copy) DO(zero) DO(add_bias) DO(bias_gradient) DO(bias_gradient_workspace)    \
  DO(choose) DO(choose_backward) DO(copy_tokens) DO(sum_copies) DO(sort_copies) DO(restore_order)  \
  DO(weighed_forward) DO(weighed_backward)                                                         \
  DO(embedding_forward) DO(embedding_backward) DO(embedding_backward_workspace)                    \
  DO(add_table_forward) DO(add_table_backward)                                                     \
  DO(loss_maximum) DO(loss_exponentials) DO(loss_finish) DO(loss_gradient)                         \
  DO(square_sum) DO(square_sum_workspace) DO(finish_norm) DO(require_finite) DO(adam)              \
  DO(find_not_finite)                                                                              \
  DO(encode) DO(turn_codes) DO(find_maximum) DO(make_scale)                                      \
  DO(collect_maxima) DO(update_scales)
// clang-format on

struct Table {
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define STEPCAST_KERNEL(name) decltype(&kernels::name) name = nullptr;
  STEPCAST_KERNELS(STEPCAST_KERNEL)
#undef STEPCAST_KERNEL
};

// Puts work on a stream.
using Launch = std::function<void(StreamHandle)>;

// A kernel with all but its stream.
template <class... Parameters, class... Arguments>
Launch as_launch(void (*kernel)(Parameters...), const Arguments&... arguments) {
  return [=](StreamHandle stream) { kernel(arguments..., stream); };
}

inline Launch in_turn(Launch first, Launch second) {
  return [first = std::move(first), second = std::move(second)](StreamHandle stream) {
    first(stream);
    second(stream);
  };
}

}  // namespace real::kernels

namespace real {

constexpr bool is_norm(sim::Function function) {
  return function == sim::Function::layer_norm || function == sim::Function::layer_norm_no_bias ||
         function == sim::Function::rms_norm;
}
constexpr bool is_activation(sim::Function function) {
  return function >= sim::Function::gelu && function <= sim::Function::geglu;
}

}  // namespace real
