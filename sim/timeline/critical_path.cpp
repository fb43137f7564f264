#include "sim/timeline/critical_path.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

namespace sim {
namespace {

constexpr std::uint32_t no_op = UINT32_MAX;

struct Place {
  std::uint32_t track = 0;
  std::uint32_t op = 0;
};

// When a transfer ran: the same on all ranks that take part.
struct Transferred {
  TimePoint active, end;
  bool operator==(const Transferred&) const = default;
};
struct TransferredHash {
  std::size_t operator()(const Transferred& at) const {
    const auto active = static_cast<std::uint64_t>(at.active.time_since_epoch().count());
    const auto end = static_cast<std::uint64_t>(at.end.time_since_epoch().count());
    return active * 0x9e3779b97f4a7c15U ^ (end + (active << 6U));
  }
};

class Walk {
 public:
  Walk(const Plan& plan, const Timeline& timeline) : plan_{plan}, timeline_{timeline} {
    before_.resize(timeline.tracks.size());
  }

  std::vector<PathStep> run() {
    std::optional<Place> at = last();
    TimePoint reached = timeline_.end;
    while (at && reached > TimePoint{})
      at = back(*at, reached);
    if (reached > TimePoint{} && !path_.empty()) path_.back().begin = TimePoint{};
    std::reverse(path_.begin(), path_.end());
    return std::move(path_);
  }

 private:
  const Program& program(std::uint32_t track) const {
    return plan_.program(timeline_.tracks[track].rank);
  }
  const Span& span(Place at) const { return timeline_.tracks[at.track].spans[at.op]; }

  // The operator that ends with the step.
  std::optional<Place> last() const {
    for (std::uint32_t track = 0; track < timeline_.tracks.size(); ++track) {
      const auto& spans = timeline_.tracks[track].spans;
      for (std::uint32_t op = 0; op < spans.size(); ++op)
        if (spans[op].end == timeline_.end) return Place{track, op};
    }
    return std::nullopt;
  }

  // Adds the step that `at` is, and names the operator that it waited for; nothing: it is the
  // first. `reached` is the begin of the path so far.
  std::optional<Place> back(Place at, TimePoint& reached) {
    const TimePoint ran = span(at).active;
    if (ran < reached) add(at, ran, reached);
    if (span(at).begin < span(at).active) {
      const std::optional<Place> late = last_to_arrive(at);
      set_cause(Cause::partner);
      if (!late) return wait_alone(at, reached);
      at = *late;
    }
    return cause_of(at, reached);
  }

  void add(Place at, TimePoint begin, TimePoint& reached) {
    path_.push_back({at.track, OpId{at.op}, begin, reached, Cause::start, false});
    open_ = true;
    reached = begin;
  }

  // No track shows who arrived last: the wait stays on the path.
  std::optional<Place> wait_alone(Place at, TimePoint& reached) {
    if (!path_.empty()) path_.back().begin = span(at).begin;
    reached = span(at).begin;
    return cause_of(at, reached);
  }

  // The last to end of all that the begin of `at` waited for.
  std::optional<Place> cause_of(Place at, TimePoint& reached) {
    std::uint32_t latest = previous(at);
    Cause cause = Cause::stream;
    TimePoint end = latest == no_op ? TimePoint{} : span({at.track, latest}).end;
    for (const OpId op : program(at.track).dependencies(OpId{at.op})) {
      const TimePoint ended = span({at.track, op.value}).end;
      if (latest != no_op && ended <= end) continue;
      latest = op.value;
      end = ended;
      cause = Cause::dependency;
    }
    if (latest == no_op) cause = Cause::start;
    set_cause(end < reached ? Cause::host : cause);
    if (end < reached) {
      path_.push_back({at.track, OpId{at.op}, end, reached, cause, true});
      reached = end;
    }
    if (latest == no_op) return std::nullopt;
    return Place{at.track, latest};
  }

  // Sets the cause of the step added last, once: an operator that takes no time is no step.
  void set_cause(Cause cause) {
    if (open_) path_.back().cause = cause;
    open_ = false;
  }

  // The operator before it on its stream.
  std::uint32_t previous(Place at) {
    std::vector<std::uint32_t>& before = before_[at.track];
    if (before.empty()) {
      std::array<std::uint32_t, stream_count> newest{};
      newest.fill(no_op);
      const Program& its = program(at.track);
      before.resize(its.size());
      for (std::uint32_t op = 0; op < before.size(); ++op) {
        std::uint32_t& lane = newest[static_cast<std::size_t>(its.stream[op])];
        before[op] = lane;
        lane = op;
      }
    }
    return before[at.op];
  }

  std::optional<Place> last_to_arrive(Place at) {
    if (arrivals_.empty()) index_arrivals();
    const auto found = arrivals_.find({span(at).active, span(at).end});
    if (found == arrivals_.end()) return std::nullopt;
    return found->second;
  }

  void index_arrivals() {
    for (std::uint32_t track = 0; track < timeline_.tracks.size(); ++track) {
      const Program& its = program(track);
      const auto& spans = timeline_.tracks[track].spans;
      for (std::uint32_t op = 0; op < spans.size(); ++op)
        if (!runs_kernel(its.kind[op]) && spans[op].begin == spans[op].active &&
            spans[op].end > spans[op].active)
          arrivals_.try_emplace({spans[op].active, spans[op].end}, Place{track, op});
    }
  }

  const Plan& plan_;
  const Timeline& timeline_;
  std::vector<std::vector<std::uint32_t>> before_;  // [track][op], made when a track is reached
  std::unordered_map<Transferred, Place, TransferredHash> arrivals_;
  std::vector<PathStep> path_;  // the latest first
  bool open_ = false;           // the cause of the latest is not known yet
};

}  // namespace

std::vector<PathStep> critical_path(const Plan& plan, const Timeline& timeline) {
  return Walk{plan, timeline}.run();
}

}  // namespace sim
