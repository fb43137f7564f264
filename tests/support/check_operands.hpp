// Parts of check_plan() that look at operands: whether an engine would find what it needs, and
// whether what it finds is whole. Throw std::logic_error.
#pragma once

#include <string>

#include "sim/program/program.hpp"

namespace sim {

[[noreturn]] void refuse_plan(const std::string& what);
std::string place_of(const Program& program, OpId op);

// Every operator has the roles of its action, and a site or bucket where it needs one.
void check_operands(const Program& program);

// Sites lie side by side in their buckets; buckets divide among the ranks that share them.
void check_parameters(const Program& program);

// Two uses of a life of a buffer, of which one writes, are ordered by streams or dependencies.
void check_races(const Program& program);

}  // namespace sim
