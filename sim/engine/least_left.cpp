#include "sim/engine/least_left.hpp"

#include <algorithm>
#include <optional>

namespace sim {
namespace {

constexpr auto of_kernels = static_cast<std::size_t>(Stream::compute);
constexpr std::uint32_t no_slot = UINT32_MAX;

// The backward walk through one program: what is left from the start of each operator.
struct Walk {
  std::uint32_t slot = no_slot;
  std::uint32_t next = 0;                          // operators that are not walked yet
  std::vector<std::int64_t> behind;                // by operator: of those that depend on it
  std::array<std::int64_t, stream_count> later{};  // by stream: of the operator before
  std::array<std::vector<std::int64_t>, stream_count> behind_receive{};  // by position
};

class LeastLeft {
 public:
  explicit LeastLeft(const ExecutorInput& input)
      : input_{input}, walks_(input.programs.size()), left_(input.system.slots.size()) {
    const System& system = input.system;
    for (std::uint32_t slot = 0; slot < system.slots.size(); ++slot) {
      Walk& walk = walks_[system.slots[slot].program];
      if (walk.slot != no_slot) continue;
      const Program& program = input.programs[system.slots[slot].program];
      walk.slot = slot;
      walk.next = static_cast<std::uint32_t>(program.size());
      walk.behind.resize(program.size());
      const ProgramIndex& index = index_of(slot);
      left_[slot].resize(index.order[of_kernels].size() + 1);
      for (const Stream stream : {Stream::forward_recv, Stream::backward_recv})
        walk.behind_receive[static_cast<std::size_t>(stream)].resize(
            index.order[static_cast<std::size_t>(stream)].size());
    }
  }

  // Programs in turns, each until it comes to a message whose receiver has not been there yet.
  std::vector<std::vector<std::int64_t>> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Walk& walk : walks_)
        while (walk.slot != no_slot && walk.next > 0 && step(walk))
          moved = true;
    }
    return std::move(left_);
  }

 private:
  const ProgramIndex& index_of(std::uint32_t slot) const {
    return input_.indexes[input_.index_of[input_.system.slots[slot].variant]];
  }
  const Program& program_of(std::uint32_t slot) const {
    return input_.programs[input_.system.slots[slot].program];
  }

  // False: it has to wait.
  bool step(Walk& walk) {
    const Program& program = program_of(walk.slot);
    const OpId op{walk.next - 1};
    const auto stream = static_cast<std::size_t>(program.stream[op.value]);
    const std::uint32_t position = index_of(walk.slot).position[op.value];
    std::int64_t behind = std::max(walk.behind[op.value], walk.later[stream]);
    if (program.kind[op.value] == OpKind::send) {
      const std::optional<std::int64_t> there = at_receiver(walk, op, position);
      if (!there) return false;
      behind = std::max(behind, *there);
    }
    const std::int64_t left = behind + duration(walk.slot, op, position);
    if (stream == of_kernels) left_[walk.slot][position] = left;
    if (program.kind[op.value] == OpKind::recv) walk.behind_receive[stream][position] = behind;
    walk.later[stream] = left;
    for (const OpId earlier : program.dependencies(op))
      walk.behind[earlier.value] = std::max(walk.behind[earlier.value], left);
    --walk.next;
    return true;
  }

  // Time behind the end of the message at its receiver: 0 where another slot receives it.
  std::optional<std::int64_t> at_receiver(const Walk& walk, OpId op, std::uint32_t position) const {
    const System& system = input_.system;
    const Stream sends = program_of(walk.slot).stream[op.value];
    const Stream receives =
        sends == Stream::forward_send ? Stream::forward_recv : Stream::backward_recv;
    const std::uint32_t channel = system.slots[walk.slot].peer[static_cast<std::size_t>(sends)];
    const std::uint32_t receiver = system.members_of(system.channels[channel])[1];
    const Walk& other = walks_[system.slots[receiver].program];
    if (other.slot != receiver || &other == &walk) return 0;
    const auto stream = static_cast<std::size_t>(receives);
    if (system.slots[receiver].peer[stream] != channel) return 0;
    const std::vector<OpId>& order = index_of(receiver).order[stream];
    if (position >= order.size()) return 0;
    if (order[position].value >= other.next) return other.behind_receive[stream][position];
    return std::nullopt;
  }

  std::int64_t duration(std::uint32_t slot, OpId op, std::uint32_t position) const {
    const Program& program = program_of(slot);
    const LaneCosts& lane = input_.lanes[input_.system.slots[slot].variant];
    if (program.stream[op.value] == Stream::compute) return lane.duration(position);
    if (runs_kernel(program.kind[op.value]))
      return lane.kernel_time[program.work[op.value]].count();
    const Call call = call_of(input_.system, slot, program, op);
    const CommCost& cost = input_.system.costs[call.cell];
    return (cost.latency + cost.transfer).count();
  }

  const ExecutorInput& input_;
  std::vector<Walk> walks_;  // by program
  std::vector<std::vector<std::int64_t>> left_;
};

}  // namespace

std::vector<std::vector<std::int64_t>> least_left(const ExecutorInput& input) {
  return LeastLeft{input}.run();
}

}  // namespace sim
