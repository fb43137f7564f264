#include "sim/search/ranking.hpp"

#include <algorithm>

#include "sim/base/rounding.hpp"

namespace sim {
namespace {

constexpr Duration no_limit = Duration::max();

bool faster(const Evaluation& a, const Evaluation& b) {
  return a.step_time != b.step_time ? a.step_time < b.step_time : a.index < b.index;
}

void keep_faster(std::optional<Evaluation>& best, const Evaluation& other) {
  if (!best || faster(other, *best)) best = other;
}

// The time of an evaluation; no_limit while it is not known.
Duration time_of(const std::optional<Evaluation>& one) {
  return one ? one->step_time : no_limit;
}

// Into the fastest `most`, by (step time, index). Of equal layouts the first stays alone.
template <class Equal>
void insert_faster(std::vector<Evaluation>& fastest, const Evaluation& other, int most,
                   const Equal& equal) {
  const auto same =
      std::ranges::find_if(fastest, [&](const Evaluation& one) { return equal(one, other); });
  if (same != fastest.end()) {
    if (same->index < other.index) return;
    fastest.erase(same);
  }
  fastest.insert(std::lower_bound(fastest.begin(), fastest.end(), other, faster), other);
  if (static_cast<int>(fastest.size()) > most) fastest.pop_back();
}

}  // namespace

Ranking::Ranking(const SearchSpecification& specification, const Candidates& candidates)
    : specification_{specification},
      candidates_{candidates},
      of_gpus_(specification.space.gpus.size()),
      within_of_gpus_(specification.space.gpus.size()),
      up_to_class_(memory_classes + 1) {
  const MemoryMargin& margin = specification.memory_margin;
  const Scenario& workload = specification.workload;
  for (std::uint32_t i = 0; i < candidates.all.size(); ++i) {
    std::optional<KindMargin>& of_kind = margins_[kind_of(i)];
    if (of_kind) continue;
    const Layout layout = layout_of(specification, candidates, i);
    of_kind = {margin.error_of(layout, workload.model),
               margin.most_of(layout, workload.model, workload.cluster.device().memory)};
  }
}

std::size_t Ranking::kind_of(std::uint32_t index) const {
  const Candidate& candidate = candidates_.all[index];
  const Pipeline& pipeline = candidates_.pipelines[candidate.pipeline];
  const std::size_t parts = words_of(OffloadParts{}).size();
  return 8 * (parts * static_cast<std::size_t>(pipeline.schedule) +
              static_cast<std::size_t>(pipeline.offload)) +
         (pipeline.stages > 1 ? 4U : 0U) + (pipeline.context > 1 ? 2U : 0U) +
         (candidate.zero_stage == 3 ? 1U : 0U);
}

std::vector<KindMargin> Ranking::margins() const {
  std::vector<KindMargin> all;
  for (const std::optional<KindMargin>& margin : margins_)
    if (margin) all.push_back(*margin);
  return all;
}

int Ranking::class_of(Bytes memory) const {
  const std::int64_t capacity = specification_.workload.cluster.device().memory.count();
  const std::int64_t part = divide_up(capacity, memory_classes);
  return static_cast<int>(
      std::clamp<std::int64_t>(divide_up(memory.count(), part), 1, memory_classes));
}

bool Ranking::leaves_margin(const Evaluation& evaluation) const {
  return evaluation.memory <= most_of(evaluation.index);
}

std::size_t Ranking::gpus_index(std::uint32_t index) const {
  const std::vector<int>& gpus = specification_.space.gpus;
  const int own = candidates_.pipelines[candidates_.all[index].pipeline].gpus;
  return static_cast<std::size_t>(std::find(gpus.begin(), gpus.end(), own) - gpus.begin());
}

void Ranking::add(const Evaluation& evaluation) {
  if (!evaluation.fits) {
    const auto nearer = [](const Evaluation& a, const Evaluation& b) {
      return a.least_memory != b.least_memory ? a.least_memory < b.least_memory : a.index < b.index;
    };
    if (!closest_ || nearer(evaluation, *closest_)) closest_ = evaluation;
    return;
  }
  // Equal to the picosecond and the byte: a placement on one node, or a key without an effect here.
  const auto equal = [&](const Evaluation& a, const Evaluation& b) {
    return a.step_time == b.step_time && a.memory == b.memory &&
           gpus_index(a.index) == gpus_index(b.index);
  };
  if (!leaves_margin(evaluation)) {
    insert_faster(within_, evaluation, specification_.top, equal);
    keep_faster(within_of_gpus_[gpus_index(evaluation.index)], evaluation);
    return;
  }
  insert_faster(best_, evaluation, specification_.top, equal);
  keep_faster(of_gpus_[gpus_index(evaluation.index)], evaluation);
  for (int c = class_of(evaluation.memory); c <= memory_classes; ++c)
    keep_faster(up_to_class_[static_cast<std::size_t>(c)], evaluation);
}

// The slowest that the memory front shows.
Duration Ranking::front_limit() const {
  if (best_.empty()) return no_limit;
  const double limit = to_seconds(best_.front().step_time) * (1 + specification_.front_slowdown);
  return duration_from_seconds(limit);
}

// limit_within() is the limit for a place in the result among those that fit within the margin.
Duration Ranking::limit_within(std::uint32_t index) const {
  const auto last_of = [&] {
    return static_cast<int>(within_.size()) < specification_.top ? no_limit
                                                                 : within_.back().step_time;
  };
  const Duration faster_than_best =
      best_.empty() ? no_limit : best_.front().step_time - Duration{1};
  const Duration listed = std::min(faster_than_best, last_of());
  const std::size_t gpus = gpus_index(index);
  if (of_gpus_[gpus]) return listed;
  return std::max(listed, time_of(within_of_gpus_[gpus]));
}

Duration Ranking::limit(std::uint32_t index, Bytes memory) const {
  if (memory > most_of(index)) return limit_within(index);
  if (static_cast<int>(best_.size()) < specification_.top) return no_limit;
  const Duration on_front =
      std::min(front_limit(), time_of(up_to_class_[static_cast<std::size_t>(class_of(memory))]));
  return std::max({best_.back().step_time, time_of(of_gpus_[gpus_index(index)]), on_front});
}

std::vector<Evaluation> Ranking::within_margin() const {
  std::vector<Evaluation> shown = within_;
  std::erase_if(shown, [&](const Evaluation& one) {
    return !best_.empty() && one.step_time >= best_.front().step_time;
  });
  return shown;
}

std::optional<Evaluation> Ranking::favourite() const {
  if (!best_.empty()) return best_.front();
  return within_.empty() ? std::nullopt : std::optional{within_.front()};
}

std::vector<Evaluation> Ranking::memory_front() const {
  std::vector<Evaluation> front;
  for (int c = memory_classes; c >= 1; --c) {
    const std::optional<Evaluation>& one = up_to_class_[static_cast<std::size_t>(c)];
    const bool fresh = one && (front.empty() || front.back().index != one->index);
    if (fresh && one->step_time <= front_limit()) front.push_back(*one);
  }
  return front;
}

std::vector<Evaluation> Ranking::by_gpus() const {
  std::vector<Evaluation> each;
  for (std::size_t gpus = 0; gpus < of_gpus_.size(); ++gpus) {
    const std::optional<Evaluation>& one = of_gpus_[gpus] ? of_gpus_[gpus] : within_of_gpus_[gpus];
    if (one) each.push_back(*one);
  }
  return each;
}

std::vector<Evaluation> Ranking::cost_front() const {
  const auto gpu_time = [&](const Evaluation& one) {
    const int gpus = candidates_.pipelines[candidates_.all[one.index].pipeline].gpus;
    return static_cast<double>(gpus) * to_seconds(one.step_time);
  };
  const std::vector<Evaluation> each = by_gpus();
  std::vector<Evaluation> front;
  for (const Evaluation& one : each)
    if (std::none_of(each.begin(), each.end(), [&](const Evaluation& other) {
          return other.index != one.index && !faster(one, other) &&
                 (leaves_margin(other) || !leaves_margin(one)) && gpu_time(other) <= gpu_time(one);
        }))
      front.push_back(one);
  std::sort(front.begin(), front.end(), faster);
  return front;
}

}  // namespace sim
