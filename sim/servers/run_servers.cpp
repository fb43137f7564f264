#include "sim/servers/run_servers.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <queue>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"
#include "sim/sharing/link_sharing.hpp"

namespace sim {
namespace {

enum class EventKind : std::uint8_t {
  begin,     // of a worker's step
  ready,     // a bucket's gradients
  computed,  // the kernels before an exchange must be through
  ended,     // those behind it, and with them the step
  moved,     // a message has left its links
  arrived,   // at the servers
  updated,   // the servers are through with a worker's gradients of a bucket
  returned,  // a bucket is back at its worker
};

struct Event {
  TimePoint at;
  std::uint64_t order = 0;  // of equal times, the first made is first
  EventKind kind = EventKind::begin;
  std::uint32_t worker = 0, bucket = 0;
  std::uint64_t stamp = 0;  // moved: of the lane
  bool operator>(const Event& other) const {
    return at != other.at ? at > other.at : order > other.order;
  }
};

// One direction between a worker and the servers: a message at a time.
struct Lane {
  std::deque<std::uint32_t> waiting;  // buckets
  bool busy = false;
  std::uint32_t bucket = 0;
  std::uint64_t stamp = 0;  // of the end that holds
};

struct Worker {
  std::int64_t steps = 0;  // done
  std::uint32_t outstanding = 0;
  bool computing = false, blocked = false;
  TimePoint computed{}, ended{};
  Duration compute{}, tail{}, exchange{};
  std::vector<std::int64_t> pulled;  // by bucket: the version that it has
};

struct Bucket {
  std::int64_t version = 0;
  std::uint32_t summed = 0;  // synchronous: gradients of this step
};

// Steps of each worker that are run to forget the start, and that are counted; fewer where there
// are many messages in one.
struct Length {
  std::int64_t warm_up, counted;
};
Length length_of(const ServerSystem& system) {
  constexpr std::int64_t messages = 6'000;
  const auto each = static_cast<std::int64_t>(system.workers.size() * system.messages.size());
  const bool steady = system.mode == Servers::synchronous && system.jitter == 0;
  const std::int64_t steps = std::clamp<std::int64_t>(messages / each, 6, steady ? 6 : 60);
  return {steps / 4, steps - steps / 4};
}

class Runner {
 public:
  Runner(const ServerSystem& system, const Control& control)
      : system_{system},
        control_{control},
        workers_(system.workers.size()),
        buckets_(system.messages.size()),
        push_(system.workers.size()),
        pull_(system.workers.size()),
        links_{system.capacities},
        carried_(system.capacities.size()) {
    const Length length = length_of(system);
    const auto n = static_cast<std::int64_t>(workers_.size());
    first_ = length.warm_up * n;
    last_ = (length.warm_up + length.counted) * n;
    run_.waited_for.resize(workers_.size());
    for (std::uint32_t w = 0; w < workers_.size(); ++w) {
      workers_[w].pulled.resize(buckets_.size());
      add(TimePoint{}, EventKind::begin, w);
    }
  }

  ServerRun run() {
    for (std::uint64_t turns = 0; done_ < last_; ++turns) {
      if (turns % 4096 == 0) throw_if_stopped(control_);
      SIM_CHECK(!events_.empty(), "workers and servers wait for each other");
      now_ = events_.top().at;
      while (!events_.empty() && events_.top().at == now_) {
        const Event event = events_.top();
        events_.pop();
        handle(event);
      }
      for (const LinkSharing::Change& change : links_.settle(now_))
        end_at(change);
    }
    return finished();
  }

 private:
  bool counts() const { return done_ >= first_; }
  const ServerMessage& message(std::uint32_t bucket) const { return system_.messages[bucket]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(workers_.size()); }

  void add(TimePoint at, EventKind kind, std::uint32_t worker, std::uint32_t bucket = 0,
           std::uint64_t stamp = 0) {
    events_.push({at, ++made_, kind, worker, bucket, stamp});
  }

  void handle(const Event& event) {
    switch (event.kind) {
      case EventKind::begin:
        return begin(event.worker);
      case EventKind::ready:
        push_[event.worker].waiting.push_back(event.bucket);
        return start(event.worker, push_[event.worker], true);
      case EventKind::computed:
        workers_[event.worker].computing = false;
        workers_[event.worker].computed = now_;
        return go_on(event.worker);
      case EventKind::ended:
        return end_step(event.worker);
      case EventKind::moved:
        return moved(event);
      case EventKind::arrived:
        queue_.emplace_back(event.worker, event.bucket);
        return serve();
      case EventKind::updated:
        return updated(event);
      case EventKind::returned:
        --workers_[event.worker].outstanding;
        return go_on(event.worker);
    }
  }

  Duration scaled(Duration time, double factor) const {
    return duration_from_seconds(to_seconds(time) * factor);
  }

  void begin(std::uint32_t w) {
    Worker& worker = workers_[w];
    double factor = system_.workers[w].slowness;
    if (system_.jitter > 0) {  // log-normal with mean 1
      const double z = standard_normal(system_.seed, w, static_cast<std::uint64_t>(worker.steps));
      factor *= std::exp(system_.jitter * z - system_.jitter * system_.jitter / 2);
    }
    worker.tail = scaled(system_.tail, factor);
    worker.compute = scaled(system_.compute, factor);
    worker.computing = true;
    worker.outstanding = static_cast<std::uint32_t>(buckets_.size());
    for (std::uint32_t b = 0; b < buckets_.size(); ++b)
      add(now_ + scaled(message(b).ready, factor), EventKind::ready, w, b);
    add(now_ + worker.compute, EventKind::computed, w);
  }

  // A lane's transfer is numbered by its worker; those back behind those out.
  void start(std::uint32_t w, Lane& lane, bool out) {
    if (lane.busy || lane.waiting.empty()) return;
    lane.busy = true;
    lane.bucket = lane.waiting.front();
    lane.waiting.pop_front();
    const ServerRoute& route = out ? system_.workers[w].push : system_.workers[w].pull;
    const Bytes bytes = out ? message(lane.bucket).pushed : message(lane.bucket).pulled;
    const double rate = static_cast<double>(route.rate);
    for (const ResourceUse& use : route.links)
      carried_[use.resource] += static_cast<double>(bytes.count()) *
                                static_cast<double>(use.weight) / 65536 * (counts() ? 1 : 0);
    links_.start(out ? w : size() + w,
                 {.uses = route.links,
                  .full_rate = route.rate,
                  .full_time = duration_from_seconds(static_cast<double>(bytes.count()) / rate)},
                 now_);
  }

  void end_at(const LinkSharing::Change& change) {
    SIM_CHECK(change.end != TimePoint::max(), "a link of the servers is dead");
    const bool out = change.id < size();
    const std::uint32_t w = out ? change.id : change.id - size();
    Lane& lane = out ? push_[w] : pull_[w];
    add(change.end, EventKind::moved, change.id, lane.bucket, ++lane.stamp);
  }

  void moved(const Event& event) {
    const bool out = event.worker < size();
    const std::uint32_t w = out ? event.worker : event.worker - size();
    Lane& lane = out ? push_[w] : pull_[w];
    if (event.stamp != lane.stamp) return;  // another time holds
    links_.finish(event.worker, now_);
    lane.busy = false;
    add(now_ + system_.latency, out ? EventKind::arrived : EventKind::returned, w, event.bucket);
    start(w, lane, out);
  }

  void serve() {
    if (serving_ || queue_.empty()) return;
    serving_ = true;
    const auto [w, b] = queue_.front();
    queue_.pop_front();
    if (counts()) served_ += message(b).update;
    add(now_ + message(b).update, EventKind::updated, w, b);
  }

  void updated(const Event& event) {
    serving_ = false;
    Bucket& bucket = buckets_[event.bucket];
    if (system_.mode == Servers::synchronous) {
      if (++bucket.summed == size()) {
        bucket.summed = 0;
        for (std::uint32_t w = 0; w < size(); ++w)
          give_back(w, event.bucket);
      }
    } else {
      std::int64_t& pulled = workers_[event.worker].pulled[event.bucket];
      if (counts()) run_.staleness.add(bucket.version - pulled);
      pulled = ++bucket.version;
      give_back(event.worker, event.bucket);
    }
    serve();
  }

  void give_back(std::uint32_t w, std::uint32_t bucket) {
    pull_[w].waiting.push_back(bucket);
    start(w, pull_[w], false);
  }

  void go_on(std::uint32_t w) {
    Worker& worker = workers_[w];
    if (worker.computing || worker.outstanding > 0) return;
    worker.exchange = now_ - worker.computed;
    add(now_ + worker.tail, EventKind::ended, w);
  }

  void end_step(std::uint32_t w) {
    Worker& worker = workers_[w];
    worker.ended = now_;
    ++worker.steps;
    ++done_;
    if (done_ == first_) began_counting_ = now_;
    if (counts()) {
      compute_ += worker.compute + worker.tail;
      exchange_ += worker.exchange;
      ++run_.worker_steps;
    }
    if (may_go_on(worker)) {
      add(now_, EventKind::begin, w);
    } else {
      worker.blocked = true;
    }
    release(w);
  }

  std::int64_t slowest() const {
    return std::min_element(workers_.begin(), workers_.end(),
                            [](const Worker& a, const Worker& b) { return a.steps < b.steps; })
        ->steps;
  }
  bool may_go_on(const Worker& worker) const {
    return system_.mode != Servers::bounded || worker.steps <= slowest() + system_.staleness;
  }

  // Releases the workers that waited for the one whose step has ended.
  void release(std::uint32_t by) {
    if (system_.mode != Servers::bounded) return;
    for (std::uint32_t w = 0; w < size(); ++w) {
      Worker& worker = workers_[w];
      if (!worker.blocked || !may_go_on(worker)) continue;
      worker.blocked = false;
      const Duration waited = now_ - worker.ended;
      if (counts()) {
        others_ += waited;
        run_.waited_for[by] += to_seconds(waited);
      }
      add(now_, EventKind::begin, w);
    }
  }

  ServerRun finished() {
    const Duration window = now_ - began_counting_;
    const auto steps = std::max<std::int64_t>(1, done_ - first_);
    const double seconds = std::max(to_seconds(window), 1e-12);
    run_.step = scaled(window, static_cast<double>(size()) / static_cast<double>(steps));
    const auto counted = std::max<std::int64_t>(1, run_.worker_steps);
    run_.compute = compute_ / counted;
    run_.exchange = exchange_ / counted;
    run_.others = others_ / counted;
    run_.servers_busy = std::min(1.0, to_seconds(served_) / seconds);
    for (std::size_t link = 0; link < carried_.size(); ++link) {
      if (carried_[link] <= 0) continue;
      const double share = carried_[link] / seconds / static_cast<double>(system_.capacities[link]);
      if (share <= run_.busiest_share) continue;
      run_.busiest_share = std::min(1.0, share);
      run_.busiest = LinkId{static_cast<std::uint32_t>(link)};
    }
    const double waits = to_seconds(others_);
    for (double& share : run_.waited_for)
      share = waits > 0 ? share / waits : 0;
    return std::move(run_);
  }

  const ServerSystem& system_;
  const Control& control_;
  std::vector<Worker> workers_;
  std::vector<Bucket> buckets_;
  std::vector<Lane> push_, pull_;
  LinkSharing links_;
  std::vector<double> carried_;  // bytes, by link
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::deque<std::pair<std::uint32_t, std::uint32_t>> queue_;  // worker, bucket
  bool serving_ = false;
  TimePoint now_{}, began_counting_{};
  std::uint64_t made_ = 0;
  std::int64_t done_ = 0, first_ = 0, last_ = 0;  // worker steps
  Duration compute_{}, exchange_{}, others_{}, served_{};
  ServerRun run_;
};

}  // namespace

ServerRun run_servers(const ServerSystem& system, const Control& control) {
  SIM_CHECK(!system.workers.empty() && !system.messages.empty(), system.workers.size());
  SIM_CHECK(system.compute > Duration{}, system.compute.count());
  return Runner{system, control}.run();
}

}  // namespace sim
