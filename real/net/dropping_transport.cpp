#include "real/net/dropping_transport.hpp"

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"

namespace real {
namespace {

using Clock = std::chrono::steady_clock;

// Tickets of messages that wait have this bit; others are those of the inner transport.
constexpr Ticket held_bit = Ticket{1} << 63U;

class DroppingTransport : public Transport {
 public:
  DroppingTransport(Transport& inner, const Drops& drops) : inner_{inner}, drops_{drops} {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }

  Ticket start_send(int to, std::uint32_t channel, std::span<const std::byte> data) override {
    Lane& lane = lanes_[{to, channel}];
    const int times = times_dropped(to, channel, lane.sent++);
    // Messages of a lane arrive in the order of their starts.
    if (times == 0 && lane.waiting.empty()) return inner_.start_send(to, channel, data);
    const Ticket ticket = held_bit | next_++;
    held_[ticket] = {
        .to = to, .channel = channel, .data = data, .due = Clock::now() + times * drops_.timeout};
    lane.waiting.push_back(ticket);
    return ticket;
  }

  Ticket start_receive(int from, std::uint32_t channel, std::span<std::byte> data) override {
    return inner_.start_receive(from, channel, data);
  }

  bool done(Ticket ticket) override {
    send_what_is_due();
    if ((ticket & held_bit) == 0) return inner_.done(ticket);
    const auto held = held_.find(ticket);
    SIM_CHECK(held != held_.end(), ticket);
    if (!held->second.started || !inner_.done(*held->second.started)) return false;
    held_.erase(held);
    return true;
  }

  void idle() override {
    send_what_is_due();
    inner_.idle();
  }

  void cancel(Ticket ticket) override {
    if ((ticket & held_bit) == 0) return inner_.cancel(ticket);
    const auto held = held_.find(ticket);
    SIM_CHECK(held != held_.end(), ticket);
    if (held->second.started)
      inner_.cancel(*held->second.started);
    else
      std::erase(lanes_[{held->second.to, held->second.channel}].waiting, ticket);
    held_.erase(held);
  }

  void abort(int blamed, const std::string& reason) override { inner_.abort(blamed, reason); }

 private:
  struct Held {
    int to = 0;
    std::uint32_t channel = 0;
    std::span<const std::byte> data{};
    Clock::time_point due{};
    std::optional<Ticket> started{};
  };
  struct Lane {
    std::uint64_t sent = 0;
    std::deque<Ticket> waiting;
  };

  int times_dropped(int to, std::uint32_t channel, std::uint64_t number) const {
    const std::uint64_t pair =
        sim::hash_combine(static_cast<std::uint64_t>(rank()), static_cast<std::uint64_t>(to));
    const std::uint64_t lane = sim::hash_combine(pair, channel);
    int times = 0;
    while (sim::uniform(sim::hash_combine(drops_.seed, lane), number,
                        static_cast<std::uint64_t>(times)) < drops_.rate)
      ++times;
    return times;
  }

  void send_what_is_due() {
    if (held_.empty()) return;
    const Clock::time_point now = Clock::now();
    for (auto& [lane, messages] : lanes_)
      while (!messages.waiting.empty()) {
        Held& first = held_.at(messages.waiting.front());
        if (first.due > now) break;
        first.started = inner_.start_send(first.to, first.channel, first.data);
        messages.waiting.pop_front();
      }
  }

  Transport& inner_;
  Drops drops_;
  std::map<std::pair<int, std::uint32_t>, Lane> lanes_;  // by receiver and channel
  std::map<Ticket, Held> held_;
  std::uint64_t next_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_dropping_transport(Transport& inner, const Drops& drops) {
  SIM_CHECK(drops.rate >= 0 && drops.rate < 1, drops.rate);
  return std::make_unique<DroppingTransport>(inner, drops);
}

}  // namespace real
