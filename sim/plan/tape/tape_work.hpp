// Puts the work of tapes into the tables of a program.
#pragma once

#include "sim/plan/tape/tape.hpp"
#include "sim/program/program_builder.hpp"

namespace sim::lowering {

// TapeWork has the work and the names of the steps of a tape, as numbers in those tables.
struct TapeWork {
  struct Step {
    std::uint32_t work = UINT32_MAX, name = 0;
  };
  std::vector<Step> steps;
};

// `op`: the name of the model's operator.
TapeWork interned(ProgramBuilder& builder, const Tape& tape, const std::string& op);

}  // namespace sim::lowering
