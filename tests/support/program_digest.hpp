// Digests of programs: two programs with the same digest do the same in the same order.
#pragma once

#include <cstdint>
#include <span>

#include "sim/program/program.hpp"

namespace sim::test {

// A sum of what is added, which depends on its order.
class Digest {
 public:
  void add(std::uint64_t value) {
    state_ = (state_ ^ value) * 0x9e3779b97f4a7c15U;
    state_ ^= state_ >> 29U;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325U;
};

// Adds all that an operator is, does, costs, waits for and uses, and what buffers and sites are. It
// names work, texts and buffers by what they are, not by their places in the tables of the program,
// of which a planner may change the order.
void add_program(const Program& program, Digest& to);

std::uint64_t digest_of(std::span<const Program> programs);

}  // namespace sim::test
