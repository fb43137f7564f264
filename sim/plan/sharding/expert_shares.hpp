// Shares that follow from a layout's distribution of tokens over experts (Layout::expert_load,
// expert_load_cv, expert_imbalance, expert_capacity): the share of the fullest rank, for which the
// others wait; that of the rank which holds most; the dropped tokens; how a rank's experts differ.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"
#include "sim/program/op_work.hpp"

namespace sim {

// RankShare is the load of a rank over the even share.
struct RankShare {
  double come = 1;                             // choices that come to it
  std::array<double, routed_blocks> blocks{};  // ExpertRouting::of_blocks; 0: as `come`
  std::vector<double> sizes;                   // of its experts, the fullest first; empty: alike
};

struct ExpertShares {
  double sent = 1;     // of all choices, those that are sent, with what pads them
  double dropped = 0;  // of all choices
  // The fullest rank of each row of the distribution, which paces an exchange and its products; the
  // mean over rows.
  RankShare paced;
  // The rank to which most come over all rows: what its memory holds.
  RankShare held;
  int fullest_rank = 0;  // that one, among those that share the experts
};

ExpertShares expert_shares(const Layout& layout, const Model& model);

// Rows of the distribution, each of mean 1: as measured, or one draw for each layer with experts.
std::vector<std::vector<double>> expert_load_rows(const Layout& layout, const Model& model);

}  // namespace sim
