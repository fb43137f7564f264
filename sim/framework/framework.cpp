#include "sim/framework/framework.hpp"

#include <algorithm>

#include "sim/framework/chunked_loss.hpp"
#include "sim/framework/expert_kernels.hpp"

namespace sim {
namespace {

// Elements read and written, per feature.
struct EagerForm {
  double forward = 0, backward = 0;
  // Those among them that kernels with a broadcast or a strided tensor move.
  double forward_strided = 0, backward_strided = 0;
  int forward_launches = 1, backward_launches = 1;
  double saved = 0;
};

// native_layer_norm: one kernel forward; backward one for the input and two for scale and shift,
// which read x and dy again. Fitted to layer_norm of
// topologies/devices/measurements/torch_kernels.csv and h200_kernels.csv: a kernel that reads them
// once would move 3.
constexpr EagerForm layer_norm{.forward = 2, .backward = 3.5, .backward_launches = 3};

// torch.compile's, a kernel forward, two backward: a row is read for its sum and again for the
// result, 2 + 1; backward x and dy twice, dx written, 2 (1 + 1) + 1, and both again for the
// gradient of the weight, 1 + 1. So measured (rms_norm_compiled of torch_kernels.csv).
constexpr EagerForm compiled_norm{.forward = 3, .backward = 7, .backward_launches = 2};

// y = weight * (x.float() * rsqrt(mean(x.float()^2) + eps)).type_as(x)
// Forward: cast 1 + 2, square 2 + 2, mean 2, product 2 + 2, cast 2 + 1, weight 1 + 1; two more
// launches work on one number per token. Backward: of the weight's product 2 + (2 + 1) + 1 (its sum
// over tokens), cast 1 + 2, of the product (2 + 2) + (2 + 2 + 2) + 2, of the square (2 + 2) + (2 +
// 2), sum of the two gradients of x 2 + 2 + 2, cast 2 + 1. Saved: x in fp32, the normalised x.
// `strided`, for what reductions and broadcasts of one number per token or feature cost more than
// element-wise kernels: fitted to rms_norm of topologies/devices/measurements/torch_kernels.csv.
constexpr EagerForm rms_norm{.forward = 18,
                             .backward = 38,
                             .forward_strided = 5,
                             .backward_strided = 20.5,
                             .forward_launches = 8,
                             .backward_launches = 13,
                             .saved = 3};

// q * cos + rotate_half(q) * sin, where rotate_half negates one half and concatenates; the same of
// the keys. Forward: two products 2 (1 + 1), negation 1, concatenation 1 + 1, sum 2 + 1. Backward:
// two products 2 (1 + 1), the two slices of the concatenation padded with zeros 2 (1 + 0.5 + 0.5),
// their sum 2 + 1, negation 1, sum 2 + 1. Saved by the attention behind: the turned tensors are new
// ones, and V, a view of the projection's output, keeps all of that alive beside them. Strided: the
// products, whose cosine is broadcast over heads, and what works on halves of a head but zeros.
constexpr EagerForm rotary{.forward = 10,
                           .backward = 15,
                           .forward_strided = 7,
                           .backward_strided = 7,
                           .forward_launches = 10,
                           .backward_launches = 18,
                           .saved = 1};

// Heads that are turned in part (phi3, glm4): the turned part and the rest are put together. Per
// feature of the whole, reads and writes 1 + 1; backward, of the two slices, zeros 1 + 1, the parts
// copied into them 1 + 1, their sum 2 + 1; of queries and of keys.
constexpr EagerForm turned_part{
    .forward = 2, .backward = 7, .forward_launches = 2, .backward_launches = 10};

// (x.float().view(complex) * freqs).view(float).type_as(x). Forward: cast 1 + 2, product 2 + 2,
// cast 2 + 1, of queries and of keys; backward the same with the conjugate.
constexpr EagerForm complex_rotary{
    .forward = 10, .backward = 10, .forward_launches = 6, .backward_launches = 6, .saved = 1};

// silu(gate) * up, per feature of the two halves' width: activation 1 + 1, product 2 + 1. Backward:
// of the product (2 + 1) + (2 + 1), of the activation 2 + 1, concatenation 2 + 2. Saved: gate, up
// and the activated gate.
constexpr EagerForm gate{
    .forward = 5, .backward = 13, .forward_launches = 2, .backward_launches = 4, .saved = 3};

// cross_entropy(logits.float()): cast 1 + 2, log-softmax 3 2 + 2: a row that is too long for shared
// memory is read for its maximum, its sum and its result (ATen/native/cuda/SoftMax.cu,
// cunn_SoftMaxForward). Backward: the gradient of the picked logit, zeroed 2, of the log-softmax
// 2 + (2 + 2) + 2 (cunn_SoftMaxBackward, which sums it first), cast 2 + 1. Alive between the two,
// which follow each other: at its peak, in the backward pass of the log-softmax, the output of that
// and the gradients of its output and input, 2 + 2 + 2; the fused loss has 2 + 1, its exponentials
// and the gradient of the logits.
constexpr EagerForm loss{
    .forward = 11, .backward = 13, .forward_launches = 3, .backward_launches = 3, .saved = 3};

// The same over a split vocabulary (torch/distributed/tensor/parallel/loss.py). Forward: cast 1 +
// 2, maximum 2, difference 2 + 2, exponential 2 + 2, its sum 2, difference 2 + 2. Backward: zeros
// 2, exponential 2 + 2, sum 2 + 2 + 2, product 2 + 2, cast 2 + 1.
constexpr EagerForm split_loss{.forward = 19, .backward = 19};

// Megatron-LM's own without fusion (core/tensor_parallel/cross_entropy.py,
// VocabParallelCrossEntropy): cast 1 + 2, maximum 2, subtraction in place 2 + 2, exponential in
// place 2 + 2, its sum 2, division in place 2 + 2. Backward as the fused one: scaling in place 2 +
// 2, cast back 2 + 1. What it does for one class per token is little.
constexpr EagerForm separate_loss{
    .forward = 19, .backward = 7, .forward_launches = 10, .backward_launches = 4};

// The logits are read for the maximum and for the sum of exponentials; backward they are read and
// their gradient is written (flash-attn, csrc/xentropy/xentropy_kernel.cu, forward with
// cunn_SoftMaxXEntropyForward, backward with cunn_SoftMaxXEntropyBackward).
constexpr EagerForm logits_loss{.forward = 2, .backward = 2};

// Ways of tokens in torchtitan (v0.2.2, models/moe/moe.py and utils.py, operator by operator: what
// is compiled are the parts of a layer, not what stands between them). Per feature of a choice, the
// tokens themselves counted once besides (sim/plan/sharding/experts.cpp).
//   dispatch  forward: rows picked, 1 + 1. Launches: histc, a stable sort of int64 keys (a
//   histogram
//             and eight passes), the division by the choices, scores and rows picked. Backward of
//             indexing: sorted the same way, rows read and added, 1 + 1
//   combine   forward: zeros 1, rows put 1 + 1, cast 1 + 2, bmm with the scores in fp32 2. Backward
//             of bmm: of the scores 2, of the rows 2 x 7.5; cast 2 + 1, rows picked 1 + 1. Kept:
//             the fp32 rows. The bmm of the rows multiplies columns by rows in fp32 without tensor
//             cores: 6 to 9 ms on a B200 where memory allows 1, compiled or not
//             (pytorch/torchtitan, pull request 2466)
constexpr EagerForm titan_dispatch{
    .forward = 2, .backward = 2, .forward_launches = 17, .backward_launches = 13};
constexpr EagerForm titan_combine{
    .forward = 8, .backward = 22, .forward_launches = 7, .backward_launches = 7, .saved = 2};
// The same compiled as a whole (b5bcd76c, models/common/token_dispatcher.py,
// distributed/compile.py: layers with fullgraph): sorts stay kernels of their own, the rest is
// fused.
//   dispatch  backward: rows read and added, 1 + 2
//   combine   forward: rows times scores 1 + 1, added 1 + 2. Backward: rows picked times scores 1 +
//             1, of the scores 1 + 1. Kept: the 16-bit rows
constexpr EagerForm compiled_dispatch{
    .forward = 2, .backward = 3, .forward_launches = 13, .backward_launches = 2};
constexpr EagerForm compiled_combine{
    .forward = 5, .backward = 4, .forward_launches = 3, .backward_launches = 2, .saved = 1};
// The router: cast, sigmoid or softmax, bias, top-k (2), gather, sum, epsilon, division, factor,
// histc (2), its sum over micro-batches. Backward: of the gather (2), of the norm (5), of the
// score, the cast. Each reads or writes about one fp32 value per token and expert. Compiled: the
// score, top-k (2), the weights, counts (2); backward of the weights and of the score.
constexpr int titan_choices = 14, titan_choices_backward = 10;
constexpr int compiled_choices = 6, compiled_choices_backward = 3;

double real(std::int64_t value) {
  return static_cast<double>(value);
}

// `width`: features that the form counts in. What the fused form adds for the residual path stays.
void set(ModelOp& op, const EagerForm& form, double width, double fused_backward,
         bool keeps = true) {
  op.forward_elements = form.forward * width;
  op.backward_elements += form.backward * width - fused_backward;
  op.forward_strided = form.forward_strided * width;
  op.backward_strided = form.backward_strided * width;
  op.forward_launches = form.forward_launches;
  op.backward_launches = form.backward_launches;
  if (keeps && form.saved > 0) op.saved_elements = form.saved * width;
}

// A norm of heads, which works in place, is fused with what is around it where there is a compiler;
// else it is two norms, of queries and of keys, as is one over all heads. What of several kernels
// is not strided is element-wise.
void set_norm(ModelOp& op, NormForm form, const EagerForm& eager, std::int64_t head_dim,
              bool keeps) {
  const bool of_heads = op.in_place && op.in_features == head_dim;
  if (form == NormForm::fused || (of_heads && form == NormForm::compiled)) return;
  const EagerForm& passes = form == NormForm::eager ? eager : compiled_norm;
  // Norms of heads: the width of all heads, which the fused form reads once and writes twice.
  const double width = of_heads ? op.forward_elements / 3 : real(op.out_features);
  set(op, passes, width, 3 * width, keeps);
  if (op.in_place) {
    op.forward_launches *= 2;
    op.backward_launches *= 2;
  }
  if (op.forward_strided == 0) return;
  op.forward_beside = op.forward_elements - op.forward_strided;
  op.backward_beside = op.backward_elements - op.backward_strided;
}

// repeat_kv: keys and values are copied to as many heads as queries have, behind the rotary
// embedding, and the gradients of the copies added up: reads of one width, writes of the other.
// Attention keeps the copies.
double repeated_keys(const AttentionShape& shape) {
  return 2 * real((shape.heads + shape.kv_heads) * shape.head_dim);
}

// Forward: a row is read for its maximum and sum, and again for the gradient that is written over
// it; backward: scaled in place (Transformer Engine, common/triton/cross_entropy.py,
// online_softmax_kernel, cross_entropy_kernel and element_mul_kernel).
void set_in_place_loss(ModelOp& op) {
  const double classes = real(op.in_features);
  op.in_place = true;
  op.forward_elements = 3 * classes;
  op.backward_elements = 2 * classes;
  op.forward_launches = 2;
  op.saved_fixed_bytes = 0;
}

// Forward as in place; what the backward pass multiplies is the gradient of the head's input (Liger
// at 00eba634, ops/fused_linear_cross_entropy.py).
void set_chunked_loss(ModelOp& op) {
  set_in_place_loss(op);
  op.backward_elements = 1;
  op.forward_launches = 1;
}

void set_loss(const Framework& framework, double classes, ModelOp& op) {
  if (framework.loss != LossForm::fused) op.backward_scratch_bytes = 0;
  if (framework.loss == LossForm::eager) {
    set(op, loss, classes, op.backward_elements);
    op.forward_split_elements = (split_loss.forward - loss.forward) * classes;
    op.backward_split_elements = (split_loss.backward - loss.backward) * classes;
  }
  if (framework.loss == LossForm::separate) set(op, separate_loss, classes, op.backward_elements);
  if (framework.loss == LossForm::keeps_logits) {
    set(op, logits_loss, classes, op.backward_elements);
    op.saved_fixed_bytes = 0;
  }
  if (framework.loss == LossForm::in_place) set_in_place_loss(op);
  if (framework.loss == LossForm::chunked) set_chunked_loss(op);
  if (framework.accuracy) op.forward_elements += 2 * classes;
  // PyTorch's own loss of the same logits, without a backward pass.
  const int metrics = framework.execution.loss_metrics;
  op.backward_elements += metrics * loss.forward * classes;
  op.backward_launches += metrics * loss.forward_launches;
}

void set_rotary(const Framework& framework, const AttentionShape& shape, ModelOp& op) {
  if (framework.rotary == RotaryForm::fused) return;
  // The operator's width counts queries, keys and values; only the first two turn.
  const double width = op.forward_elements / 2;
  const EagerForm& form = framework.rotary == RotaryForm::complex ? complex_rotary : rotary;
  // Transformer Engine's attention copies values that are a view of the projection's output, which
  // then is not kept (d0067d0d, pytorch/attention/dot_product_attention, get_qkv_layout).
  const bool keeps = framework.keeps_intermediates && framework.name != FrameworkName::megatron;
  set(op, form, width * shape.rotary_share, op.backward_elements, keeps);
  if (shape.rotary_share == 1) return;
  op.forward_elements += turned_part.forward * width;
  op.backward_elements += turned_part.backward * width;
  op.forward_launches += turned_part.forward_launches;
  op.backward_launches += turned_part.backward_launches;
  if (keeps) op.saved_elements = form.saved * width;
}

// Latent attention of NeMo Automodel (36044ad3, components/models/deepseek_v3/layers.py,
// MLA.forward; rope_utils.py, apply_rotary_emb). The rotary parts of the queries are turned as
// complex numbers, and queries and keys are put together anew; the keys' part, the same for all
// heads, is small. Forward, of the turned part 10; of queries 1 + 1; of keys, the plain part 1, all
// 1. Backward, of the turned part 10; the halves of the queries' gradient and of what the wide
// product made put together 1 + 1; the keys' rotary gradient summed over heads, 1.
void set_latent_rotary(const Framework& framework, const TransformerShape& shape, ModelOp& op) {
  if (framework.rotary != RotaryForm::complex) return;
  const LatentAttention& latent = shape.latent;
  const double heads = real(shape.heads), turned = heads * real(latent.rotary_dim),
               plain = heads * real(latent.plain_dim), queries = heads * real(shape.head_dim),
               made = heads * real(latent.plain_dim + latent.value_dim);
  op.forward_elements = complex_rotary.forward * turned + 2 * queries + plain + queries;
  op.backward_elements = complex_rotary.backward * turned + 2 * queries + 2 * made + turned;
  op.forward_launches = complex_rotary.forward_launches + 2;
  op.backward_launches = complex_rotary.backward_launches + 3;
}

// Each kernel reads or writes one fp32 value per token and expert; the scores are kept in fp32.
void set_choices(int forward, int backward, ModelOp& op) {
  constexpr double fp32_elements = 2;  // of 16 bits
  const double scores = real(op.out_features);
  op.forward_launches = forward;
  op.backward_launches = backward;
  op.forward_elements = forward * fp32_elements * scores;
  op.backward_elements = backward * fp32_elements * scores;
  op.saved_fixed_bytes = 4 * scores;
}

// Transformer Engine's fused choice (at d0067d0d, common/fused_router; Megatron-LM at d98e8a64,
// core/transformer/moe/moe_utils.py, `fused`), of the 30 launches of sim/model/experts.cpp: one for
// the 10 of the choice, one for the 7 of the scores of the loss, two for the 4 of its sums. Bytes
// per token and expert: choice, scores, map and intermediate 4 + 4 + 1 + 4 with the logits; the
// same of the loss; its sums 4 + 1; the dispatcher's count 1. Backward: of the choice 1 + 4 + 4 +
// 4, of the scores 4 + 4 + 4, of the loss 4; both added 12, and scaled by one launch. Kept:
// intermediates 2 x 4 and maps 2 x 1.
void set_fused_choice(ModelOp& op) {
  constexpr double bytes_of_element = 2;
  const double scores = real(op.out_features);
  op.forward_launches = 13;
  op.backward_launches = 5;
  op.forward_elements = 32 / bytes_of_element * scores;
  op.backward_elements = 41 / bytes_of_element * scores;
  op.saved_fixed_bytes = 10 * scores;
}

// HEAD pads no experts, and compiles a layer with its exchange.
void set_titan_way(const Framework& framework, ModelOp& op) {
  const bool compiled = framework.execution.expert_rows == 1 && framework.gate == KernelForm::fused;
  if (op.kind == ModelOpKind::router)
    return set_choices(compiled ? compiled_choices : titan_choices,
                       compiled ? compiled_choices_backward : titan_choices_backward, op);
  const bool dispatch = op.kind == ModelOpKind::dispatch;
  const EagerForm& form = dispatch ? (compiled ? compiled_dispatch : titan_dispatch)
                                   : (compiled ? compiled_combine : titan_combine);
  op.forward_elements = form.forward;
  op.backward_elements = form.backward;
  op.forward_launches = form.forward_launches;
  op.backward_launches = form.backward_launches;
  // Per choice: where its token lies, here and where it came, in 64 bits, and its weight; or rows.
  op.saved_fixed_bytes = dispatch ? 20 : form.saved * 2 * real(op.in_features);
}

void set_op(const Framework& framework, const AttentionShape& shape, ModelOp& op) {
  const bool repeats = framework.key_heads == KernelForm::eager && shape.kv_heads < shape.heads;
  const bool keeps = framework.keeps_intermediates;
  const double out = real(op.out_features);
  const double in = real(op.in_features);
  switch (op.function) {
    case Function::rms_norm:
      set_norm(op, framework.rms_norm, rms_norm, shape.head_dim, keeps);
      break;
    case Function::layer_norm:
    case Function::layer_norm_no_bias:
      set_norm(op, framework.layer_norm, layer_norm, shape.head_dim, keeps);
      break;
    case Function::attention:
      if (shape.dropout) break;  // no measured run has both: the forecast is that of fused kernels
      // qkv.chunk(3): its backward concatenates the three gradients.
      if (framework.qkv == KernelForm::eager) op.backward_elements += 2 * in;
      if (repeats && keeps)
        op.saved_elements += 2 * real((shape.heads - shape.kv_heads) * shape.head_dim);
      break;
    case Function::rotary:
      set_rotary(framework, shape, op);
      if (!repeats) break;
      op.forward_elements += repeated_keys(shape);
      op.backward_elements += repeated_keys(shape);
      op.forward_launches += 2;
      op.backward_launches += 2;
      break;
    case Function::swiglu:
    case Function::geglu:
      // Automodel compiles the gate of its experts (components/moe/megatron/moe_utils.py,
      // weighted_bias_swiglu_impl).
      if (framework.gate == KernelForm::eager &&
          !(op.experts > 0 && is_of_automodel(framework.execution.experts)))
        set(op, gate, out, op.backward_elements, keeps);
      break;
    case Function::cross_entropy:
      set_loss(framework, in, op);
      break;
    case Function::route:
    case Function::exchange:
      if (framework.execution.experts == ExpertForm::torchtitan) set_titan_way(framework, op);
      if (framework.execution.experts == ExpertForm::megatron &&
          framework.execution.router_fusion && op.kind == ModelOpKind::router)
        set_fused_choice(op);
      if (is_of_automodel(framework.execution.experts) && op.kind == ModelOpKind::router)
        set_choices(titan_choices, titan_choices_backward, op);
      break;
    default:
      break;
  }
}

// Between convolution and scan of a gated delta net as transformers runs it without a compiler
// (models/qwen3_next/modular_qwen3_next.py and qwen3_5, Qwen3NextGatedDeltaNet.forward, with
// flash-linear-attention, ops/gated_delta_rule, use_qk_l2norm_in_kernel). With Q features of
// queries and keys, R of both once repeated for the heads of values, V of values, H heads:
//   forward   repeated Q + R; unit length R + R; values made contiguous V + V; strength H + H;
//   decay
//             cast 1 + 2, bias, softplus and product (2 + 2) H each, three launches on A_log
//   backward  of the unit length R + R + R; of the repetition R + Q; the three gradients put
//   together
//             2 (Q + V); of the decay: product (2 + 2) + (2 + 2), softplus 2 + 2 + 2, cast 2 + 1,
//             of its bias 2; of the strength 1 + 1 + 1
//   kept      decay, its softplus and its input, in fp32
void set_delta_gates(const GatedDeltaNet& net, ModelOp& op) {
  const double heads = real(net.value_heads), keys = 2 * real(net.keys()),
               values = real(net.values()), repeated = 2 * heads * real(net.key_dim);
  const bool repeats = net.value_heads > net.key_heads;
  const double copies = repeats ? keys + repeated : 0;
  op.forward_elements = copies + 2 * repeated + 2 * values + 17 * heads;
  op.backward_elements = copies + 3 * repeated + 2 * (keys + values) + 22 * heads;
  op.forward_launches = (repeats ? 2 : 0) + 2 + 1 + 1 + 4 + 3;
  op.backward_launches = (repeats ? 2 : 0) + 2 + 1 + 1 + 6 + 3;
  op.saved_elements = 6 * heads;
}

bool is_gate(const ModelOp& op) {
  return op.function == Function::swiglu || op.function == Function::geglu;
}

// The gradients of gate and up-projection are two tensors: without the split's concatenation, 2
// + 2.
void split_gate_gradients(const Framework& framework, ModelOp& product) {
  if (framework.gate == KernelForm::eager)
    product.backward_elements -= 4 * real(product.out_features);
}

// Gate and up-projection as two products.
void separate_gate(const Framework& framework, ModelOp& linear, ModelOp& product) {
  linear.products = 2;
  split_gate_gradients(framework, product);
}

void set_block(const Framework& framework, const AttentionShape& shape, Block& block) {
  for (ModelOp& op : block.ops)
    set_op(framework, shape, op);
  for (std::size_t i = 1; i < block.ops.size(); ++i) {
    if (!is_gate(block.ops[i])) continue;
    if (!framework.joint_gate)
      separate_gate(framework, block.ops[i - 1], block.ops[i]);
    else if (framework.name == FrameworkName::transformers)
      split_gate_gradients(framework, block.ops[i]);
  }
}

}  // namespace

void run_with(const Framework& framework, Model& model) {
  model.attention.eager_softmax = framework.softmax == KernelForm::eager;
  model.attention.softmax_in_fours = framework.name == FrameworkName::megatron ||
                                     framework.name == FrameworkName::megatron_deepspeed;
  model.execution = framework.execution;
  model.execution.copies_tokens = framework.token_collectives == KernelForm::eager;
  model.execution.copies_weights = framework.weight_gathers == KernelForm::eager;
  model.execution.optimizer = framework.optimizer;
  model.execution.chunks_logits = framework.loss == LossForm::chunked;
  if (framework.loss == LossForm::keeps_logits)
    model.execution.held_logits = std::max(model.execution.held_logits, 1);
  set_block(framework, model.attention, model.input);
  for (Block& layer : model.layers)
    set_block(framework, model.attention, layer);
  set_block(framework, model.attention, model.output);
  for (Block& layer : model.layers)
    for (ModelOp& op : layer.ops)
      if (op.function == Function::latent_rotary) set_latent_rotary(framework, *model.shape, op);
  // NeMo Automodel runs the module of transformers (components/models/qwen3_5_moe at 36044ad3).
  if (model.is_hybrid() &&
      (framework.gate == KernelForm::eager || is_of_automodel(framework.execution.experts)))
    for (Block& layer : model.layers)
      for (ModelOp& op : layer.ops)
        if (op.name == "delta_gates") set_delta_gates(model.shape->hybrid.delta_net, op);
  add_expert_kernels(framework, model);
  for (Model& encoder : model.vision) {
    run_with(framework, encoder);
    encoder.execution.recomputes_head = false;  // that is its projector
  }
}

void run_with_chunked_loss(Model& model) {
  if (model.execution.chunks_logits) return;
  model.execution.chunks_logits = true;
  model.execution.held_logits = 0;
  for (ModelOp& op : model.output.ops) {
    if (op.function != Function::cross_entropy) continue;
    op.forward_split_elements = op.backward_split_elements = 0;
    op.saved_elements = op.backward_scratch_bytes = 0;
    set_chunked_loss(op);
  }
}

}  // namespace sim
