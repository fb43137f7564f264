// Checks of a layout: the distribution of tokens over experts.
#include <algorithm>
#include <numeric>

#include "sim/plan/layout_problem_list.hpp"
#include "sim/plan/sharding/drawn_load.hpp"

namespace sim {
namespace {

// A token chooses an expert once: an expert has at most one of k choices of every token.
void check_rows(const ExpertLoad& load, const Experts& experts, LayoutProblemList& list) {
  constexpr double rounding = 1 + 1e-6;
  for (std::size_t i = 0; i < load.rows().size(); ++i) {
    const std::vector<double>& row = load.rows()[i];
    const double all = std::accumulate(row.begin(), row.end(), 0.0);
    const auto most = std::max_element(row.begin(), row.end());
    if (*most * static_cast<double>(experts.per_token) <= all * rounding) continue;
    return list.problem("moe.load",
                        "moe.load: expert {} has {} of the {} choices in row {}; with {} different "
                        "experts for each token an expert has at most 1 of {}",
                        most - row.begin(), *most, all, i + 1, experts.per_token,
                        experts.per_token);
  }
}

}  // namespace

void check_expert_load(const Layout& layout, const Model& model, LayoutProblemList& list) {
  const Experts& experts = model.shape->experts;
  if (layout.expert_load_seed != Layout{}.expert_load_seed && layout.expert_load_cv <= 0)
    list.problem("moe.load_seed", "moe.load_seed is of moe.load_cv, which is 0");
  if (!layout.has_uneven_experts()) return;
  if (layout.expert_load.exists() && layout.expert_load_cv > 0)
    list.problem("moe.load_cv", "moe.load_cv excludes moe.load: give one of them");
  if (layout.expert_imbalance != 1)
    list.problem("expert_imbalance",
                 "expert_imbalance is {} with {}, from which the fullest rank follows; allowed: 1",
                 layout.expert_imbalance, layout.expert_load.exists() ? "moe.load" : "moe.load_cv");
  if (layout.expert_load.exists()) {
    const auto columns = static_cast<std::int64_t>(layout.expert_load.experts());
    if (columns != experts.count)
      return list.problem("moe.load", "moe.load has {} experts, and {} has {}", columns, model.name,
                          experts.count);
    return check_rows(layout.expert_load, experts, list);
  }
  const double most = most_load_cv(experts.count, experts.per_token);
  if (layout.expert_load_cv >= most)
    list.problem(
        "moe.load_cv",
        "moe.load_cv is {}; allowed: less than {:.4g}, at which all tokens choose the same "
        "{} of {} experts",
        layout.expert_load_cv, most, experts.per_token, experts.count);
}

}  // namespace sim
