// Several steps of a program, one behind the other.
#pragma once

#include <vector>

#include "sim/program/program.hpp"

namespace sim {

// A program with steps.size() times the operators of `program`; of step i those for which steps[i]
// is true, by operator. An operator that waited for one that is left out waits for whatever that
// one waited for. Buffers, sites and tables are those of `program`. The result is made for its
// times: it does not tell the life of a buffer that an operator left out begins or ends.
// REQUIRES: each of `steps` has an entry per operator.
Program unroll(const Program& program, const std::vector<std::vector<bool>>& steps);

}  // namespace sim
