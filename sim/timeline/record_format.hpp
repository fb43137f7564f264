// Constants that writer and reader of records share. RECORD.md describes the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/timeline/record.hpp"

namespace sim {

// The version that is written. It grows with every change that an older reader would misread; this
// reader knows all versions up to here.
inline constexpr std::int64_t record_version = 2;

inline constexpr std::size_t kernel_columns = 13;
inline constexpr std::size_t kernel_columns_of_1 = 14;
inline constexpr std::size_t operator_columns = 8;

// Gives what a record does not hold the length that the rest has.
inline void close_kept(Program& program) {
  program.action.assign(program.size(), Action::forward);
  program.subject.assign(program.size(), Program::no_subject);
  program.first_dependency.assign(program.size() + 1, 0);
  program.first_buffer_use.assign(program.size() + 1, 0);
}

// The parts of a program that a record holds.
inline Program what_ran(const Program& program) {
  Program kept;
  kept.kind = program.kind;
  kept.stream = program.stream;
  kept.pass = program.pass;
  kept.work = program.work;
  kept.label = program.label;
  kept.kernels = program.kernels;
  kept.collectives = program.collectives;
  kept.transfers = program.transfers;
  kept.names = program.names;
  kept.stage = program.stage;
  close_kept(kept);
  return kept;
}

// The contradiction in a record: spans out of order, numbers beyond their tables. Empty: none.
std::string record_problem(const Record& record);

}  // namespace sim
