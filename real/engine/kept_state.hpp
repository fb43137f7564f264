// The state of a rank between two steps, by parameter: what a job of other ranks goes on with
// without a file. Weights, masters and moments are kept in fp32 and come back bit by bit.
#pragma once

#include <cstdint>

#include "real/engine/checkpoint/global_tensors.hpp"

namespace real {

struct KeptState {
  std::int64_t next_step = 0;
  GlobalTensors masters, first_moments, second_moments;  // what the rank holds; 0 elsewhere
};

// REQUIRES: the rank owns all that it holds (ZeRO stage 0).
KeptState keep_state(const BoundProgram& bound, const std::vector<Parameter>& parameters,
                     Backend& backend, std::int64_t next_step);

// REQUIRES: `kept` is of a rank that held the same parts of the same parameters.
void restore_state(const KeptState& kept, const BoundProgram& bound,
                   const std::vector<Parameter>& parameters, Backend& backend);

}  // namespace real
