// How messages name an operator of a rank.
#pragma once

#include <cstdint>
#include <string>

#include "sim/plan/plan.hpp"

namespace real {

// "forward of layers.3.qkv, micro-batch 1"; for an index that is none, "operator 17".
std::string operator_name(const sim::Plan& plan, int rank, std::int64_t op);

}  // namespace real
