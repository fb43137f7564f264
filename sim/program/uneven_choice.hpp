// Tokens that choose their experts unevenly: how many choose a set of them.
#pragma once

#include <cstdint>
#include <vector>

namespace sim {

// Every token chooses `per_token` of the experts: sets of so many, each as likely as the product of
// its experts' weights (conditional Poisson sampling: of all ways in which the experts come to
// their shares the one that assumes least; Chen, Dempster & Liu 1994).
class UnevenChoice {
 public:
  // `load`: of each expert, over the mean. `kept`: the share of an expert's choices that are sent,
  // the others are dropped; empty: all.
  UnevenChoice(const std::vector<double>& load, std::int64_t per_token,
               std::vector<double> kept = {});

  // For each block of `size` experts, the share of tokens that choose one of its experts and are
  // not dropped there. REQUIRES: `size` divides the number of experts.
  std::vector<double> shares_of_blocks(std::int64_t size) const;

 private:
  std::int64_t per_token_;
  std::vector<double> weights_, kept_;
};

}  // namespace sim
