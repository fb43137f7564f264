// Kernels, collectives and names of an operator, as numbers in the tables of its program.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/lowering/tensors.hpp"
#include "sim/plan/sharding/micro_pipeline.hpp"
#include "sim/plan/sharding/user_buffers.hpp"

namespace sim::lowering {

// Interned work of an operator of a distinct block.
struct OpWork {
  std::uint32_t name = 0, gradient_name = 0, weight_name = 0, bias_name = 0, encode_name = 0;
  std::uint32_t gather_name = 0, sum_name = 0;
  std::uint32_t forward = none, backward = none;
  std::uint32_t encode_input = none, encode_saved = none, encode_gradient = none;
  std::uint32_t encode_weight = none, encode_saved_weight = none;
  // Linears: the products of a pass, in turn. Others that run again: one kernel.
  std::vector<std::uint32_t> products, products_again, input_gradients, weight_gradients;
  std::uint32_t sum_products = none, rescale_input_gradient = none, rescale_weight_gradient = none;
  std::uint32_t reorder_name = 0, reorder_input = none, reorder_output = none;
  std::uint32_t gather_input = none;     // all-gather of the input (column)
  std::uint32_t sum_gradient = none;     // reduction of the input gradient (column)
  std::uint32_t sum_output = none;       // reduction of the output (row, embedding)
  std::uint32_t gather_gradient = none;  // all-gather of the output gradient (row, embedding)
  std::uint32_t loss_maximum = none, loss_sum = none;  // vocabulary-parallel loss
  std::uint32_t gather_output = none, join_output = none, own_output = none;
  std::uint32_t spread_gradient = none, scatter_gradient = none;
  std::uint32_t gather_beside = none, sum_beside = none;
  std::uint32_t add_products = none;
  UserBufferWork buffers;
  SlicedWork sliced_forward, sliced_again, sliced_gradient;
  std::uint32_t transpose_gradient = none;
  std::uint32_t choose_name = 0, choose = none, choose_backward = none;  // router
  // A residual sum of the block reads the input of this operator; whose add_gradient, if any,
  // stands behind its backward pass.
  bool begins_branch = false;
  bool begins_mlp = false;          // the first linear behind a residual sum of the block
  std::uint32_t branch_sum = none;  // index in the block
  std::uint32_t borrower = none;    // that starts another branch from the input of this operator
  std::uint32_t add_gradient = none, add_gradient_name = 0;
};
struct BlockWork {
  bool interned = false;
  std::vector<OpWork> ops;
};

}  // namespace sim::lowering
