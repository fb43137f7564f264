#include "sim/program/happens_before.hpp"

#include <algorithm>

namespace sim {

HappensBefore::HappensBefore(const Program& program)
    : streams_{program.stream}, before_(program.size()) {
  std::array<OpId, stream_count> last{};
  std::array<bool, stream_count> has_last{};
  const auto join = [&](Clock& clock, OpId done) {
    const Clock& known = before_[done.value];
    for (std::size_t stream = 0; stream < stream_count; ++stream)
      clock[stream] = std::max(clock[stream], known[stream]);
    const std::size_t own = stream_of(done);
    clock[own] = std::max(clock[own], done.value + 1);
  };
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const OpId op{i};
    const std::size_t stream = stream_of(op);
    if (has_last[stream]) join(before_[i], last[stream]);
    for (const OpId dependency : program.dependencies(op))
      join(before_[i], dependency);
    last[stream] = op;
    has_last[stream] = true;
  }
}

}  // namespace sim
