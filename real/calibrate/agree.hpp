// Messages between the ranks of a measurement: few and small, between the timed parts.
#pragma once

#include <span>
#include <vector>

#include "real/net/transport.hpp"

namespace real {

// Returns when all ranks have called it.
void barrier(Transport& transport);
// Rank 0's value, on every rank.
double agree(Transport& transport, double value);
// At rank 0: the numbers of every rank, by rank. Elsewhere: nothing.
std::vector<std::vector<double>> gather(Transport& transport, std::span<const double> values);

}  // namespace real
