#include "sim/engine/recurrence.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace sim {
namespace {

constexpr std::uint64_t forever = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t most_bytes = std::size_t{64} << 20;
constexpr auto compute_stream = static_cast<std::size_t>(Stream::compute);

// One program between two marks, and its operators further on.
class Comparison {
 public:
  Comparison(const Program& program, const ProgramIndex& index, const LaneCosts& lane,
             const SlotMark& begin, const SlotMark& end)
      : program_{program},
        index_{index},
        lane_{lane},
        begin_{begin},
        end_{end},
        phases_{end.host_phase - begin.host_phase} {
    for (std::size_t s = 0; s < stream_count; ++s)
      shift_[s] = end.done[s] - begin.done[s];
  }

  Repetitions result() {
    find_issue();
    std::uint64_t times = forever;
    for (std::size_t s = 0; s < stream_count && times > 0; ++s)
      times = std::min(times, shift_[s] > 0 ? of_stream(s) : of_waiting(s));
    if (times > 0) times = std::min(times, phases_ > 0 ? of_phases() : of_phase());
    return {times, issue_};
  }

 private:
  // Periods for which items that repeat up to (not with) `first_other` suffice, where the engine
  // has looked at those up to and with `last`, and a period has `shift` of them.
  static std::uint64_t periods(std::uint64_t first_other, std::uint64_t last, std::uint64_t shift) {
    return first_other > last ? (first_other - 1 - last) / shift + 1 : 0;
  }

  std::int64_t issued(std::size_t stream, std::uint32_t position) const {
    return index_.issued[index_.order[stream][position].value];
  }

  void find_issue() {
    for (std::size_t s = 0; s < stream_count; ++s)
      if (shift_[s] > 0 && end_.done[s] < index_.order[s].size()) {
        issue_ = issued(s, end_.done[s]) - issued(s, begin_.done[s]);
        return;
      }
  }

  std::uint64_t of_stream(std::size_t stream) const {
    const std::size_t count = index_.order[stream].size();
    std::uint32_t at = begin_.done[stream];
    while (at + shift_[stream] < count && alike(stream, at))
      ++at;
    std::uint32_t last = end_.done[stream];
    if (stream == compute_stream && end_.segment_end > 0)
      last = std::max(last, end_.segment_end - 1);
    return periods(at, last, shift_[stream]);
  }

  // Whether the operator and the one a shift further on are the same to the engine.
  bool alike(std::size_t stream, std::uint32_t position) const {
    const std::uint32_t further = position + shift_[stream];
    const OpId a = index_.order[stream][position];
    const OpId b = index_.order[stream][further];
    if (program_.kind[a.value] != program_.kind[b.value] ||
        program_.work[a.value] != program_.work[b.value] ||
        index_.phase[b.value] - index_.phase[a.value] != phases_ ||
        index_.issued[b.value] - index_.issued[a.value] != issue_ || !same_dependencies(a, b))
      return false;
    return stream != compute_stream || same_segment(position, further);
  }

  bool same_segment(std::uint32_t position, std::uint32_t further) const {
    const auto slack = [&](std::uint32_t at) { return lane_.host_slack[at] + lane_.start[at]; };
    return index_.segment_end[further] - index_.segment_end[position] == shift_[compute_stream] &&
           slack(further) - slack(position) == issue_;
  }

  // Dependencies that were over before the first mark, and their images, hold nobody up.
  bool is_past(const StreamPosition& dependency) const {
    return dependency.position < begin_.done[dependency.stream];
  }

  bool same_dependencies(OpId a, OpId b) const {
    std::uint32_t i = program_.first_dependency[a.value];
    std::uint32_t j = program_.first_dependency[b.value];
    const std::uint32_t last_i = program_.first_dependency[a.value + 1];
    const std::uint32_t last_j = program_.first_dependency[b.value + 1];
    while (i < last_i || j < last_j) {
      if (i < last_i && j < last_j && is_image(index_.dependency[i], index_.dependency[j])) {
        ++i;
        ++j;
      } else if (i < last_i && is_past(index_.dependency[i])) {
        ++i;
      } else if (j < last_j && is_past(index_.dependency[j])) {
        ++j;
      } else {
        return false;
      }
    }
    return true;
  }

  bool is_image(const StreamPosition& a, const StreamPosition& b) const {
    return a.stream == b.stream && b.position == a.position + shift_[a.stream];
  }

  // The bound of a stream that has not moved: what its operator waits for must not come meanwhile.
  std::uint64_t of_waiting(std::size_t stream) const {
    const std::vector<OpId>& order = index_.order[stream];
    const std::uint32_t position = end_.done[stream];
    if (position >= order.size()) return forever;
    const OpId op = order[position];
    std::uint64_t times = forever;
    bool waits = false;
    for (std::uint32_t d = program_.first_dependency[op.value];
         d < program_.first_dependency[op.value + 1]; ++d) {
      const StreamPosition needed = index_.dependency[d];
      if (end_.done[needed.stream] > needed.position) continue;
      waits = true;
      times = std::min(times, until(needed.stream, needed.position));
    }
    if (waits || (end_.host_waiting >> stream & 1U) == 0) return times;
    const std::uint32_t phase = index_.phase[op.value];
    if (phase <= end_.host_phase) return 0;
    return phases_ == 0 ? times
                        : std::min<std::uint64_t>(times, (phase - end_.host_phase - 1) / phases_);
  }

  // Periods after which a stream has still finished no more than so many.
  std::uint64_t until(std::size_t stream, std::uint32_t most) const {
    return shift_[stream] == 0 ? forever : (most - end_.done[stream]) / shift_[stream];
  }

  // The host stays in its phase as long as one of the streams that it waits for has not come.
  std::uint64_t of_phase() const {
    if (end_.host_phase >= index_.phases.size()) return forever;
    const HostPhase& phase = index_.phases[end_.host_phase];
    std::uint64_t times = 0;
    for (std::size_t s = 0; s < stream_count; ++s)
      if (phase.needed[s] > end_.done[s]) times = std::max(times, until(s, phase.needed[s] - 1));
    return times;
  }

  std::uint64_t of_phases() const {
    if (issue_ != 0) return 0;
    std::uint32_t at = begin_.host_phase;
    while (at + phases_ < index_.phases.size() &&
           same_phase(index_.phases[at], index_.phases[at + phases_]))
      ++at;
    return periods(at, end_.host_phase, phases_);
  }

  bool same_phase(const HostPhase& a, const HostPhase& b) const {
    if (a.length != b.length) return false;
    for (std::size_t s = 0; s < stream_count; ++s) {
      const bool past = std::max(a.needed[s], b.needed[s]) <= begin_.done[s];
      if (!past && b.needed[s] - a.needed[s] != shift_[s]) return false;
    }
    return true;
  }

  const Program& program_;
  const ProgramIndex& index_;
  const LaneCosts& lane_;
  const SlotMark& begin_;
  const SlotMark& end_;
  const std::uint32_t phases_;  // of the host in a period
  StreamCounts shift_{};
  std::int64_t issue_ = 0;
};

}  // namespace

std::size_t Snapshot::bytes() const {
  return sizeof(Snapshot) + relative.size() * sizeof(relative[0]) +
         slots.size() * sizeof(slots[0]) + totals.size() * sizeof(totals[0]) +
         pattern_bytes.size() * sizeof(pattern_bytes[0]) +
         (pattern_busy.size() + link_busy.size()) * sizeof(Duration);
}

void Snapshots::add(Snapshot&& snapshot) {
  bytes_ += snapshot.bytes();
  all_.push_back(std::move(snapshot));
  while (bytes_ > most_bytes && all_.size() > 2) {
    bytes_ -= all_.front().bytes();
    all_.pop_front();
  }
}

void Snapshots::clear() {
  all_.clear();
  bytes_ = 0;
}

std::vector<std::uint32_t> milestones(const Program& program, const ProgramIndex& index) {
  const std::vector<OpId>& order = index.order[compute_stream];
  std::optional<std::int16_t> chunk;
  std::pair<std::int32_t, bool> last{-1, false};
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    const OpLabel& label = program.label[order[i].value];
    if (label.microbatch < 0) continue;
    if (!chunk) chunk = label.chunk;
    const std::pair pass{label.microbatch, program.pass[order[i].value] == Pass::forward};
    if (label.chunk != *chunk || std::exchange(last, pass) == pass) continue;
    found.push_back(i);
  }
  return found;
}

Repetitions repetitions(const Program& program, const ProgramIndex& index, const LaneCosts& lane,
                        const SlotMark& begin, const SlotMark& end) {
  return Comparison{program, index, lane, begin, end}.result();
}

}  // namespace sim
