// Exchanges of keys, values and their gradients between the ranks of a sequence
// (sim/plan/sharding/context_tapes.cpp). They are columns of [q|k|v] on one side, a slice on the
// other, or both at once: a message is put together here.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "real/engine/bound_program.hpp"
#include "real/host/arena.hpp"
#include "real/host/communication.hpp"

namespace real {

// Whether start_context_exchange() takes the operator.
bool exchanges_keys(sim::Action action);

// `call`: without buffers. REQUIRES: the arena and the call's members outlive the exchange.
std::unique_ptr<HostExchange> start_context_exchange(const BoundProgram& program, const BoundOp& op,
                                                     Transport& transport, Arena& arena,
                                                     const CollectiveCall& call);

}  // namespace real
