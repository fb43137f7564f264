// Questions of tests to the fake of cuBLASLt.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace fakes {

// How long a product takes by the algorithm of this number, when it runs; empty: no time of its
// own.
void set_product_times(std::function<std::int64_t(int)> nanoseconds);
// Algorithms of the products that have run since.
std::vector<int> products_run();

}  // namespace fakes
