// Ranks as threads of this process. A thread cannot be ended from outside, so a rank that hangs
// ends the process.
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "real/launch/run_ways.hpp"
#include "real/launch/seat.hpp"
#include "real/launch/signals.hpp"
#include "sim/base/input_error.hpp"

namespace real {
namespace {

using Clock = HangDetector::Clock;

// Long enough to unwind the other ranks, whose messages fail at once.
constexpr std::chrono::seconds thread_unwinding_time{5};
constexpr std::chrono::milliseconds thread_look_period{50};

class ThreadedRun {
 public:
  ThreadedRun(const Launch& launch, const Body& body)
      : launch_{launch},
        body_{body},
        fault_{parse_fault(launch.inject)},
        heartbeats_(static_cast<std::size_t>(launch.ranks)),
        ended_(static_cast<std::size_t>(launch.ranks), false) {}

  RunResult run() {
    std::vector<std::unique_ptr<Transport>> world = make_local_world(launch_.ranks);
    std::vector<std::jthread> threads;
    threads.reserve(world.size());
    for (int rank = 0; rank < launch_.ranks; ++rank)
      threads.emplace_back([this, rank, transport = std::move(world[std::size_t(rank)])]() mutable {
        run_rank(rank, std::move(transport));
      });
    watch();
    threads.clear();
    const std::lock_guard lock{mutex_};
    if (!failure_.empty())
      return {.end = refused_ ? RunEnd::refused : RunEnd::failed, .message = failure_};
    return {.end = stopped_ ? RunEnd::interrupted : RunEnd::done};
  }

 private:
  void run_rank(int rank, std::unique_ptr<Transport> transport) {
    Heartbeat& heartbeat = heartbeats_[static_cast<std::size_t>(rank)];
    TransportSeat seat{
        {.world = {.rank = rank,
                   .size = launch_.ranks,
                   .local_rank = rank,
                   .local_size = launch_.ranks,
                   .source = "threads"},
         .transport = transport.get(),
         .heartbeat = &heartbeat,
         .interrupted = [this] { return interrupt_.is_set() || launch_.stop.stop_requested(); },
         .fault = fault_}};
    std::string failure;
    bool is_own = false;
    bool is_refusal = false;
    try {
      if (fault_ && fault_->before_joining && fault_->rank == rank) cause(fault_->kind);
      heartbeat.enter(RankPhase::preparing);
      body_(seat);
      heartbeat.enter(RankPhase::ending);
    } catch (const RankFailure& error) {
      failure = error.what();
      transport->abort(error.rank(), failure);
    } catch (const sim::InputError& error) {
      is_own = is_refusal = true;
      failure = error.what();
      transport->abort(rank, failure);
    } catch (const SharedFailure& error) {
      is_own = true;
      failure = error.what();
    } catch (const std::exception& error) {
      is_own = true;
      failure = failure_text(rank, heartbeat.state(), launch_.operator_name, cause_text(error));
      transport->abort(rank, failure);
    }
    // Its partners are told before it counts as ended.
    transport.reset();
    const std::lock_guard lock{mutex_};
    // The first cause; what follows from it only while no cause is known.
    if (!failure.empty() && (failure_.empty() || (is_own && !failure_is_own_))) {
      failure_ = failure;
      failure_is_own_ = is_own;
      refused_ = is_refusal;
    }
    stopped_ = stopped_ || seat.stopped();
    ended_[static_cast<std::size_t>(rank)] = true;
    changed_.notify_one();
  }

  bool all_ended() const { return std::find(ended_.begin(), ended_.end(), false) == ended_.end(); }

  // Until all ranks have ended.
  void watch() {
    HangDetector detector{launch_.ranks,
                          {.operators = launch_.failure_timeout, .phases = launch_.setup_timeout},
                          Clock::now()};
    std::optional<Clock::time_point> deadline;
    std::unique_lock lock{mutex_};
    while (!all_ended()) {
      changed_.wait_for(lock, thread_look_period);
      const Clock::time_point now = Clock::now();
      if (!failure_.empty() && !deadline) deadline = now + thread_unwinding_time;
      if (deadline && now > *deadline && !all_ended()) end_process(failure_);
      std::vector<HangDetector::Look> looks;
      looks.reserve(ended_.size());
      for (std::size_t rank = 0; rank < ended_.size(); ++rank)
        looks.push_back({heartbeats_[rank].state(), ended_[rank]});
      const std::optional<Hang> hang = detector.check(looks, now);
      if (!hang || !failure_.empty()) continue;
      end_process(hang_text(*hang, looks[static_cast<std::size_t>(hang->rank)].state,
                            launch_.operator_name));
    }
  }

  const Launch& launch_;
  const Body& body_;
  std::optional<Fault> fault_;
  InterruptFlag interrupt_;  // before any thread: they inherit what it blocks
  std::vector<Heartbeat> heartbeats_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::vector<bool> ended_;
  std::string failure_;
  bool failure_is_own_ = false;
  bool refused_ = false;
  bool stopped_ = false;
};

}  // namespace

RunResult run_as_threads(const Launch& launch, const Body& body) {
  return ThreadedRun{launch, body}.run();
}

}  // namespace real
