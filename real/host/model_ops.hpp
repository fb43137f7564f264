// Runs the actions of model operators: finds the operands of a BoundOp and calls the kernel of its
// function.
#pragma once

#include <string>
#include <vector>

#include "real/engine/bound_program.hpp"
#include "real/host/arena.hpp"
#include "real/host/kernels_attention.hpp"
#include "real/host/kernels_embedding.hpp"
#include "real/host/kernels_experts.hpp"
#include "real/host/kernels_loss.hpp"
#include "real/host/kernels_norm.hpp"
#include "real/host/step_state.hpp"

namespace real {

class ModelOps {
 public:
  ModelOps(const BoundProgram& program, Arena& arena, StepState& state);
  static bool runs(sim::Action action);
  void run(const BoundOp& op);

 private:
  void forward(const BoundOp& op);
  void backward(const BoundOp& op);
  // The same, function by function; a linear's passes are its own actions.
  void linear_forward_of(const BoundOp& op);
  void linear_input_gradient_of(const BoundOp& op);
  void linear_weight_gradient_of(const BoundOp& op);
  void bias_gradient_of(const BoundOp& op);
  void norm_forward_of(const BoundOp& op);
  void norm_backward_of(const BoundOp& op);
  void attention_forward_of(const BoundOp& op);
  void attention_backward_of(const BoundOp& op);
  void activation_forward_of(const BoundOp& op);
  void activation_backward_of(const BoundOp& op);
  void table_forward_of(const BoundOp& op);
  void table_backward_of(const BoundOp& op);
  void loss_maximum_of(const BoundOp& op);
  void loss_exponentials_of(const BoundOp& op);
  void loss_exponentials_with(const BoundOp& op, std::span<const float> maximum);
  std::span<const float> logits_of(const BoundOp& op);
  void loss_forward_of(const BoundOp& op);
  void loss_backward_of(const BoundOp& op);
  void choose_of(const BoundOp& op);
  void choose_backward_of(const BoundOp& op);
  void move_tokens_of(const BoundOp& op);
  void sort_tokens_of(const BoundOp& op);
  void weighed_forward_of(const BoundOp& op);
  void weighed_backward_of(const BoundOp& op);

  // Where an operator works that may be in place: `from` copied to `to` where both are given.
  std::span<float> in_place(const BoundOp& op, sim::Role from, sim::Role to);
  void keep_input(const BoundOp& op);
  std::span<const float> kept_input(const BoundOp& op);
  HeadNormShape head_norm_shape(const BoundOp& op, std::size_t elements) const;
  void rotate(const BoundOp& op, std::span<float> rows, bool inverse) const;
  AttentionSize attention_size(const BoundOp& op) const;
  TableSlice table_slice(const BoundOp& op, std::size_t elements) const;
  PositionShape positions(const BoundOp& op, std::size_t elements) const;
  ClassSlice class_slice(std::size_t logits) const;
  std::span<float> probabilities_of(const BoundOp& op, std::size_t elements);
  WeighedActivation weighed_activation(const BoundOp& op, std::size_t rows) const;

  const BoundProgram& program_;
  const sim::Model& model_;
  const sim::Layout& layout_;
  int tensor_ = 1, tensor_rank_ = 0;
  Arena& arena_;
  StepState& state_;
  std::vector<float> maximum_;  // of a token's logits
};

}  // namespace real
