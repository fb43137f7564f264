// Overlap of tensor-parallel communication with the very products that need it, as Transformer
// Engine does it in "user buffers": memory that the ranks of a tensor group have registered with
// each other, so that copy engines and small kernels move data without NCCL.
//
// Which linear does what is Transformer Engine's default (pytorch/module/base.py, initialize_ub:
// `methods`, `get_default_config`), the same in all releases from 1.0 to 2.4:
//   column forward         ring exchange: a slice of the tokens is multiplied while the next comes
//                          in (qkv_fprop, fc1_fprop; CommOverlapP2PBase::split_overlap_ag)
//   row forward            pipeline: the output features of one block are summed and scattered
//                          while the next is multiplied (proj_fprop, fc2_fprop;
//                          CommOverlapBase::split_overlap_rs)
//   row input gradient     ring exchange of the output's gradient (proj_dgrad, fc2_dgrad)
//   column input gradient  bulk: the saved input is gathered beside (qkv_dgrad, fc1_dgrad;
//                          CommOverlapBase::bulk_overlap)
//   column weight gradient bulk: the input gradient is summed and scattered beside (qkv_wgrad,
//                          fc1_wgrad)
// Ring exchanges are the copy engines' work (`use_ce`), the rest kernels of few thread blocks,
// whose SMs the product beside them leaves free from its start to its end (`set_sm_margin`:
// Hopper's products run persistent thread blocks, which would wait for an SM that is taken). Parts
// of a product go to three streams in turn (_NUM_MAX_UB_STREAMS), so that one may fill the SMs that
// the last wave of the one before leaves; here each pays its own waves.
#pragma once

#include <cstdint>

#include "sim/base/ids.hpp"

namespace sim {

inline constexpr int reduced_blocks = 4;    // num_splits
inline constexpr int user_buffer_sms = 16;  // num_sm
// UB_MAX_SM, of the last block (comm_gemm_overlap.cpp).
inline constexpr int last_user_buffer_sms = 32;

// Interned work of a linear that communicates so (sim/plan/lowering).
struct UserBufferWork {
  static constexpr std::uint32_t none = UINT32_MAX;
  std::uint32_t forward_part = none, gradient_part = none;
  std::uint32_t place_gradient = none, place_saved = none;
  std::uint32_t exchange_input = none, exchange_gradient = none;  // a slice
  std::uint32_t scatter_part = none, scatter_last = none;         // a block of features
  // Shared by all layers: of the forward product, of the gathered input or gradient, and of the
  // input gradient that is summed (fprop, dgrad, wgrad of Transformer Engine).
  BufferId forward{none}, gathered{none}, summed{none};
  bool exists() const { return forward_part != none; }
};

}  // namespace sim
