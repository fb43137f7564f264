// The seam between a search and who does the work: threads, ranks of MPI, shards.
//
// An Evaluation is a pure function of the specification and the number of a candidate. Whoever
// computes it, in whatever order, the result of the search is computed from the set of evaluations
// alone (ranking.hpp), and which candidates are evaluated follows from evaluations alone, wave by
// wave (search.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/control.hpp"
#include "sim/collective/communicator_memory.hpp"
#include "sim/config/reader.hpp"
#include "sim/engine/wirings.hpp"
#include "sim/report/stage_memory.hpp"
#include "sim/search/candidates.hpp"
#include "sim/search/layout_time.hpp"

namespace sim {

struct Evaluation {
  std::uint32_t index = 0;  // of the candidate
  bool fits = false;
  bool by_retries = false;  // it fits by retries of the allocator (sim/report/stage_memory.hpp)
  // The memory of the fullest GPU, with what the device keeps for itself: its tensors, and all that
  // an allocator holds. Where the tensors alone are too much, `memory` is that too. Of several
  // pools, what leaves as much of the smallest device free as the stage with least left has.
  Bytes least_memory{}, memory{};
  Duration step_time{};  // zero where the tensors alone are too much: not simulated
  bool operator==(const Evaluation&) const = default;
};

// KnownLayoutParts keeps, by number, the parts of the layouts that were simulated in full.
// Thread-safe.
class KnownLayoutParts {
 public:
  void keep(std::uint32_t index, const LayoutParts& parts);
  std::optional<LayoutParts> find(std::uint32_t index) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, LayoutParts> parts_;
};

// EvaluationMemory caches what evaluations of one search share. It changes no result. Thread-safe.
struct EvaluationMemory {
  Wirings wirings;
  KnownCommunicators communicators;
  KnownLayoutParts step_parts;
};

// A plan, with what was worked out of its memory.
struct PlannedLayout {
  explicit PlannedLayout(Plan made) : plan{std::move(made)}, memory{plan} {}
  PlannedLayout(const PlannedLayout&) = delete;
  PlannedLayout& operator=(const PlannedLayout&) = delete;
  Plan plan;
  PlanMemory memory;
};

// Whether the plans of two candidates differ in nothing but the order of their ranks.
bool same_programs(const Candidates& candidates, std::uint32_t a, std::uint32_t b);

// An evaluation in parts, from the cheapest to the dearest; each is worked out when it is asked for
// first. Together they are what `evaluate` returns.
class EvaluationInParts {
 public:
  // `planned`: the plan of a candidate with the same programs, or null.
  // REQUIRES: the candidates are those of the specification, and `memory` is of this specification
  // alone. Keeps references to both, and to `control`.
  EvaluationInParts(const SearchSpecification& specification, const Candidates& candidates,
                    std::uint32_t index, EvaluationMemory& memory, const Control& control,
                    std::unique_ptr<PlannedLayout> planned = {});

  Bytes least_memory() const { return made_.least_memory; }
  // Whether the tensors alone are too much.
  bool is_too_large() const { return too_large_; }
  // REQUIRES of these: they are not. Throw Stopped.
  // Some time beyond the limit where the step takes longer than that.
  Duration step_time(Duration limit);
  bool fits();
  const Evaluation& all();
  const Evaluation& so_far() const { return made_; }
  // take_planned() is for another candidate with the same programs; null where they are too large.
  // This evaluation is over then.
  std::unique_ptr<PlannedLayout> take_planned() { return std::move(planned_); }

 private:
  void plan(const Layout& layout);
  Bytes on_smallest(const StageMemory& stage) const;
  void note_least(PlanMemory& memory);

  const SearchSpecification& specification_;
  Cluster cluster_;
  EvaluationMemory& memory_;
  const Control& control_;
  std::unique_ptr<PlannedLayout> planned_;
  Evaluation made_;
  bool too_large_ = false, replayed_ = false, simulated_ = false;
};

// Exact: the memory planner on the whole plan, then the folded simulation if it fits.
// REQUIRES: as EvaluationInParts. Thread-safe. Throws Stopped.
Evaluation evaluate(const SearchSpecification& specification, const Candidates& candidates,
                    std::uint32_t index, EvaluationMemory& memory, const Control& control = {});
// The same for one candidate alone.
Evaluation evaluate(const SearchSpecification& specification, const Candidates& candidates,
                    std::uint32_t index);

// answer_text() writes an evaluation as a JSON object in one line; the others read it back.
// Problems are recorded at `answer`; evaluation_of_text() throws InputError.
std::string answer_text(const Evaluation& evaluation);
Evaluation read_evaluation(std::uint32_t index, const ObjectReader& answer);
Evaluation evaluation_of_text(std::uint32_t index, std::string_view answer);

}  // namespace sim
