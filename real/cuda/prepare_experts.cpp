// Mixtures of experts: the choice, the way of copies, and the activation that weights multiply.
#include "real/cuda/prepare.hpp"
#include "real/engine/operator_facts.hpp"

namespace real {

using sim::Role;

namespace {

float* floats(std::byte* memory) {
  return reinterpret_cast<float*>(memory);
}

}  // namespace

// The softmax lies at the start of what the router keeps.
Launch Preparation::choose(const BoundOp& op, bool backward) {
  const kernels::ChoiceShape shape = shapes_.choice(op);
  float* probabilities = floats(at(op, Role::saved));
  if (backward) {
    const float* gradients = floats(at(op, Role::choice_gradient));
    std::byte* to = at(op, Role::input_gradient);
    return [=](cudaStream_t stream) {
      kernels::choose_backward(shape, probabilities, gradients, to, stream);
    };
  }
  const std::byte* scores = at(op, Role::input);
  float* weights = floats(at(op, Role::choice_weights));
  return
      [=](cudaStream_t stream) { kernels::choose(shape, scores, probabilities, weights, stream); };
}

Launch Preparation::move_tokens(const BoundOp& op) {
  const kernels::CopyShape shape = shapes_.copies(op);
  const auto move = is_to_experts(op) ? kernels::copy_tokens : kernels::sum_copies;
  const std::byte* from = at(op, Role::input);
  std::byte* to = at(op, Role::output);
  return [=](cudaStream_t stream) { move(shape, from, to, stream); };
}

Launch Preparation::sort_tokens(const BoundOp& op) {
  const kernels::SortShape shape = shapes_.sorted(op);
  const auto sort = is_to_experts(op) ? kernels::sort_copies : kernels::restore_order;
  const std::byte* from = at(op, Role::input);
  std::byte* to = at(op, Role::output);
  return [=](cudaStream_t stream) { sort(shape, from, to, stream); };
}

Launch Preparation::weighed_forward(const BoundOp& op) {
  const kernels::WeighedShape shape = shapes_.weighed(op);
  const std::byte* input = at(op, Role::input);
  const float* weights = floats(at(op, Role::choice_weights));
  std::byte* output = at(op, Role::output);
  return keep_input(op, [=](cudaStream_t stream) {
    kernels::weighed_forward(shape, input, weights, output, stream);
  });
}

Launch Preparation::weighed_backward(const BoundOp& op) {
  const kernels::WeighedShape shape = shapes_.weighed(op);
  const kernels::WeighedBackward operands{
      .saved = at(op, kept_of(op)),
      .weights = floats(at(op, Role::choice_weights)),
      .gradient = at(op, Role::gradient),
      .input_gradient = at(op, Role::input_gradient),
      .weight_gradients = floats(at(op, Role::choice_gradient))};
  return [=](cudaStream_t stream) { kernels::weighed_backward(shape, operands, stream); };
}

}  // namespace real
