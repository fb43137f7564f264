// A linear model with random effects: y = Z b + e, where the effects of group g are normal with
// mean 0 and variance v_g, and e has Student's t distribution with four degrees of freedom, which
// keeps a few rows that are far off from widening everything.
//
// Each effect belongs to a block, and no row touches effects of two: the equations fall apart into
// one small system per block.
#pragma once

#include <cstddef>
#include <vector>

namespace sim {

struct Effect {
  std::size_t group = 0;
  std::size_t block = 0;
};
struct Coefficient {
  std::size_t effect = 0;
  double value = 0;
};

// VariancePrior is the prior of a variance: as if so many more effects of this mean square had been
// seen (the conjugate prior, scaled inverse chi-square: Gelman et al., Bayesian Data Analysis,
// section 2.6).
struct VariancePrior {
  double effects = 0;
  double variance = 0;
};

struct MixedData {
  std::vector<Effect> effects;
  std::vector<std::vector<Coefficient>> rows;  // Z, sparse
  std::vector<double> values;                  // y
  std::size_t groups = 0, blocks = 0;
  std::vector<VariancePrior> priors;  // by group; empty: none
};

struct MixedFit {
  std::vector<double> variance;  // of the effects, by group
  double residual = 0;           // variance scale of e
};

// Maximum likelihood by expectation maximisation (Laird & Ware 1982, Biometrics 38, 963-974; the
// weights of t errors: Lange, Little & Taylor 1989, J. Am. Stat. Assoc. 84, 881-896).
// `start`: a fit of similar data, from which fewer rounds are needed; may be null.
// REQUIRES: rows; each effect in one of the groups and blocks.
MixedFit fit_mixed(const MixedData& data, int rounds, const MixedFit* start = nullptr);

}  // namespace sim
