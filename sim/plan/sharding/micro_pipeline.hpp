// Overlap of tensor-parallel communication with the products that need it, as PyTorch's compiler
// does it ("AsyncTP": torch/_inductor/fx_passes/micro_pipeline_tp.py; torch/distributed/
// _symmetric_memory): an all-gather and the products that read it become one operator, and so do a
// product and the reduce-scatter of what it makes. Both work slice after slice of the tokens, a
// slice for each partner, and copy engines move them through symmetric memory, where every rank
// finds what another has put there.
//   column forward         gathered: own slice first, then that of each partner as it comes
//                          (_pipelined_multi_all_gather_and_consume)
//   row forward            scattered: a partner's slice is multiplied into one of two buffers, from
//                          which the partner takes it; the own one comes last, then the slices
//                          that came are added (_pipelined_produce_and_all2all)
//   row input gradient     gathered: the output's gradient
//   column input gradient  by NCCL and beside nothing: of several products it is a sum, and a
//                          reduce-scatter is joined with a product only (_find_producer_matmul);
//                          of one product (a GELU's) scattered as a row's output
// Products in 8 bits with scales of rows are cut where a row's output is scattered, and nowhere
// else: their gathers are not joined with them (PyTorch issue 149990), and what they make of
// gradients is multiplied by scales before it is scattered (eight_bit.hpp). Slices go to two
// streams in turn. In a stream a copy waits for the products of the slice before, and these for
// their copy; products of both run side by side, so that one fills the SMs that the last wave of
// the other leaves (Kernel::abreast). Here they follow each other on one stream.
//
// A barrier stands between the product of a slice for a partner and its copy, another behind the
// copy: the first finds no SM while the product of the other stream runs. That is so for the first
// slice alone, behind which the second is multiplied at once; later products stand behind a barrier
// that itself has waited for the product of the other stream.
//
// The barriers of an operator are counted with its slices (sim/collective/user_buffers.cpp). One
// copy of the own slice is counted, into symmetric memory; that into the gathered tensor stands
// beside the last product. Small gathers (2048 tokens at most, torch/distributed/_symmetric_memory,
// _should_use_multimem_all_gather_matmul) go this way too.
#pragma once

#include <cstdint>
#include <vector>

namespace sim {

inline constexpr int micro_pipeline_streams = 2;

// Interned work of one pass of a linear that is cut so: forward, its recomputation, or that of the
// input gradient (sim/plan/lowering).
struct SlicedWork {
  static constexpr std::uint32_t none = UINT32_MAX;
  std::vector<std::uint32_t> products;  // of a slice
  std::uint32_t place = none, order = none, sum = none;
  std::uint32_t pull = none;  // a slice
  bool exists() const { return !products.empty(); }
};

}  // namespace sim
