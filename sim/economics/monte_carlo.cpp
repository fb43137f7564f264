#include "sim/economics/monte_carlo.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/check.hpp"
#include "sim/base/parallel.hpp"
#include "sim/base/random.hpp"

namespace sim {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// Happening is what may happen to a run, each kind from random numbers of its own.
enum class Happening : std::uint8_t { failure, preemption, slow_node };

// Times of the happenings of one kind. Between failures: Weibull, whose scale is chosen for the
// mean; the clock is set anew at each failure. An exponential one is a Weibull one of shape 1.
class Occurrences {
 public:
  Occurrences(Seconds every, double shape, std::uint64_t seed, std::uint64_t run, Happening kind)
      : every_{every.count() / std::tgamma(1 + 1 / shape)},
        inverse_shape_{1 / shape},
        seed_{hash_combine(seed, static_cast<std::uint64_t>(kind))},
        run_{run} {
    if (std::isinf(every_)) return;
    next_ = draw();
  }
  double next() const { return next_; }
  void pass() { next_ += draw(); }

 private:
  double draw() {
    const double exponential = -std::log(uniform(seed_, run_, count_++));
    return every_ * (inverse_shape_ == 1 ? exponential : std::pow(exponential, inverse_shape_));
  }
  double every_, inverse_shape_;
  std::uint64_t seed_, run_, count_ = 0;
  double next_ = infinite;
};

// One run. Segments are counted, not walked: between two happenings their number is a division.
class Player {
 public:
  Player(const RunModel& run, std::uint64_t seed, std::uint64_t index)
      : run_{run},
        segment_{run.segment().count()},
        stall_{run.stall.count()},
        lag_{run.lag.count()},
        failures_{run.failures.every, run.weibull_shape, seed, index, Happening::failure},
        preemptions_{run.preemptions.every, 1, seed, index, Happening::preemption},
        slow_nodes_{run.slow.every, 1, seed, index, Happening::slow_node} {
    begin_segment();
  }

  Played play() {
    while (true) {
      notice_slow_nodes();
      const double stop = std::min(failures_.next(), preemptions_.next());
      const double change = std::min(slow_nodes_.next(), is_slow() ? slow_until_ : infinite);
      const double until = std::min(stop, change);
      const double end = now_ + time_left();
      if (end <= until) return result(end);
      work_until(until);
      if (stop <= change) restore();
    }
  }

 private:
  void begin_segment() {
    work_left_ = segment_;
    stall_left_ = stall_;
  }
  bool is_slow() const { return now_ < slow_until_; }
  double pace() const { return is_slow() ? run_.slow.factor : 1; }  // time per work
  bool all_done() const { return done_ == run_.segments; }

  void notice_slow_nodes() {
    for (; slow_nodes_.next() <= now_; slow_nodes_.pass())
      slow_until_ = std::max(slow_until_, slow_nodes_.next() + run_.slow.lasts.count());
  }

  double time_left() const {
    if (all_done()) return last_end_ + lag_ - now_;
    const auto further = static_cast<double>(run_.segments - done_ - 1);
    return work_left_ * pace() + stall_left_ + further * (segment_ * pace() + stall_) + lag_;
  }

  void end_segments(std::int64_t count, double first_end, double cycle) {
    if (count == 0) return;
    done_ += count;
    const double end = first_end + static_cast<double>(count - 1) * cycle;
    before_last_end_ = count > 1 ? end - cycle : last_end_;
    last_end_ = end;
    begin_segment();
  }

  void work_until(double until) {
    if (!all_done()) {
      const double cycle = segment_ * pace() + stall_;
      const double first_end = now_ + work_left_ * pace() + stall_left_;
      if (until >= first_end) {
        const auto further = static_cast<std::int64_t>((until - first_end) / cycle);
        end_segments(std::min(1 + further, run_.segments - done_), first_end, cycle);
      }
      if (!all_done()) work_within_segment(until - std::max(now_, last_end_));
    }
    now_ = until;
  }

  void work_within_segment(double time) {
    const double work = std::min(std::max(time, 0.0), work_left_ * pace());
    work_left_ -= work / pace();
    stall_left_ -= std::min(std::max(time - work, 0.0), stall_left_);
  }

  // Back to the last checkpoint that can be restored from, and down until the restart is over.
  void restore() {
    const bool unusable = done_ > restored_ && now_ - last_end_ < lag_;
    if (unusable) --done_;
    lost_ += now_ - (unusable ? before_last_end_ : last_end_);
    const double since = now_;
    double up = now_;
    while (std::min(failures_.next(), preemptions_.next()) <= up) {
      const bool failed = failures_.next() <= preemptions_.next();
      Occurrences& stops = failed ? failures_ : preemptions_;
      up = stops.next() + (failed ? run_.failures : run_.preemptions).restart.count();
      ++(failed ? failure_count_ : preemption_count_);
      stops.pass();
    }
    down_ += up - since;
    now_ = last_end_ = before_last_end_ = up;
    restored_ = done_;
    begin_segment();
  }

  Played result(double end) const {
    const double planned = run_.work.count() + static_cast<double>(run_.segments) * stall_ + lag_;
    const double slow = run_.slow.every == never ? 0 : std::max(0.0, end - planned - lost_ - down_);
    return {.wall = Seconds{end},
            .lost = Seconds{lost_},
            .down = Seconds{down_},
            .slow = Seconds{slow},
            .failures = failure_count_,
            .preemptions = preemption_count_};
  }

  const RunModel& run_;
  const double segment_, stall_, lag_;
  Occurrences failures_, preemptions_, slow_nodes_;
  double now_ = 0;
  double slow_until_ = 0;
  std::int64_t done_ = 0, restored_ = 0;       // segments; those of the checkpoint restored last
  double work_left_ = 0, stall_left_ = 0;      // of the segment that is under way
  double last_end_ = 0, before_last_end_ = 0;  // of the segments done last, or the restart
  double lost_ = 0, down_ = 0;
  std::int64_t failure_count_ = 0, preemption_count_ = 0;
};

}  // namespace

std::vector<Played> play(const RunModel& run, int runs, std::uint64_t seed, unsigned threads) {
  constexpr double rounding = 1 + 1e-9;
  SIM_CHECK(std::isfinite(expected_wall_time(run).count()) && run.segments >= 1 &&
                (run.segments == 1 || run.lag <= run.segment() * rounding),
            run.segments, run.lag.count());
  std::vector<Played> played(static_cast<std::size_t>(runs));
  for_each_piece(played.size(), {.threads = static_cast<int>(threads)}, [&](std::size_t i) {
    played[i] = Player{run, seed, i}.play();
  });
  return played;
}

double expected_events(const RunModel& run, int runs) {
  const Seconds wall = expected_wall_time(run);
  return runs * (1 + wall / time_between_stops(run) + 2 * (wall / run.slow.every));
}

Distribution wall_times(const std::vector<Played>& played) {
  Distribution result;
  const auto count = static_cast<double>(played.size());
  double sum = 0;
  for (const Played& one : played)
    sum += one.wall.count();
  const double mean = sum / count;
  double squares = 0;
  for (const Played& one : played) {
    squares += (one.wall.count() - mean) * (one.wall.count() - mean);
    result.sorted.push_back(one.wall);
  }
  std::sort(result.sorted.begin(), result.sorted.end());
  result.mean = Seconds{mean};
  if (played.size() > 1) result.standard_error = Seconds{std::sqrt(squares / (count - 1) / count)};
  return result;
}

Seconds Distribution::quantile(double probability) const {
  const double place = probability * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

double Distribution::probability_within(Seconds limit) const {
  const auto past = std::upper_bound(sorted.begin(), sorted.end(), limit);
  return static_cast<double>(past - sorted.begin()) / static_cast<double>(sorted.size());
}

}  // namespace sim
