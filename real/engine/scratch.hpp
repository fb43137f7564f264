// Device memory beside the arena: what a step brings along, scalars, tables and workspaces, in one
// block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "real/engine/bound_program.hpp"
#include "real/engine/eight_bit.hpp"
#include "real/engine/kernels.hpp"
#include "real/engine/kernels/attention.hpp"
#include "sim/layout/training.hpp"

namespace real {

struct ScratchNeeds {
  std::int64_t ids = 0;                                      // token ids of a step
  std::int64_t rotary_table = 0;                             // bytes
  std::vector<std::int64_t> decay{};                         // ranges of each parameter bucket
  std::array<std::int64_t, sim::stream_count> workspaces{};  // bytes, of each stream
  std::int64_t gemm_workspace = 0;                           // bytes
  // Latent attention, bytes: rotary keys, and compressed keys and values with them.
  std::int64_t rotary_keys = 0, joined_keys = 0;
  CodedNeeds coded{};
};

// StepResults are the numbers that a step reads back, in one copy.
struct StepResults {
  double loss = 0;
  float square_sum = 0, norm = 0, clip_scale = 0;
  std::int32_t first_not_finite = 0;
};

// Every offset is a multiple of 256 bytes (sim::arena_alignment).
struct ScratchLayout {
  std::int64_t upload = 0;  // kernels::AdamStep, then the ids: what a step brings, in one copy
  std::int64_t ids = 0;
  std::int64_t upload_bytes = 0;
  std::int64_t results = 0;  // StepResults
  std::int64_t rotary_table = 0;
  std::vector<std::int64_t> decay;
  std::array<std::int64_t, sim::stream_count> workspaces{};
  std::int64_t gemm_workspace = 0;
  std::int64_t rotary_keys = 0, rotary_keys_gradient = 0, joined_gradient = 0;
  std::array<std::int64_t, coded_slots> coded{};
  std::int64_t scales = 0, scale_bytes = 0;
  std::int64_t bytes = 0;
};

ScratchLayout scratch_layout(const ScratchNeeds& needs);
// The layout for a program with these kernels.
ScratchLayout scratch_layout(const BoundProgram& program, const kernels::Table& kernels,
                             Attentions attentions, std::int64_t gemm_workspace);

// LatentMemory is what the plan has no operand for (kernels/latent.hpp).
struct LatentMemory {
  void* rotary_keys = nullptr;
  void* rotary_keys_gradient = nullptr;
  void* joined_gradient = nullptr;  // of the narrow product
};

// Where launches find it.
struct StepMemory {
  std::int32_t* ids = nullptr;  // as StepInput::tokens
  double* loss = nullptr;       // the first of StepResults
  float* square_sum = nullptr;
  float* norm = nullptr;
  float* clip_scale = nullptr;
  const float* gate = nullptr;  // of the optimizer: the norm; null: none
  kernels::AdamStep* adam = nullptr;
  std::int32_t* first_not_finite = nullptr;
  float* rotary_table = nullptr;            // cosines and sines
  std::vector<kernels::DecayRanges> decay;  // per parameter bucket
  std::array<kernels::Workspace, sim::stream_count> workspaces{};
  LatentMemory latent;
  CodedMemory coded;
};
// In a block that begins at `start`.
StepMemory step_memory(const ScratchLayout& layout, const BoundProgram& program, std::byte* start);

// Adam's part of the inputs of a step. `step` from 0.
kernels::AdamStep adam_step(const sim::Training& training, std::int64_t step);
// The ranges that StepMemory::decay points to.
std::vector<kernels::Range> decay_ranges(const BoundBucket& bucket);

}  // namespace real
