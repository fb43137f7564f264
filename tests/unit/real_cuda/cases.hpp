// Layouts that together have every kind of operator, stream and communicator, and what their runs
// are compared with.
#pragma once

#include <functional>
#include <vector>

#include "tests/unit/real_cuda/toy.hpp"

namespace cuda_test {

struct Case {
  const char* name;
  std::function<void(ToyRun&)> change;
};
std::vector<Case> cases();

ToyRun base(bool llama);  // one rank, fp32
// The same by the host backend.
ToyResult reference_of(const ToyRun& run);
// Checks: no rank has failed.
void require_success(const ToyResult& result);
// Besides: losses are equal to `tolerance`, norms and weights to ten times that.
void check_equal(const ToyResult& a, const ToyResult& b, double tolerance);

}  // namespace cuda_test
