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

class Reduction {
 public:
  explicit Reduction(const Program& program) : program_{program}, after_(program.size()) {
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

  // Like registers: an event is free again behind the last operator that waits for it.
  void assign_events() {
    const auto size = static_cast<std::uint32_t>(program_.size());
    std::vector<std::uint32_t> last_use(size, 0);
    std::vector<bool> recorded(size, false);
    for (std::uint32_t op = 0; op < size; ++op) {
      for (const auto& wait : graph_.waits_of(OpId{op})) {
        last_use[wait.op.value] = op;
        recorded[wait.op.value] = true;
      }
    }
    for (const auto& wait : graph_.join) {
      last_use[wait.op.value] = size;
      recorded[wait.op.value] = true;
    }
    std::vector<std::int32_t> free;
    for (std::uint32_t op = 0; op < size; ++op) {
      for (std::uint32_t i = graph_.first_wait[op]; i < graph_.first_wait[op + 1]; ++i) {
        auto& wait = graph_.waits[i];
        wait.event = graph_.records[wait.op.value];
        if (last_use[wait.op.value] == op) free.push_back(wait.event);
      }
      if (!recorded[op]) continue;
      if (free.empty()) free.push_back(graph_.events++);
      graph_.records[op] = free.back();
      free.pop_back();
    }
    for (auto& wait : graph_.join)
      wait.event = graph_.records[wait.op.value];
  }

  const Program& program_;
  EventGraph graph_;
  std::array<Clock, sim::stream_count> now_{};
  std::array<bool, sim::stream_count> used_{};
  std::vector<Clock> after_;
};

}  // namespace

EventGraph make_event_graph(const Program& program) {
  return Reduction{program}.run();
}

}  // namespace real
