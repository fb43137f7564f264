// Shapes of operators as the kernels take them.
#pragma once

#include <cstdint>

#include "real/engine/bound_program.hpp"
#include "real/engine/kernels.hpp"
#include "real/engine/kernels/attention.hpp"
#include "real/engine/kernels/latent.hpp"
#include "real/engine/kernels/products.hpp"
#include "real/engine/kernels/shared_heads.hpp"
#include "real/engine/operator_facts.hpp"

namespace real {

class OpShapes {
 public:
  explicit OpShapes(const BoundProgram& program);

  kernels::NormShape norm(const BoundOp& op) const;
  bool is_head_norm(const BoundOp& op) const;
  kernels::HeadsShape heads(std::int64_t bytes) const;  // of [q|k|v] rows in so many bytes
  // The elements of a head that an operator turns by positions; 0: it turns none.
  std::int64_t turned(const BoundOp& op) const;
  bool shares_key_heads() const;
  // REQUIRES: tensor ranks share key/value heads.
  kernels::SharedHeads shared_heads() const;
  kernels::AttentionShape attention(const BoundOp& op) const;
  // REQUIRES: latent attention.
  kernels::LatentHeads latent_heads() const;
  kernels::SplitRows latent_rows() const;            // compressed keys and values, and rotary keys
  bool makes_rotary_keys(const BoundOp& op) const;   // the narrow product
  bool passes_rotary_keys(const BoundOp& op) const;  // the norm behind it
  kernels::ActivationShape activation(const BoundOp& op) const;
  kernels::ChoiceShape choice(const BoundOp& op) const;
  kernels::CopyShape copies(const BoundOp& op) const;
  kernels::SortShape sorted(const BoundOp& op) const;
  kernels::WeighedShape weighed(const BoundOp& op) const;
  kernels::ColumnSum bias_sum(const BoundOp& op) const;
  // The share of all elements of a site's parameters that is no bias of a linear.
  std::int64_t matrix_elements(const BoundOp& op, std::int64_t all) const;
  kernels::TableShape table(const BoundOp& op, const Operand& parameters,
                            sim::DType parameter_dtype) const;
  kernels::Positions positions(const BoundOp& op, std::int64_t bytes) const;
  kernels::LossShape loss(const BoundOp& op) const;
  GemmShape gemm(const BoundOp& op) const;
  kernels::TokenIds ids(const BoundOp& op, const std::int32_t* all, std::int64_t shift) const;
  // The labels among a step's numbers: one behind each sequence.
  kernels::TokenIds labels(const BoundOp& op, const std::int32_t* all) const;
  // Tokens of a micro-batch, or its sequences where the operator works on one token of each.
  std::int64_t rows(const BoundOp& op) const;
  // The place in the global batch where the samples of the operator's micro-batch begin.
  std::int64_t first_sequence(const BoundOp& op) const;
  // The first head of an attention's share, among all heads.
  std::int64_t first_head(const BoundOp& op, const FeatureShare& share) const;
  // Bytes.
  std::int64_t workspace_of(const BoundOp& op, const kernels::Table& kernels,
                            Attentions attentions) const;

  sim::DType activations() const { return layout_.activation_dtype; }
  sim::DType gradients() const { return layout_.gradient_dtype; }
  const sim::Layout& layout() const { return layout_; }

 private:
  bool next_is_narrower(const sim::Site& site, int offset) const;
  std::int64_t inputs_of_linear(const BoundOp& op) const;  // that this rank has
  std::int64_t split(const BoundOp& op) const;             // of its features: tensor ranks or 1

  const BoundProgram& program_;
  const sim::Model& model_;
  const sim::Layout& layout_;
  std::int64_t tensor_ = 1, tensor_rank_ = 0;
  std::int64_t tokens_ = 0;
};

}  // namespace real
