#include "real/host/stream_schedule.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace real {

StreamSchedule::StreamSchedule(const sim::Program& program) : program_{program} {
  for (std::uint32_t i = 0; i < program.size(); ++i)
    lane_of(sim::OpId{i}).ops.push_back(sim::OpId{i});
  restart();
}

StreamSchedule::Lane& StreamSchedule::lane_of(sim::OpId op) {
  return lanes_[static_cast<std::size_t>(program_.stream[op.value])];
}

void StreamSchedule::restart() {
  for (Lane& lane : lanes_) {
    lane.head = 0;
    lane.under_way = false;
  }
  finished_.assign(program_.size(), false);
  unfinished_ = program_.size();
}

std::optional<sim::OpId> StreamSchedule::ready(sim::Stream stream) const {
  const Lane& lane = lanes_[static_cast<std::size_t>(stream)];
  if (lane.under_way || lane.head == lane.ops.size()) return std::nullopt;
  const sim::OpId op = lane.ops[lane.head];
  const auto dependencies = program_.dependencies(op);
  const bool all = std::all_of(dependencies.begin(), dependencies.end(),
                               [&](sim::OpId of) { return finished_[of.value]; });
  return all ? std::optional{op} : std::nullopt;
}

void StreamSchedule::start(sim::OpId op) {
  Lane& lane = lane_of(op);
  SIM_CHECK(!lane.under_way && lane.head < lane.ops.size() && lane.ops[lane.head] == op, op.value);
  lane.under_way = true;
}

void StreamSchedule::finish(sim::OpId op) {
  Lane& lane = lane_of(op);
  SIM_CHECK(lane.under_way && lane.ops[lane.head] == op, op.value);
  lane.under_way = false;
  ++lane.head;
  finished_[op.value] = true;
  --unfinished_;
}

}  // namespace real
