// The tensors that travel between the ranks of a sequence: keys and values, and their gradients
// (sim/plan/sharding/context_tapes.cpp).
#pragma once

#include <vector>

#include "real/engine/bound_program.hpp"
#include "real/engine/kernels/context.hpp"

namespace real {

// Whether an operator exchanges keys and values, or their gradients.
bool exchanges_keys(sim::Action action);

// KeysPiece is a part of a message: slices as they lie, or the last columns of [q|k|v].
struct KeysPiece {
  Operand place;
  bool in_rows = false;  // of [q|k|v], from the start of `place` on
};

// KeysExchange is what a rank sends and gets. Round a ring piece i comes in where piece i was; the
// backward pass turns the other way.
struct KeysExchange {
  kernels::HeadExchange columns;  // of [q|k|v]: a message of one rank
  bool backward = false;
  std::vector<KeysPiece> from, to;
};
// REQUIRES: exchanges_keys(op.action).
KeysExchange keys_exchange(const BoundProgram& program, const BoundOp& op);

// Bytes of the message of columns of [q|k|v] that a collective exchanges; else 0.
std::int64_t packed_bytes(const BoundProgram& program, const BoundOp& op);

}  // namespace real
