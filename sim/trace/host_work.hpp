// The work of a run on CPUs, whose trace has no kernels of a GPU: the operators themselves.
#pragma once

#include "sim/trace/pending_rank.hpp"

namespace sim {

// operators_as_work adds to `pending.device` what the threads of the host ran: every instant of a
// thread is of the innermost operator around it, and of a collective of gloo or MPI while one runs.
// An operator whose work is known by its name has the time of those that it calls. What only calls
// others (nodes of autograd, c10d), waits, or loads data is no work. False: there is none.
bool operators_as_work(PendingRank& pending, const RunRank& rank, const TraceNames& names);

}  // namespace sim
