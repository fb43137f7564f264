// Kernels of a mixture of experts whose routers choose by their scores, all in fp32. Backends that
// choose evenly (real/engine/kernels/routing.hpp) leave the table out.
#pragma once

#include <cstdint>

#include "real/engine/kernels.hpp"
#include "real/engine/kernels/routing_table.hpp"

namespace real::kernels {

// As WeighedShape; how many rows there are the table says.
struct RoutedActivation {
  sim::Function function = sim::Function::swiglu;
  std::int64_t width = 0;
};

struct RoutedTable {
  // Chooses, and fills the table. `kept`: [tokens, experts]: what the gradient needs, zero for
  // experts that take no part. `weights`: of the copies that are sent, zero for rows that pad.
  void (*choose)(RoutingTable& table, RouterScore score, const float* scores, float* kept,
                 float* weights);
  void (*choose_backward)(const RoutingTable& table, RouterScore score, const float* kept,
                          const float* weight_gradients, float* score_gradients);
  // Rows of `width`: of tokens and of the copies that are sent.
  using Move = void(const RoutingTable& table, std::int64_t width, const float* from, float* to);
  Move* copy_tokens;
  Move* sum_copies;
  // As they came, and by expert.
  Move* sort_copies;
  Move* restore_order;
  void (*weighed_forward)(const RoutingTable& table, const RoutedActivation& of, const float* input,
                          const float* weights, float* output);
  void (*weighed_backward)(const RoutingTable& table, const RoutedActivation& of,
                           const WeighedBackward& operands);
};

}  // namespace real::kernels
