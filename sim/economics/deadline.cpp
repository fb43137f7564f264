#include "sim/economics/deadline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "sim/base/input_error.hpp"
#include "sim/base/rounding.hpp"
#include "sim/plan/plan.hpp"
#include "sim/report/numbers.hpp"

namespace sim {
namespace {

Layout with_replicas(Layout layout, int replicas, Scaling scaling) {
  if (scaling == Scaling::fixed_batch_per_replica)
    layout.global_batch = layout.global_batch / layout.data_parallel * replicas;
  layout.data_parallel = replicas;
  return layout;
}

std::vector<int> legal_replicas(const Scenario& scenario, const Budget& budget) {
  Layout one = scenario.layout;
  one.data_parallel = 1;
  const std::int64_t most = std::min<std::int64_t>(
      budget.max_gpus / one.world_size(),
      budget.scaling == Scaling::fixed_batch ? one.global_batch / one.micro_batch : INT32_MAX);
  std::vector<int> legal;
  for (int replicas = 1; replicas <= most; ++replicas) {
    // A plan for every one would take long; only divisors of the batch can be legal.
    if (budget.scaling == Scaling::fixed_batch &&
        one.global_batch % (one.micro_batch * replicas) != 0)
      continue;
    const Layout layout = with_replicas(scenario.layout, replicas, budget.scaling);
    if (layout_problems(layout, scenario.model).empty()) legal.push_back(replicas);
  }
  return legal;
}

// The options with which the scenario has that many replicas on as many nodes as they need.
std::vector<std::string> options_for(const Layout& layout, int gpus_per_node,
                                     const std::vector<std::string>& overrides) {
  constexpr std::array<std::string_view, 4> replaced{
      "layout.data_parallel=", "layout.global_batch=", "cluster.nodes=", "cluster.gpus="};
  std::vector<std::string> options;
  for (const std::string& option : overrides) {
    if (std::ranges::any_of(replaced, [&](auto key) { return option.starts_with(key); })) continue;
    constexpr std::string_view file = "cluster=";
    options.push_back(option.starts_with(file) ? "cluster.path=" + option.substr(file.size())
                                               : option);
  }
  const int gpus = layout.world_size();
  options.push_back(fmt::format("layout.data_parallel={}", layout.data_parallel));
  options.push_back(fmt::format("layout.global_batch={}", layout.global_batch));
  options.push_back(fmt::format("cluster.nodes={}", divide_up(gpus, gpus_per_node)));
  options.push_back(fmt::format("cluster.gpus={}", gpus));
  return options;
}

class Search {
 public:
  Search(const Scenario& scenario, const std::vector<std::string>& overrides, const Budget& budget,
         const Control& control)
      : scenario_{scenario},
        overrides_{overrides},
        budget_{budget},
        control_{control},
        legal_{legal_replicas(scenario, budget)} {}

  // Gallops away from the scenario's own number, then bisects.
  FinishAnswer find() {
    const auto count = static_cast<std::ptrdiff_t>(legal_.size());
    std::ptrdiff_t below = -1;     // does not finish in time, nor does anything before it
    std::ptrdiff_t above = count;  // finishes in time
    std::ptrdiff_t next =
        std::lower_bound(legal_.begin(), legal_.end(), scenario_.layout.data_parallel) -
        legal_.begin();
    next = std::min(next, count - 1);
    for (std::ptrdiff_t stride = 1; next >= 0 && above == count; stride *= 2) {
      if (in_time(next)) {
        above = next;
        break;
      }
      below = next;
      if (next == count - 1) break;
      next = std::min(next + stride, count - 1);
    }
    while (above < count && above - below > 1) {
      const std::ptrdiff_t middle = below + (above - below) / 2;
      (in_time(middle) ? above : below) = middle;
    }
    return answer(above < count ? above : -1);
  }

 private:
  bool in_time(std::ptrdiff_t index) {
    const FinishCandidate& candidate = look_at(index);
    return candidate.refused.empty() && candidate.probability >= budget_.confidence;
  }

  const FinishCandidate& look_at(std::ptrdiff_t index) {
    const auto [place, fresh] = looked_at_.try_emplace(index);
    FinishCandidate& candidate = place->second;
    if (!fresh) return candidate;
    const Layout layout =
        with_replicas(scenario_.layout, legal_[static_cast<std::size_t>(index)], budget_.scaling);
    candidate.gpus = layout.world_size();
    candidate.data_parallel = layout.data_parallel;
    candidate.global_batch = layout.global_batch;
    try {
      const Scenario scenario = load_scenario(
          scenario_.path, options_for(layout, scenario_.cluster.gpus_per_node(), overrides_));
      candidate.forecast = forecast_budget(scenario, budget_, control_);
    } catch (const InputError& error) {
      candidate.refused = error.problems().front().what;
      return candidate;
    }
    const BudgetForecast& forecast = candidate.forecast;
    if (!forecast.fits)
      candidate.refused = "does not fit in memory";
    else if (!forecast.rented.ends())
      candidate.refused = "failures leave less than 1% of the time for work";
    else
      candidate.probability = forecast.rented.probability_within(*budget_.finish_in);
    return candidate;
  }

  FinishAnswer answer(std::ptrdiff_t chosen) {
    FinishAnswer result;
    result.legal = legal_.size();
    if (!legal_.empty())
      result.most_gpus =
          with_replicas(scenario_.layout, legal_.back(), budget_.scaling).world_size();
    for (auto& [index, candidate] : looked_at_) {
      if (index == chosen) result.chosen = static_cast<int>(result.looked_at.size());
      result.looked_at.push_back(std::move(candidate));
    }
    if (result.chosen < 0) result.why_not = why_not(result);
    return result;
  }

  // why_not_more() is what keeps the layout from more replicas than the most that are legal.
  std::string why_not_more() const {
    Layout layout = scenario_.layout;
    const std::int64_t micro_batches = layout.global_batch / layout.micro_batch;
    const int most = legal_.empty() ? 0 : legal_.back();
    for (int more = most + 1; budget_.scaling == Scaling::fixed_batch; ++more) {
      if (more > micro_batches)
        return fmt::format("a batch of {} in micro-batches of {} has no work for more replicas",
                           layout.global_batch, layout.micro_batch);
      layout = with_replicas(scenario_.layout, more, budget_.scaling);
      if (layout.world_size() > budget_.max_gpus) break;
      if (micro_batches % more == 0)
        return fmt::format("{} replicas: {}", more,
                           layout_problems(layout, scenario_.model).front().what);
    }
    return fmt::format("max_gpus is {}", grouped(budget_.max_gpus));
  }

  std::string why_not(const FinishAnswer& result) const {
    if (legal_.empty())
      return fmt::format("no number of replicas up to {} GPUs is legal for this layout",
                         grouped(budget_.max_gpus));
    const FinishCandidate* best = nullptr;
    for (const FinishCandidate& candidate : result.looked_at)
      if (candidate.refused.empty() &&
          (!best || candidate.forecast.rented.quantile(budget_.confidence) <
                        best->forecast.rented.quantile(budget_.confidence)))
        best = &candidate;
    const std::string limit = why_not_more();
    if (!best) return fmt::format("no legal number of GPUs can run: {}", limit);
    return fmt::format("the fastest, {} GPUs, needs {:.1f} days for a probability of {:g}; {}",
                       grouped(best->gpus),
                       best->forecast.rented.quantile(budget_.confidence).count() / 86400,
                       budget_.confidence, limit);
  }

  const Scenario& scenario_;
  const std::vector<std::string>& overrides_;
  const Budget& budget_;
  const Control& control_;
  std::vector<int> legal_;
  std::map<std::ptrdiff_t, FinishCandidate> looked_at_;
};

}  // namespace

FinishAnswer gpus_to_finish(const Scenario& scenario, const std::vector<std::string>& overrides,
                            const Budget& budget, const Control& control) {
  return Search{scenario, overrides, budget, control}.find();
}

}  // namespace sim
