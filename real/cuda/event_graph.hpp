// Which operators record a CUDA event, and which events each operator's stream waits for, or the
// host before it issues the operator. CUDA-free.
//
// Streams run in order, and having waited for an operator is having waited for all that it had
// waited for: an edge that follows from others is left out, so the set is the least that orders the
// program (its transitive reduction, given the streams).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/program.hpp"

namespace real {

struct EventGraph {
  static constexpr std::int32_t no_event = -1;

  // An event is recorded again only when all waits for its last recording have been issued:
  // cudaStreamWaitEvent takes the recording that is latest when it is called.
  std::vector<std::int32_t> records;  // per operator: event recorded behind it, or no_event
  struct Wait {
    sim::OpId op;  // the operator waited for
    std::int32_t event = no_event;
  };
  std::vector<std::uint32_t> first_wait;  // size + 1 offsets
  std::vector<Wait> waits;
  std::vector<Wait> host_waits;  // parallel to Program::host_waits
  // Streams with operators, in the order of their first one; and their last operators that the
  // compute stream has not seen at the end: it waits for them, so that it ends the step.
  std::vector<sim::Stream> streams;
  std::vector<Wait> join;
  std::int32_t events = 0;

  std::span<const Wait> waits_of(sim::OpId op) const {
    return std::span{waits}.subspan(first_wait[op.value],
                                    first_wait[op.value + 1] - first_wait[op.value]);
  }
};

EventGraph make_event_graph(const sim::Program& program);

}  // namespace real
