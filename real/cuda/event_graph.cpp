#include "real/cuda/event_graph.hpp"

#include <algorithm>
#include <array>

#include "sim/base/check.hpp"

namespace real {

namespace {

using sim::OpId;
using sim::Program;
using sim::Stream;

// clock[s]: one more than the latest operator of stream s that is known to be done; 0: none.
using Clock = std::array<std::uint32_t, sim::stream_count>;

std::size_t index(Stream stream) {
  return static_cast<std::size_t>(stream);
}

void learn(Clock& clock, const Clock& other) {
  for (std::size_t s = 0; s < clock.size(); ++s)
    clock[s] = std::max(clock[s], other[s]);
}

class TransitiveReduction {
 public:
  explicit TransitiveReduction(const Program& program) : program_{program}, after_(program.size()) {
    graph_.records.assign(program.size(), EventGraph::no_event);
    graph_.first_wait.reserve(program.size() + 1);
    graph_.first_wait.push_back(0);
  }

  EventGraph run() {
    for (std::uint32_t op = 0; op < program_.size(); ++op)
      add(OpId{op});
    join();
    assign_events();
    return std::move(graph_);
  }

 private:
  void add(OpId op) {
    const Stream stream = program_.stream[op.value];
    if (!used_[index(stream)]) {
      used_[index(stream)] = true;
      graph_.streams.push_back(stream);
    }
    // Latest first: what it has seen may hold the others.
    const auto edges = program_.dependencies(op);
    std::vector<OpId> order(edges.begin(), edges.end());
    std::sort(order.begin(), order.end(), [](OpId a, OpId b) { return a.value > b.value; });
    Clock& clock = now_[index(stream)];
    for (const OpId from : order) {
      SIM_CHECK(from.value < op.value, op.value, from.value);
      if (clock[index(program_.stream[from.value])] > from.value) continue;
      graph_.waits.push_back({from, EventGraph::no_event});
      learn(clock, after_[from.value]);
    }
    clock[index(stream)] = op.value + 1;
    after_[op.value] = clock;
    graph_.first_wait.push_back(static_cast<std::uint32_t>(graph_.waits.size()));
  }

  void join() {
    Clock clock = now_[index(Stream::compute)];
    std::vector<OpId> last;
    for (const Stream stream : graph_.streams) {
      last.push_back(OpId{now_[index(stream)][index(stream)] - 1});
    }
    std::sort(last.begin(), last.end(), [](OpId a, OpId b) { return a.value > b.value; });
    for (const OpId op : last) {
      const Stream stream = program_.stream[op.value];
      if (stream == Stream::compute || clock[index(stream)] > op.value) continue;
      graph_.join.push_back({op, EventGraph::no_event});
      learn(clock, after_[op.value]);
    }
  }

  // Like registers: an event is free again behind the last operator before or at which it is waited
  // for.
  void assign_events() {
    for (const sim::HostWait& wait : program_.host_waits)
      graph_.host_waits.push_back({wait.until, EventGraph::no_event});
    note_last_uses();
    const auto size = static_cast<std::uint32_t>(program_.size());
    auto host = graph_.host_waits.begin();
    for (std::uint32_t op = 0; op < size; ++op) {
      for (; host != graph_.host_waits.end() && before(*host) == op; ++host)
        take(*host, op);
      for (std::uint32_t i = graph_.first_wait[op]; i < graph_.first_wait[op + 1]; ++i)
        take(graph_.waits[i], op);
      if (last_use_[op] != unused) graph_.records[op] = free_event();
    }
    for (auto& wait : graph_.join)
      wait.event = graph_.records[wait.op.value];
  }

  // The operator that the host issues behind a wait in graph_.host_waits.
  std::uint32_t before(const EventGraph::Wait& wait) const {
    return program_.host_waits[static_cast<std::size_t>(&wait - graph_.host_waits.data())]
        .before.value;
  }

  void note_last_uses() {
    const auto size = static_cast<std::uint32_t>(program_.size());
    last_use_.assign(size, unused);
    const auto note = [&](const EventGraph::Wait& wait, std::uint32_t at) {
      std::uint32_t& last = last_use_[wait.op.value];
      last = last == unused ? at : std::max(last, at);
    };
    for (std::uint32_t op = 0; op < size; ++op)
      for (const auto& wait : graph_.waits_of(OpId{op}))
        note(wait, op);
    for (const auto& wait : graph_.host_waits)
      note(wait, before(wait));
    for (const auto& wait : graph_.join)
      note(wait, size);
  }

  // Both the host and a stream may wait for an event last at one operator: it is free once.
  void take(EventGraph::Wait& wait, std::uint32_t op) {
    wait.event = graph_.records[wait.op.value];
    if (last_use_[wait.op.value] != op) return;
    last_use_[wait.op.value] = unused;
    free_.push_back(wait.event);
  }

  std::int32_t free_event() {
    if (free_.empty()) return graph_.events++;
    const std::int32_t event = free_.back();
    free_.pop_back();
    return event;
  }

  static constexpr std::uint32_t unused = UINT32_MAX;
  const Program& program_;
  EventGraph graph_;
  std::array<Clock, sim::stream_count> now_{};
  std::array<bool, sim::stream_count> used_{};
  std::vector<Clock> after_;
  std::vector<std::uint32_t> last_use_;  // by operator: where its event is waited for last
  std::vector<std::int32_t> free_;
};

}  // namespace

EventGraph make_event_graph(const Program& program) {
  return TransitiveReduction{program}.run();
}

}  // namespace real
