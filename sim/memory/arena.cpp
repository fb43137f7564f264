// Best fit in issue order. Free memory is a row of segments by address, each with the operators
// that used it last; a request takes the smallest run of neighbouring segments that it may use, or
// grows the arena.
#include "sim/memory/arena.hpp"

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/base/rounding.hpp"
#include "sim/program/happens_before.hpp"

namespace sim {
namespace {

using Clock = HappensBefore::Clock;

std::int64_t aligned(std::int64_t bytes) {
  const std::int64_t units = divide_up(bytes, arena_alignment);
  return std::max<std::int64_t>(units, 1) * arena_alignment;
}

struct Segment {
  std::int64_t begin = 0, end = 0;
  Clock users{};  // that must be done before another may have it
};

// Memory that no buffer holds.
class FreeSegments {
 public:
  FreeSegments(const HappensBefore& order, std::int64_t start) : order_{order}, end_{start} {}

  std::int64_t end() const { return end_; }

  // `size` bytes for a buffer that `op` is the first to use.
  std::int64_t take(std::int64_t size, OpId op) {
    std::size_t best = segments_.size(), best_last = 0;
    std::int64_t best_size = INT64_MAX;
    std::size_t first = 0;
    while (first < segments_.size()) {
      if (!order_.ordered(segments_[first].users, op)) {
        ++first;
        continue;
      }
      const std::size_t last = run_of(first, op);
      const std::int64_t length = segments_[last].end - segments_[first].begin;
      if (length >= size && length < best_size) {
        best = first;
        best_last = last;
        best_size = length;
      }
      first = last + 1;
    }
    if (best == segments_.size()) return grow(size, op);
    const std::int64_t begin = segments_[best].begin;
    cut(best, best_last, begin + size);
    return begin;
  }

  void give(std::int64_t begin, std::int64_t size, const Clock& users) {
    const auto after = std::lower_bound(
        segments_.begin(), segments_.end(), begin,
        [](const Segment& segment, std::int64_t at) { return segment.begin < at; });
    segments_.insert(after, Segment{begin, begin + size, users});
  }

 private:
  // The last of the segments from `first` on that join without a gap and that `op` may use.
  std::size_t run_of(std::size_t first, OpId op) const {
    std::size_t last = first;
    while (last + 1 < segments_.size() && segments_[last + 1].begin == segments_[last].end &&
           order_.ordered(segments_[last + 1].users, op)) {
      ++last;
    }
    return last;
  }

  // At the end of the arena, from the free memory on that ends there.
  std::int64_t grow(std::int64_t size, OpId op) {
    std::size_t first = segments_.size();
    std::int64_t begin = end_;
    while (first > 0 && segments_[first - 1].end == begin &&
           order_.ordered(segments_[first - 1].users, op)) {
      begin = segments_[--first].begin;
    }
    segments_.resize(first);
    end_ = begin + size;
    return begin;
  }

  // Takes [segments_[first].begin, until) out; of the run, what is left keeps its users.
  void cut(std::size_t first, std::size_t last, std::int64_t until) {
    std::size_t keep = first;
    while (keep <= last && segments_[keep].end <= until)
      ++keep;
    if (keep <= last) segments_[keep].begin = until;
    const auto at = [&](std::size_t i) {
      return segments_.begin() + static_cast<std::ptrdiff_t>(i);
    };
    segments_.erase(at(first), at(keep));
  }

  const HappensBefore& order_;
  std::int64_t end_ = 0;
  std::vector<Segment> segments_;
};

// One life of a buffer under way.
struct Life {
  std::int64_t begin = -1;
  Clock users{};
};

class ArenaPlanner {
 public:
  explicit ArenaPlanner(const Program& program)
      : program_{program}, order_{program}, lives_(program.buffers.size()) {
    layout_.offset_of_use.resize(program.buffer_use.size());
    layout_.offset_of_persistent.assign(program.buffers.size(), -1);
  }

  ArenaLayout plan() {
    std::int64_t end = 0;
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      if (!program_.buffers[i].persistent) continue;
      layout_.offset_of_persistent[i] = lives_[i].begin = end;
      end += aligned(program_.buffers[i].size.count());
    }
    FreeSegments free{order_, end};
    for (std::uint32_t i = 0; i < program_.size(); ++i)
      place(OpId{i}, free);
    layout_.size = Bytes{free.end()};
    place_on_host();
    return std::move(layout_);
  }

 private:
  // Behind the device's memory, as if the two were one.
  void place_on_host() {
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      const Bytes size = program_.buffers[i].host;
      if (size.count() == 0) continue;
      layout_.offset_of_persistent[i] = (layout_.size + layout_.host).count();
      layout_.host += Bytes{aligned(size.count())};
    }
    for (std::size_t i = 0; i < program_.buffer_use.size(); ++i) {
      const std::uint32_t buffer = program_.buffer_use[i].buffer.value;
      if (program_.buffers[buffer].host.count() > 0)
        layout_.offset_of_use[i] = layout_.offset_of_persistent[buffer];
    }
  }

  // As memory_use() counts: what is written is there before anything that ends is given back.
  void place(OpId op, FreeSegments& free) {
    const auto uses = program_.buffer_uses(op);
    const std::size_t first = program_.first_buffer_use[op.value];
    for (const BufferUse& use : uses) {
      Life& life = lives_[use.buffer.value];
      if (life.begin >= 0 || use.access != Access::write) continue;
      life.begin = free.take(size_of(use.buffer), op);
      life.users = {};
    }
    for (std::size_t i = 0; i < uses.size(); ++i) {
      Life& life = lives_[uses[i].buffer.value];
      SIM_CHECK(life.begin >= 0, "used while not alive:", uses[i].buffer.value, op.value);
      layout_.offset_of_use[first + i] = life.begin;
      life.users[order_.stream_of(op)] = op.value + 1;
    }
    for (const BufferUse& use : uses) {
      if (use.access != Access::free) continue;
      Life& life = lives_[use.buffer.value];
      free.give(life.begin, size_of(use.buffer), life.users);
      life.begin = -1;
    }
  }

  std::int64_t size_of(BufferId buffer) const {
    return aligned(program_.buffers[buffer.value].size.count());
  }

  const Program& program_;
  HappensBefore order_;
  std::vector<Life> lives_;
  ArenaLayout layout_;
};

}  // namespace

ArenaLayout arena_layout(const Program& program) {
  return ArenaPlanner{program}.plan();
}

}  // namespace sim
