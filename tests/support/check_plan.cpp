// Whether a plan would run: its programs are well formed, every operator finds its operands and
// nobody writes what another uses, the members of every group issue the same collectives in the
// same order, sends meet receives, and nothing waits in a circle.
//
// Ranks of one pipeline stage run one program, so a group within a stage agrees by construction;
// that this is so is checked on the grid. What is left is a line of stages, one rank each: they are
// run here without time, every stream in order, until all is done or nothing moves.
#include "tests/support/check_plan.hpp"

#include <algorithm>
#include <string>

#include "sim/base/check.hpp"
#include "tests/support/check_operands.hpp"

namespace sim {
namespace {

std::size_t table_size(const Program& program, OpKind kind) {
  if (runs_kernel(kind)) return program.kernels.size();
  if (kind == OpKind::collective) return program.collectives.size();
  if (kind == OpKind::send || kind == OpKind::recv) return program.transfers.size();
  return SIZE_MAX;  // copies and barriers have no table
}

void check_arrays(const Program& program) {
  const std::size_t n = program.size();
  const bool whole =
      program.stream.size() == n && program.pass.size() == n && program.work.size() == n &&
      program.label.size() == n && program.action.size() == n && program.subject.size() == n &&
      program.first_dependency.size() == n + 1 && program.first_buffer_use.size() == n + 1;
  if (!whole) refuse_plan("arrays of stage " + std::to_string(program.stage) + " differ in length");
  for (std::uint32_t i = 0; i < n; ++i) {
    const OpId op{i};
    if (program.work[i] >= table_size(program, program.kind[i])) {
      refuse_plan(place_of(program, op) + " has no such work");
    }
    if (program.label[i].name >= program.names.size())
      refuse_plan(place_of(program, op) + " has no name");
    for (const OpId dependency : program.dependencies(op)) {
      if (dependency.value >= i)
        refuse_plan(place_of(program, op) + " depends on a later operator");
      if (program.stream[dependency.value] == program.stream[i]) {
        refuse_plan(place_of(program, op) + " depends on its own stream");
      }
    }
  }
}

void check_host_waits(const Program& program) {
  OpId last{0};
  for (const HostWait& wait : program.host_waits) {
    const bool stands = wait.before.value < program.size() && last.value <= wait.before.value &&
                        wait.until.value < wait.before.value;
    if (!stands)
      refuse_plan("stage " + std::to_string(program.stage) + " has a host wait out of order");
    last = wait.before;
  }
}

enum class Life : std::uint8_t { unborn, alive, dead };

void check_buffers(const Program& program) {
  std::vector<Life> life(program.buffers.size(), Life::unborn);
  for (std::size_t i = 0; i < life.size(); ++i) {
    if (program.buffers[i].persistent) life[i] = Life::alive;
  }
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    for (const BufferUse& use : program.buffer_uses(OpId{i})) {
      if (use.buffer.value >= life.size())
        refuse_plan(place_of(program, OpId{i}) + " uses no such buffer");
      Life& state = life[use.buffer.value];
      if (use.access == Access::write) state = Life::alive;  // a new life, if it was dead
      if (state != Life::alive) {
        refuse_plan(place_of(program, OpId{i}) + " uses a buffer that is not alive");
      }
      if (use.access != Access::free) continue;
      if (program.buffers[use.buffer.value].persistent) {
        refuse_plan(place_of(program, OpId{i}) + " frees a persistent buffer");
      }
      state = Life::dead;
    }
  }
  for (std::size_t i = 0; i < life.size(); ++i) {
    if (life[i] == Life::alive && !program.buffers[i].persistent) {
      refuse_plan("stage " + std::to_string(program.stage) + " never frees buffer " +
                  std::to_string(i));
    }
    if (life[i] == Life::unborn) {
      refuse_plan("stage " + std::to_string(program.stage) + " never writes buffer " +
                  std::to_string(i) + " of " + std::to_string(program.buffers[i].size.count()) +
                  " bytes for " + std::string{word(program.buffers[i].category)});
    }
  }
}

// Groups within a stage hold ranks of one program, and the members see each other at one place.
void check_groups(const Plan& plan) {
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const Group& group = plan.groups[g];
    const auto role = static_cast<std::size_t>(group.role);
    const bool across = group.role == GroupRole::tied_embedding || group.role == GroupRole::world ||
                        group.role == GroupRole::local;
    for (const RankId rank : group.ranks) {
      if (plan.group_of[rank.value][role] != g) refuse_plan("a rank does not know its group");
      if (!across &&
          plan.program_of_rank[rank.value] != plan.program_of_rank[group.ranks[0].value]) {
        refuse_plan("a " + std::string{word(group.role)} + " group reaches over stages");
      }
    }
  }
}

// One rank of each stage, all on one line of the pipeline.
class DryRun {
 public:
  explicit DryRun(const Plan& plan) : plan_{plan}, ranks_(plan.programs.size()) {
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      split_streams(i);
  }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t i = 0; i < ranks_.size(); ++i) {
        while (advance(i))
          moved = true;
      }
      moved = world_step() || moved;
    }
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      report_stuck(i);
  }

 private:
  struct Rank {
    std::array<std::vector<std::uint32_t>, stream_count> queue;  // operators of each stream
    std::array<std::size_t, stream_count> next{};
    std::vector<bool> done;
  };

  void split_streams(std::size_t i) {
    const Program& program = plan_.programs[i];
    ranks_[i].done.resize(program.size());
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      ranks_[i].queue[static_cast<std::size_t>(program.stream[op])].push_back(op);
    }
  }

  // The operator at the head of a stream, if all that it depends on is done.
  bool head(std::size_t i, std::size_t stream, OpId& op) const {
    const Rank& rank = ranks_[i];
    if (rank.next[stream] == rank.queue[stream].size()) return false;
    op = OpId{rank.queue[stream][rank.next[stream]]};
    const auto dependencies = plan_.programs[i].dependencies(op);
    return std::all_of(dependencies.begin(), dependencies.end(),
                       [&](OpId before) { return rank.done[before.value]; });
  }

  void finish(std::size_t i, std::size_t stream, OpId op) {
    ranks_[i].done[op.value] = true;
    ++ranks_[i].next[stream];
  }

  bool across(std::size_t i, OpId op) const {
    const Program& program = plan_.programs[i];
    if (program.kind[op.value] != OpKind::collective) return false;
    const GroupRole role = program.collectives[program.work[op.value]].group;
    return role == GroupRole::tied_embedding || role == GroupRole::world;
  }

  bool advance(std::size_t i) {
    bool moved = false;
    for (std::size_t stream = 0; stream < stream_count; ++stream) {
      for (OpId op; head(i, stream, op) && !across(i, op);) {
        const OpKind kind = plan_.programs[i].kind[op.value];
        if (kind == OpKind::send) {
          if (!meet(i, stream, op)) break;
        } else if (kind == OpKind::recv) {
          break;  // finished by its sender
        } else {
          finish(i, stream, op);
        }
        moved = true;
      }
    }
    return moved;
  }

  // A send and the receive at the head of the peer's stream of that direction.
  bool meet(std::size_t i, std::size_t stream, OpId op) {
    const Program& program = plan_.programs[i];
    const Transfer& sent = program.transfers[program.work[op.value]];
    const bool forward = sent.peer == Peer::next_stage;
    const std::size_t n = ranks_.size();
    const std::size_t peer = forward ? (i + 1) % n : (i + n - 1) % n;
    const auto lane =
        static_cast<std::size_t>(forward ? Stream::forward_recv : Stream::backward_recv);
    OpId at;
    if (!head(peer, lane, at)) return false;
    const Program& other = plan_.programs[peer];
    if (other.kind[at.value] != OpKind::recv) return false;
    const Transfer& received = other.transfers[other.work[at.value]];
    const int step = program.pass[op.value] == Pass::forward ? 1 : -1;
    const bool same = received.peer != sent.peer && received.bytes == sent.bytes &&
                      received.dtype == sent.dtype &&
                      program.label[op.value].microbatch == other.label[at.value].microbatch &&
                      program.label[op.value].chunk + step == other.label[at.value].chunk;
    if (!same) refuse_plan(place_of(program, op) + " does not match " + place_of(other, at));
    finish(i, stream, op);
    finish(peer, lane, at);
    return true;
  }

  // Collectives over stages: all members stand at the same one.
  bool world_step() {
    return join(0, ranks_.size(), 1, GroupRole::world) ||
           (ranks_.size() > 1 &&
            join(0, ranks_.size(), ranks_.size() - 1, GroupRole::tied_embedding));
  }

  bool join(std::size_t first, std::size_t end, std::size_t step, GroupRole role) {
    std::vector<OpId> ops;
    const auto lane = static_cast<std::size_t>(Stream::data_comm);
    for (std::size_t i = first; i < end; i += step) {
      OpId op;
      if (!head(i, lane, op) || !across(i, op)) return false;
      const Program& program = plan_.programs[i];
      if (program.collectives[program.work[op.value]].group != role) return false;
      const Program& base = plan_.programs[first];
      if (!ops.empty() && program.collectives[program.work[op.value]] !=
                              base.collectives[base.work[ops[0].value]]) {
        refuse_plan(place_of(program, op) + " does not match " + place_of(base, ops[0]));
      }
      ops.push_back(op);
    }
    for (std::size_t k = 0; k < ops.size(); ++k)
      finish(first + k * step, lane, ops[k]);
    return true;
  }

  void report_stuck(std::size_t i) const {
    for (std::size_t stream = 0; stream < stream_count; ++stream) {
      const Rank& rank = ranks_[i];
      if (rank.next[stream] == rank.queue[stream].size()) continue;
      const OpId op{rank.queue[stream][rank.next[stream]]};
      refuse_plan(place_of(plan_.programs[i], op) + " on " +
                  std::string{word(plan_.programs[i].stream[op.value])} + " waits for ever");
    }
  }

  const Plan& plan_;
  std::vector<Rank> ranks_;
};

}  // namespace

void check_plan(const Plan& plan) {
  for (const Program& program : plan.programs) {
    check_arrays(program);
    check_host_waits(program);
    check_buffers(program);
    check_operands(program);
    check_parameters(program);
    check_races(program);
  }
  check_groups(plan);
  DryRun{plan}.run();
}

}  // namespace sim
