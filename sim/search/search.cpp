#include "sim/search/search.hpp"

#include <tbb/parallel_for.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>

namespace sim {
namespace {

constexpr std::size_t refined_at_once = 64;

// False: told to stop meanwhile.
bool evaluate_one(const Search& search, std::uint32_t index, const Control& control,
                  Evaluation& made) {
  try {
    made = evaluate(search.specification(), search.candidates(), index, search.memory(), control);
    return true;
  } catch (const Stopped&) {
    return false;
  }
}

struct Made {
  Evaluation evaluation;
  bool done = false;  // false: told to stop before
};

// Looks for the next wave, and evaluates what it has already meanwhile. In its order; nothing:
// there is no wave.
std::optional<std::vector<Evaluation>> evaluate_wave(
    Search& search, const Control& control,
    const std::function<void(const Evaluation&)>& evaluated) {
  const Control evaluating{.stop = control.stop};
  std::deque<Made> wave;  // tasks keep references
  tbb::task_group tasks;
  const auto begin = [&](std::uint32_t index) {
    tasks.run([&, index, &made = wave.emplace_back()] {
      made.done = !evaluating.stopped() && evaluate_one(search, index, evaluating, made.evaluation);
      if (made.done && evaluated) evaluated(made.evaluation);
    });
  };
  try {
    search.next_wave(control, begin);
  } catch (...) {
    tasks.cancel();
    tasks.wait();
    throw;
  }
  tasks.wait();
  if (wave.empty()) return std::nullopt;
  std::vector<Evaluation> finished;
  for (const Made& made : wave)
    if (made.done) finished.push_back(made.evaluation);
  return finished;
}

}  // namespace

Search::Search(SearchSpecification specification, Shard shard, const Control& control)
    : specification_{std::move(specification)},
      candidates_{list_candidates(specification_)},
      bounds_{specification_, candidates_},
      ranking_{specification_, candidates_} {
  for (std::uint32_t i = 0; i < candidates_.all.size(); ++i)
    counts_.legal += shard.owns(i) ? 1 : 0;
  counts_.refused = candidates_.refused;
  std::vector<Bound> bounds(candidates_.all.size());
  if (specification_.prune)
    tbb::parallel_for(std::size_t{0}, candidates_.pipelines.size(), [&](std::size_t i) {
      if (!control.stopped()) bounds_.coarse(static_cast<std::uint32_t>(i), bounds);
    });
  throw_if_stopped(control);
  const Bytes capacity = specification_.workload.cluster.device().memory;
  for (std::uint32_t i = 0; i < bounds.size(); ++i) {
    if (!shard.owns(i)) continue;
    if (!leanest_by_bound_ || bounds[i].memory < bounds[*leanest_by_bound_].memory)
      leanest_by_bound_ = i;
    if (bounds[i].memory > capacity)
      ++counts_.too_large_by_bound;
    else
      open_.push_back({bounds[i], i, !specification_.prune});
  }
  std::make_heap(open_.begin(), open_.end());
}

// Bounds the entries on top of the heap more closely, a fixed number at once.
void Search::refine() {
  std::vector<Entry> batch;
  while (!open_.empty() && !open_.front().is_fine && batch.size() < refined_at_once) {
    std::pop_heap(open_.begin(), open_.end());
    const Entry entry = open_.back();
    open_.pop_back();
    if (ranking_.matters(entry.index, entry.bound.step_time, entry.bound.memory))
      batch.push_back(entry);
    else
      ++counts_.too_slow;
  }
  tbb::parallel_for(std::size_t{0}, batch.size(), [&](std::size_t i) {
    const Bound fine = bounds_.fine(batch[i].index);
    batch[i].bound.step_time = std::max(batch[i].bound.step_time, fine.step_time);
    batch[i].bound.memory = std::max(batch[i].bound.memory, fine.memory);
    batch[i].is_fine = true;
  });
  const Bytes capacity = specification_.workload.cluster.device().memory;
  for (const Entry& entry : batch) {
    if (entry.bound.memory > capacity) {
      ++counts_.too_large_by_bound;
      continue;
    }
    open_.push_back(entry);
    std::push_heap(open_.begin(), open_.end());
  }
}

std::vector<std::uint32_t> Search::next_wave(const Control& control,
                                             const std::function<void(std::uint32_t)>& found) {
  std::vector<std::uint32_t> wave;
  const auto size = static_cast<std::size_t>(specification_.wave);
  while (!open_.empty() && wave.size() < size && !control.stopped()) {
    if (!open_.front().is_fine) {
      refine();
      control.tell("bounds", 1 - static_cast<double>(open_.size()) /
                                     static_cast<double>(candidates_.all.size()));
      continue;
    }
    std::pop_heap(open_.begin(), open_.end());
    const Entry entry = open_.back();
    open_.pop_back();
    if (!ranking_.matters(entry.index, entry.bound.step_time, entry.bound.memory)) {
      ++counts_.too_slow;
      continue;
    }
    wave.push_back(entry.index);
    if (found) found(entry.index);
  }
  return wave;
}

void Search::accept(const std::vector<Evaluation>& evaluations) {
  for (const Evaluation& one : evaluations) {
    ranking_.add(one);
    ++(one.fits ? counts_.simulated : counts_.too_large);
  }
}

// Of those that were planned, if any was: they came closest, and their memory is exact.
std::optional<std::uint32_t> Search::leanest() const {
  if (ranking_.closest()) return ranking_.closest()->index;
  return leanest_by_bound_;
}

SearchCounts Search::counts() const {
  SearchCounts now = counts_;
  now.open = open_.size();
  return now;
}

bool run_search(Search& search, const Control& control,
                const std::function<void(const SearchProgress&)>& progress,
                const std::function<void(const Evaluation&)>& evaluated) {
  const auto begin = std::chrono::steady_clock::now();
  while (!control.stopped()) {
    const std::optional<std::vector<Evaluation>> made = evaluate_wave(search, control, evaluated);
    if (!made) return search.counts().open == 0;
    search.accept(*made);
    if (!progress) continue;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    progress({search.counts(), passed.count(), search.ranking().favourite()});
  }
  return false;
}

std::optional<Scenario> best_scenario(const ScenarioSources& sources, const Control& control) {
  SearchSpecification specification = load_search(sources);
  specification.top = 1;
  Search search{std::move(specification), {}, control};
  if (!run_search(search, control)) throw Stopped{};
  const std::optional<Evaluation> best = search.ranking().favourite();
  if (!best) return std::nullopt;
  return take_scenario(std::move(search), best->index);
}

Scenario take_scenario(Search&& search, std::uint32_t index) {
  Layout layout = layout_of(search.specification_, search.candidates_, index);
  const int gpus_per_node = search.candidates_.all[index].gpus_per_node;
  Scenario scenario = std::move(search.specification_.workload);
  scenario.layout = std::move(layout);
  scenario.cluster.use_gpus_per_node(gpus_per_node);
  return scenario;
}

}  // namespace sim
