// Which of the numbers of GPUs that were looked at answer a wish, and why not a better one.
#pragma once

#include "sim/capacity/capacity.hpp"

namespace sim {

// answer() fills in answers, front, and what is closest where no point keeps the wish.
void answer(CapacityPlan& plan);

}  // namespace sim
