// A search: which layouts are looked at, in which order, and when it is done.
//
//   Search search{load_search(sources)};
//   while (true) {
//     const std::vector<std::uint32_t> wave = search.next_wave();   // empty: done
//     if (wave.empty()) break;
//     search.accept(evaluate each, on threads, ranks or shards);    // in the order of the wave
//   }
//   search.ranking();
//
// Waves depend on the specification and on the evaluations accepted so far, nothing else. So the
// result and every count are the same on any number of threads or machines.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "sim/base/control.hpp"
#include "sim/distribute/shard.hpp"
#include "sim/search/bounds.hpp"
#include "sim/search/ranking.hpp"

namespace sim {

struct SearchCounts {
  std::uint64_t legal = 0;
  std::array<std::uint64_t, refusal_count> refused{};
  std::uint64_t too_large_by_bound = 0;  // even the least memory that they can need is too much
  std::uint64_t too_large = 0;           // planned, and too large
  std::uint64_t too_large_for_host = 0;  // a node's host, or its disks, have not the memory
  std::uint64_t too_slow = 0;            // cannot be in the result: never simulated
  std::uint64_t simulated = 0;  // until it was sure that they are not in the result, or in full
  std::uint64_t open = 0;       // not yet decided
};

// Verdict is the outcome of a layout of a wave.
enum class Verdict : std::uint8_t {
  too_large,
  too_slow,   // cannot be in the result: not simulated
  outranked,  // simulated until it was sure that it is not in the result
  complete,
};
struct Judged {
  Evaluation evaluation;  // as far as it was worked out
  Verdict verdict = Verdict::complete;
};

class Search {
 public:
  // Lists the candidates and bounds them, on the threads of the surrounding TBB arena. With a
  // shard, only the candidates that it owns are looked at. Throws Stopped.
  explicit Search(SearchSpecification specification, Shard shard = {}, const Control& control = {});
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // Told to stop: what it has of the wave. `control.progress` hears of every few layouts that are
  // bounded, on the calling thread; `found` of each layout of the wave as soon as it is known, in
  // order.
  std::vector<std::uint32_t> next_wave(const Control& control = {},
                                       const std::function<void(std::uint32_t)>& found = {});
  // likely_next() guesses the wave after that, from what is known now: at most `count`. Idle
  // workers may begin with it.
  std::vector<std::uint32_t> likely_next(std::size_t count) const;
  // Evaluations of the wave in full, in its order.
  void accept(const std::vector<Evaluation>& evaluations);
  // The same of what was worked out no further than `judge` asked for.
  void accept(const std::vector<Judged>& wave);
  // Evaluates a layout of the wave, part by part, as long as it can still be in the result.
  // `planned`: the plan of a layout with the same programs, or null; then that of this one.
  // Thread-safe. Throws Stopped.
  Judged judge(std::uint32_t index, const Control& control,
               std::unique_ptr<PlannedLayout>& planned) const;

  const SearchSpecification& specification() const { return specification_; }
  const Candidates& candidates() const { return candidates_; }
  const Ranking& ranking() const { return ranking_; }
  EvaluationMemory& memory() const { return *memory_; }
  SearchCounts counts() const;
  // The least that any layout which is not decided can take; nothing: all are decided.
  std::optional<Duration> least_of_open() const;
  // bound_of() is a lower bound on its time and memory. Thread-safe, also while the search runs.
  Bound bound_of(std::uint32_t index) const { return bounds_.fine(index); }
  // least_on_host() is the least that a layout which was refused for it needs of a node's host, by
  // a lower bound; 0: none was.
  Bytes least_on_host() const { return least_on_host_; }
  // The candidate that needs least memory, whether it fits or not; empty: none is legal.
  std::optional<std::uint32_t> leanest() const;

 private:
  friend Scenario take_scenario(Search&& search, std::uint32_t index);
  struct Entry {
    Bound bound;
    std::uint32_t index = 0;
    bool is_fine = false;
    bool operator<(const Entry& other) const {  // the top of a heap is the largest
      if (bound.step_time != other.bound.step_time) return bound.step_time > other.bound.step_time;
      return index > other.index;
    }
  };
  // Counts what a bound says of a layout that fits nowhere; true: it does not.
  bool is_too_large(const Bound& bound);
  void refine();
  void put_back_wave();
  template <class Parts>
  Verdict judge_parts(std::uint32_t index, Parts& parts) const;

  SearchSpecification specification_;
  Candidates candidates_;
  Bounds bounds_;
  Ranking ranking_;
  std::unique_ptr<EvaluationMemory> memory_ = std::make_unique<EvaluationMemory>();
  SearchCounts counts_;
  std::optional<std::uint32_t> leanest_by_bound_;
  Bytes least_on_host_{};
  std::vector<Entry> open_;  // a heap, the least bound on top
  std::vector<Entry> wave_;  // handed out, and not accepted yet
};

struct SearchProgress {
  SearchCounts counts;
  double seconds = 0;
  std::optional<Evaluation> best;
};

// Runs a search to its end on the threads of the surrounding TBB arena, or until it is told to
// stop: then it keeps what it has and returns false. `progress` is called after every wave,
// `control.progress` also while layouts are bounded (next_wave); `evaluated` with each layout
// as soon as it is judged, on threads of the arena, several at once. None changes the result.
bool run_search(Search& search, const Control& control = {},
                const std::function<void(const SearchProgress&)>& progress = {},
                const std::function<void(const Judged&)>& evaluated = {});

// The scenario that was searched, with the layout of a candidate. The search is over then.
Scenario take_scenario(Search&& search, std::uint32_t index);

// The fastest layout for a model on a cluster that leaves the memory margin, else the fastest that
// fits, for other rooms; empty: none fits. Throws Stopped.
std::optional<Scenario> best_scenario(const ScenarioSources& sources, const Control& control = {});

}  // namespace sim
