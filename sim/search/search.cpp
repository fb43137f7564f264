#include "sim/search/search.hpp"

#include <tbb/parallel_for.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>
#include <utility>

#include "sim/search/pool_limits.hpp"

namespace sim {
namespace {

constexpr std::size_t refined_at_once = 64;

struct Made {
  std::uint32_t index = 0;
  Judged judged{};
  bool done = false;  // false: told to stop before
};

// Layouts of a wave that have the same programs, which are planned once.
using Alike = std::vector<Made*>;

void judge_alike(const Search& search, const Alike& alike, const Control& control,
                 const std::function<void(const Judged&)>& told) {
  std::unique_ptr<PlannedLayout> planned;
  try {
    for (Made* one : alike) {
      throw_if_stopped(control);
      one->judged = search.judge(one->index, control, planned);
      one->done = true;
      if (told) told(one->judged);
    }
  } catch (const Stopped&) {
  }
}

// Looks for the next wave, and evaluates what it has already meanwhile. In its order; nothing:
// there is no wave.
std::optional<std::vector<Judged>> judge_wave(Search& search, const Control& control,
                                              const std::function<void(const Judged&)>& told) {
  const Control evaluating{.stop = control.stop};
  std::deque<Made> wave;  // tasks keep references
  tbb::task_group tasks;
  Alike alike;
  const auto begin = [&] {
    if (alike.empty()) return;
    tasks.run(
        [&, these = std::exchange(alike, {})] { judge_alike(search, these, evaluating, told); });
  };
  const auto found = [&](std::uint32_t index) {
    if (!alike.empty() && !same_programs(search.candidates(), alike.back()->index, index)) begin();
    alike.push_back(&wave.emplace_back(Made{.index = index}));
  };
  try {
    search.next_wave(control, found);
  } catch (...) {
    tasks.cancel();
    tasks.wait();
    throw;
  }
  begin();
  tasks.wait();
  if (wave.empty()) return std::nullopt;
  std::vector<Judged> finished;
  for (const Made& made : wave)
    if (made.done) finished.push_back(made.judged);
  return finished;
}

// The parts of an evaluation that is known in full.
struct KnownParts {
  const Evaluation& evaluation;
  Bytes least_memory() const { return evaluation.least_memory; }
  bool is_too_large() const {
    return !evaluation.fits && evaluation.memory == evaluation.least_memory;
  }
  Duration step_time(Duration) const { return evaluation.step_time; }
  bool fits() const { return evaluation.fits; }
};

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
  for (std::uint32_t i = 0; i < bounds.size(); ++i) {
    if (!shard.owns(i)) continue;
    if (!leanest_by_bound_ || bounds[i].memory < bounds[*leanest_by_bound_].memory)
      leanest_by_bound_ = i;
    if (!is_too_large(bounds[i])) open_.push_back({bounds[i], i, !specification_.prune});
  }
  std::make_heap(open_.begin(), open_.end());
}

bool Search::is_too_large(const Bound& bound) {
  const Cluster& cluster = specification_.workload.cluster;
  const Bytes host = cluster.host().memory;
  if (bound.memory > most_memory(cluster)) {
    ++counts_.too_large_by_bound;
    return true;
  }
  if (host == Bytes{} || bound.host <= host) return false;
  ++counts_.too_large_for_host;
  if (least_on_host_ == Bytes{} || bound.host < least_on_host_) least_on_host_ = bound.host;
  return true;
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
  for (const Entry& entry : batch) {
    if (is_too_large(entry.bound)) continue;
    open_.push_back(entry);
    std::push_heap(open_.begin(), open_.end());
  }
}

std::vector<std::uint32_t> Search::next_wave(const Control& control,
                                             const std::function<void(std::uint32_t)>& found) {
  put_back_wave();
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
    wave_.push_back(entry);
    if (found) found(entry.index);
  }
  return wave;
}

// Part by part, the cheapest first: whether it goes on depends on what was accepted before the
// wave.
template <class Parts>
Verdict Search::judge_parts(std::uint32_t index, Parts& parts) const {
  if (parts.is_too_large()) return Verdict::too_large;
  if (specification_.prune) {
    const Duration limit = ranking_.limit(index, parts.least_memory());
    if (bounds_.fine(index).step_time > limit) return Verdict::too_slow;
    if (parts.step_time(limit) > limit) return Verdict::outranked;
  }
  return parts.fits() ? Verdict::complete : Verdict::too_large;
}

Judged Search::judge(std::uint32_t index, const Control& control,
                     std::unique_ptr<PlannedLayout>& planned) const {
  EvaluationInParts parts{specification_, candidates_, index,
                          *memory_,       control,     std::move(planned)};
  const Verdict verdict = judge_parts(index, parts);
  const Judged judged{verdict == Verdict::complete ? parts.all() : parts.so_far(), verdict};
  planned = parts.take_planned();
  return judged;
}

void Search::accept(const std::vector<Evaluation>& evaluations) {
  std::vector<Judged> wave;
  for (const Evaluation& one : evaluations) {
    KnownParts parts{one};
    wave.push_back({one, judge_parts(one.index, parts)});
  }
  accept(wave);
}

void Search::accept(const std::vector<Judged>& wave) {
  const Bytes capacity = specification_.workload.cluster.device().memory;
  for (const Judged& one : wave) {
    const Verdict verdict = one.verdict;
    std::erase_if(wave_, [&](const Entry& entry) { return entry.index == one.evaluation.index; });
    if (verdict == Verdict::complete || verdict == Verdict::too_large) ranking_.add(one.evaluation);
    const bool on_device = one.evaluation.memory > capacity;
    ++(verdict == Verdict::too_large && on_device ? counts_.too_large
       : verdict == Verdict::too_large            ? counts_.too_large_for_host
       : verdict == Verdict::too_slow             ? counts_.too_slow
                                                  : counts_.simulated);
  }
  put_back_wave();
}

// put_back_wave() reopens what was handed out and not judged, since the search was stopped
// meanwhile.
void Search::put_back_wave() {
  for (const Entry& entry : std::exchange(wave_, {})) {
    open_.push_back(entry);
    std::push_heap(open_.begin(), open_.end());
  }
}

std::optional<Duration> Search::least_of_open() const {
  std::optional<Duration> least;
  if (!open_.empty()) least = open_.front().bound.step_time;
  for (const Entry& entry : wave_)
    least = std::min(least.value_or(entry.bound.step_time), entry.bound.step_time);
  return least;
}

// leanest() prefers layouts that were planned: they came closest, and their memory is exact.
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
                const std::function<void(const Judged&)>& evaluated) {
  const auto begin = std::chrono::steady_clock::now();
  while (!control.stopped()) {
    const std::optional<std::vector<Judged>> made = judge_wave(search, control, evaluated);
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
