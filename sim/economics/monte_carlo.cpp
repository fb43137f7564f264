#include "sim/economics/monte_carlo.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/check.hpp"
#include "sim/base/parallel.hpp"
#include "sim/economics/happenings.hpp"

namespace sim {
namespace {

using happenings::Away;
using happenings::Draws;
using happenings::Happening;
using happenings::infinite;
using happenings::Occurrences;

// One run. Parts, the work between two checkpoints of either tier, are counted, not walked: between
// two happenings their number is a division.
class Player {
 public:
  Player(const RunModel& run, std::uint64_t seed, std::uint64_t index)
      : run_{run},
        part_{run.part().count()},
        stall_{run.part_stall().count()},
        lag_{run.lag.count()},
        per_segment_{run.memory.per_segment},
        per_check_{run.memory.per_segment * run.corruption.segments_per_check},
        failures_{run.failures.every, run.weibull_shape, seed, index, Happening::failure},
        preemptions_{run.preemptions.every, 1, seed, index, Happening::preemption},
        slow_nodes_{run.slow.every, 1, seed, index, Happening::slow_node},
        of_software_{seed, index, Happening::of_software},
        partner_{seed, index, Happening::partner},
        corruption_{seed, index, Happening::corruption},
        away_{run.pool, seed, index} {
    begin_part();
    draw_corruption();
  }

  Played play() {
    while (true) {
      notice_slow_nodes();
      if (!all_done()) notice_nodes_back();
      const double stop = next_stop();
      const double change =
          std::min({slow_nodes_.next(), is_slow() ? slow_until_ : infinite, away_.change()});
      const double until = std::min(stop, change);
      const double end = now_ + time_left();
      if (end <= until) {
        if (goal() < corrupt_at_) return result(end);
        find_corruption(end);
        continue;
      }
      work_until(until);
      if (stop <= change) restore();
    }
  }

 private:
  void begin_part() {
    work_left_ = part_;
    stall_left_ = stall_;
    paused_ = 0;
  }
  bool is_slow() const { return now_ < slow_until_; }
  double pace() const {  // time per work
    return (is_slow() ? run_.slow.factor : 1) * (1 + run_.flap_stalls) / away_.speed();
  }
  std::int64_t goal() const { return std::min(run_.parts(), corrupt_at_); }
  bool all_done() const { return done_ == run_.parts(); }
  double next_stop() const { return std::min(failures_.next(), preemptions_.next()); }

  void notice_slow_nodes() {
    for (; slow_nodes_.next() <= now_; slow_nodes_.pass())
      slow_until_ = std::max(slow_until_, slow_nodes_.next() + run_.slow.lasts.count());
  }

  // The job halts to take in the nodes that it had gone on without.
  void notice_nodes_back() {
    const double up = now_ + away_.take_back(now_) * run_.pool.resize.count();
    const double until = std::min(up, next_stop());
    if (until <= now_) return;
    down_ += until - now_;
    paused_ += until - now_;
    now_ = until;
    if (until < up) restore();
  }

  double time_left() const {
    if (all_done()) return stored_at_ + lag_ - now_;
    const auto further = static_cast<double>(goal() - done_ - 1);
    const double work = work_left_ * pace() + stall_left_ + further * (part_ * pace() + stall_);
    return goal() < corrupt_at_ ? work + lag_ : work;
  }

  void end_parts(std::int64_t count, double first_end, double cycle) {
    if (count == 0) return;
    done_ += count;
    last_end_ = first_end + static_cast<double>(count - 1) * cycle;
    const std::int64_t since_stored = done_ % per_segment_;
    if (since_stored < count) stored_at_ = last_end_ - static_cast<double>(since_stored) * cycle;
    begin_part();
  }

  void work_until(double until) {
    if (!all_done()) {
      const double cycle = part_ * pace() + stall_;
      const double first_end = now_ + work_left_ * pace() + stall_left_;
      if (until >= first_end) {
        const auto further = static_cast<std::int64_t>((until - first_end) / cycle);
        end_parts(std::min(1 + further, goal() - done_), first_end, cycle);
      }
      if (!all_done()) work_within_part(until - std::max(now_, last_end_));
    }
    now_ = until;
  }

  void work_within_part(double time) {
    const double work = std::min(std::max(time, 0.0), work_left_ * pace());
    work_left_ -= work / pace();
    stall_left_ -= std::min(std::max(time - work, 0.0), stall_left_);
  }

  void draw_corruption() {
    if (run_.corruption.every == never) return;
    const double work = part_ * static_cast<double>(per_check_);
    const double clean =
        std::floor(corruption_.exponential() * run_.corruption.every.count() / work);
    const auto checks_left = static_cast<double>((run_.parts() - done_) / per_check_);
    corrupt_at_ =
        clean < checks_left ? done_ + (1 + static_cast<std::int64_t>(clean)) * per_check_ : beyond;
  }

  // A check finds that the work since the last one is wrong.
  void find_corruption(double end) {
    const std::int64_t clean = corrupt_at_ - per_check_;
    lost_ += static_cast<double>(per_check_) * (part_ + stall_);
    ++corruption_count_;
    now_ = end;
    const double up = std::min(now_ + run_.corruption.restart.count(), next_stop());
    down_ += up - now_;
    begin_at(clean, up);
    stored_at_ = -infinite;
    draw_corruption();
    if (up == next_stop()) restore();
  }

  void begin_at(std::int64_t done, double now) {
    done_ = restored_ = done;
    now_ = last_end_ = now;
    begin_part();
  }

  // Down from a stop until the last restart is over; whether the memory survived all of it.
  bool go_down(double& up) {
    bool good = true;
    for (bool first = true; next_stop() <= up; first = false) {
      const bool failed = failures_.next() <= preemptions_.next();
      Occurrences& stops = failed ? failures_ : preemptions_;
      const double at = stops.next();
      stops.pass();
      ++(failed ? failure_count_ : preemption_count_);
      const bool software = failed && run_.software > 0 && of_software_.uniform() < run_.software;
      if (software)
        good = good && run_.memory.survives_software;
      else
        good = good && run_.memory.survives_node &&
               (first || partner_.uniform() >= run_.memory.second_is_partner);
      const Seconds restart = software ? run_.software_restart
                              : failed ? run_.failures.restart
                                       : run_.preemptions.restart;
      const double saved = good ? run_.memory.saved.count() : 0;
      up = (software ? at : wait_for_node(at)) + std::max(0.0, restart.count() - saved);
    }
    return good;
  }

  // Parts do not fail while the job waits.
  double wait_for_node(double at) {
    const double enough = away_.lose(at);
    failures_.delay(enough - at);
    preemptions_.delay(enough - at);
    waited_ += enough - at;
    return enough;
  }

  // Back to the last checkpoint that can be restored from, and down until the restart is over.
  void restore() {
    double up = now_;
    const bool from_memory = go_down(up);
    std::int64_t from = done_;
    if (from_memory) {
      if (done_ > restored_ && now_ - last_end_ < run_.memory.lag.count()) --from;
    } else {
      from -= done_ % per_segment_;
      if (now_ - stored_at_ < lag_) from -= per_segment_;
    }
    const bool same_stored = from_memory && from / per_segment_ == done_ / per_segment_;
    lost_ += now_ - last_end_ - paused_ + static_cast<double>(done_ - from) * (part_ + stall_);
    down_ += up - now_;
    away_.take_back(up);
    begin_at(from, up);
    if (!same_stored) stored_at_ = -infinite;
    if (all_done()) stored_at_ = up;
  }

  Played result(double end) const {
    const double planned = run_.work.count() + static_cast<double>(run_.parts()) * stall_ + lag_;
    const bool slows =
        run_.slow.every != never || run_.flap_stalls > 0 || !run_.pool.speeds.empty();
    return {.wall = Seconds{end},
            .lost = Seconds{lost_},
            .down = Seconds{down_},
            .waited = Seconds{waited_},
            .slow = Seconds{slows ? std::max(0.0, end - planned - lost_ - down_) : 0},
            .failures = failure_count_,
            .preemptions = preemption_count_,
            .corruptions = corruption_count_};
  }

  static constexpr std::int64_t beyond = std::numeric_limits<std::int64_t>::max();
  const RunModel& run_;
  const double part_, stall_, lag_;
  const std::int64_t per_segment_, per_check_;
  Occurrences failures_, preemptions_, slow_nodes_;
  Draws of_software_, partner_, corruption_;
  Away away_;
  double now_ = 0;
  double slow_until_ = 0;
  std::int64_t done_ = 0, restored_ = 0;   // parts; those of the checkpoint restored last
  std::int64_t corrupt_at_ = beyond;       // parts at whose end a check finds something
  double work_left_ = 0, stall_left_ = 0;  // of the part that is under way
  double paused_ = 0;                      // in it
  double last_end_ = 0;                    // of the part done last, or the restart
  double stored_at_ = -infinite;           // end of the last part that is written to the storage
  double lost_ = 0, down_ = 0, waited_ = 0;
  std::int64_t failure_count_ = 0, preemption_count_ = 0, corruption_count_ = 0;
};

}  // namespace

std::vector<Played> play(const RunModel& run, int runs, std::uint64_t seed, unsigned threads) {
  constexpr double rounding = 1 + 1e-9;
  SIM_CHECK(std::isfinite(expected_wall_time(run).count()) && run.segments >= 1 &&
                (run.segments == 1 || run.lag <= run.segment() * rounding) &&
                run.memory.lag <= run.part() * rounding,
            run.segments, run.lag.count(), run.memory.lag.count());
  std::vector<Played> played(static_cast<std::size_t>(runs));
  for_each_piece(played.size(), {.threads = static_cast<int>(threads)}, [&](std::size_t i) {
    played[i] = Player{run, seed, i}.play();
  });
  return played;
}

double expected_events(const RunModel& run, int runs) {
  const Seconds wall = expected_wall_time(run);
  const double back = run.pool.limited ? wall / time_between_losses(run) : 0;
  return runs * (1 + wall / time_between_stops(run) + 2 * (wall / run.slow.every) + back +
                 wall / run.corruption.every);
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
