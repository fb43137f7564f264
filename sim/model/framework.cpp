#include "sim/model/framework.hpp"

namespace sim {
namespace {

struct EagerForm {
  double forward = 0, backward = 0;  // elements read + written, per feature
  int forward_launches = 1, backward_launches = 1;
  double saved = 0;  // elements per feature
};

// native_layer_norm: one kernel forward; backward one for the input, reading x and dy and writing
// dx, and two for scale and shift, which read x and dy again.
constexpr EagerForm layer_norm{.forward = 2, .backward = 5, .backward_launches = 3};

// y = weight * (x.float() * rsqrt(mean(x.float()^2) + eps)).type_as(x)
// Forward: cast 1 + 2, square 2 + 2, mean 2, product 2 + 2, cast 2 + 1, weight 1 + 1; two more
// launches work on one number per token. Backward: of the weight's product 2 + (2 + 1) + 1 (its sum
// over tokens), cast 1 + 2, of the product (2 + 2) + (2 + 2 + 2) + 2, of the square (2 + 2) + (2 +
// 2), sum of the two gradients of x 2 + 2 + 2, cast 2 + 1. Saved: x in fp32, the normalised x.
constexpr EagerForm rms_norm{
    .forward = 18, .backward = 38, .forward_launches = 8, .backward_launches = 13, .saved = 3};

// q * cos + rotate_half(q) * sin, where rotate_half negates one half and concatenates; the same of
// the keys. Forward: two products 2 (1 + 1), negation 1, concatenation 1 + 1, sum 2 + 1. Backward:
// two products 2 (1 + 1), the two slices of the concatenation padded with zeros 2 (1 + 0.5 + 0.5),
// their sum 2 + 1, negation 1, sum 2 + 1. Saved by the attention behind: the turned tensors are new
// ones, and V, a view of the projection's output, keeps all of that alive beside them.
constexpr EagerForm rotary{
    .forward = 10, .backward = 15, .forward_launches = 10, .backward_launches = 18, .saved = 1};

// silu(gate) * up, per feature of the two halves' width: activation 1 + 1, product 2 + 1. Backward:
// of the product (2 + 1) + (2 + 1), of the activation 2 + 1, concatenation 2 + 2. Saved: gate, up
// and the activated gate.
constexpr EagerForm gate{
    .forward = 5, .backward = 13, .forward_launches = 2, .backward_launches = 4, .saved = 3};

// cross_entropy(logits.float()): cast 1 + 2, log-softmax 2 + 2. Backward: the gradient of the
// picked logit, zeroed 2, of the log-softmax 2 + 2 + 2, cast 2 + 1. Alive between the two, which
// follow each other: at its peak, in the backward pass of the log-softmax, the output of that and
// the gradients of its output and input, 2 + 2 + 2; the fused loss has 2 + 1, its exponentials and
// the gradient of the logits.
constexpr EagerForm loss{
    .forward = 7, .backward = 11, .forward_launches = 3, .backward_launches = 3, .saved = 3};

double real(std::int64_t value) {
  return static_cast<double>(value);
}

// `width`: features that the form counts in. What the fused form adds for the residual path stays.
void set(ModelOp& op, const EagerForm& form, double width, double fused_backward,
         bool keeps = true) {
  op.forward_elements = form.forward * width;
  op.backward_elements += form.backward * width - fused_backward;
  op.forward_launches = form.forward_launches;
  op.backward_launches = form.backward_launches;
  if (keeps && form.saved > 0) op.saved_elements = form.saved * width;
}

void set_op(const Framework& framework, ModelOp& op) {
  const bool keeps = framework.keeps_intermediates;
  const double out = real(op.out_features);
  const double in = real(op.in_features);
  switch (op.function) {
    case Function::rms_norm:
      if (framework.rms_norm == KernelForm::eager && !op.in_place)
        set(op, rms_norm, out, 3 * out, keeps);
      break;
    case Function::layer_norm:
    case Function::layer_norm_no_bias:
      if (framework.layer_norm == KernelForm::eager && !op.in_place)
        set(op, layer_norm, out, 3 * out);
      break;
    case Function::attention:
      // qkv.chunk(3): its backward concatenates the three gradients.
      if (framework.qkv == KernelForm::eager) op.backward_elements += 2 * in;
      break;
    case Function::rotary: {
      // The operator's width counts queries, keys and values; only the first two turn.
      const double turned = op.forward_elements / 2;
      if (framework.rotary == KernelForm::eager)
        set(op, rotary, turned, op.backward_elements, keeps);
      break;
    }
    case Function::swiglu:
    case Function::geglu:
      if (framework.gate == KernelForm::eager) set(op, gate, out, op.backward_elements, keeps);
      break;
    case Function::cross_entropy:
      if (framework.loss == KernelForm::eager) set(op, loss, in, op.backward_elements);
      break;
    default:
      break;
  }
}

void set_block(const Framework& framework, Block& block) {
  for (ModelOp& op : block.ops)
    set_op(framework, op);
}

}  // namespace

Framework framework_of(FrameworkName name) {
  Framework framework;
  framework.name = name;
  if (name == FrameworkName::pytorch) {
    framework.layer_norm = framework.qkv = KernelForm::eager;
    framework.rms_norm = framework.rotary = framework.gate = KernelForm::eager;
    framework.softmax = framework.loss = KernelForm::eager;
  }
  return framework;
}

void run_with(const Framework& framework, Model& model) {
  model.attention.eager_softmax = framework.softmax == KernelForm::eager;
  set_block(framework, model.input);
  for (Block& layer : model.layers)
    set_block(framework, layer);
  set_block(framework, model.output);
}

}  // namespace sim
