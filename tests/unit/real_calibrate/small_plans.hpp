// Plans of two ranks that take a moment to run, and ranks that are threads.
#pragma once

#include <functional>

#include "real/calibrate/grid.hpp"
#include "real/net/transport.hpp"

namespace calibrate_test {

void on_all_ranks(int size, const std::function<void(real::Transport&)>& body);

// A GPT of two layers on two ranks; ranks that are left over are data parallel.
real::GridProgram two_ranks(int tensor, int pipeline, sim::DType dtype = sim::DType::fp32);

}  // namespace calibrate_test
