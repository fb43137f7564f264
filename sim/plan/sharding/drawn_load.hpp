// Tokens of experts, drawn at random with a given spread.
#pragma once

#include <cstdint>
#include <vector>

namespace sim {

struct LoadDraw {
  std::int64_t experts = 0, per_token = 1;
  std::int64_t rows = 1;
  double cv = 0;  // standard deviation over mean
  std::uint64_t seed = 1;
};

// Shares of a symmetric Dirichlet distribution, of mean 1 in each row: those of n experts with the
// parameter a have a coefficient of variation of sqrt((n - 1) / (n a + 1)). No expert gets more
// than all tokens. REQUIRES: 0 < cv < most_load_cv().
std::vector<std::vector<double>> drawn_load(const LoadDraw& draw);

// The coefficient of variation when one expert gets all tokens, but for their other choices.
double most_load_cv(std::int64_t experts, std::int64_t per_token);

}  // namespace sim
