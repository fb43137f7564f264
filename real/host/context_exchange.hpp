// Exchanges of keys, values and their gradients between the ranks of a sequence
// (real/engine/keys_exchange.hpp). They are columns of [q|k|v] on one side, a slice on the other,
// or both at once: a message is put together here.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "real/engine/bound_program.hpp"
#include "real/host/arena.hpp"
#include "real/host/communication.hpp"

namespace real {

// `call`: without buffers. REQUIRES: exchanges_keys(op.action); the arena and the call's members
// outlive the exchange.
std::unique_ptr<HostExchange> start_context_exchange(const BoundProgram& program, const BoundOp& op,
                                                     Transport& transport, Arena& arena,
                                                     const CollectiveCall& call);

}  // namespace real
