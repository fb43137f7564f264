// Which operators of a program may start now: in-order streams, dependencies between them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/program/program.hpp"

namespace real {

class StreamSchedule {
 public:
  explicit StreamSchedule(const sim::Program& program);  // outlives it

  void restart();
  bool finished() const { return unfinished_ == 0; }
  // The head of a stream, if all it waits for has finished and it has not started. At most one
  // operator of a stream is under way.
  std::optional<sim::OpId> ready(sim::Stream stream) const;
  void start(sim::OpId op);
  void finish(sim::OpId op);

 private:
  struct Lane {
    std::vector<sim::OpId> ops;
    std::size_t head = 0;
    bool under_way = false;
  };
  Lane& lane_of(sim::OpId op);

  const sim::Program& program_;
  std::array<Lane, sim::stream_count> lanes_;
  std::vector<bool> finished_;
  std::size_t unfinished_ = 0;
};

}  // namespace real
