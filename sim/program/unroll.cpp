#include "sim/program/unroll.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace sim {
namespace {

using Ids = std::vector<std::uint32_t>;

void add(Ids& ids, std::uint32_t id) {
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

class Unroller {
 public:
  explicit Unroller(const Program& from) : from_{from}, stands_for_(from.size()) {
    to_.kernels = from.kernels;
    to_.collectives = from.collectives;
    to_.transfers = from.transfers;
    to_.buffers = from.buffers;
    to_.names = from.names;
    to_.sites = from.sites;
    to_.parameter_buckets = from.parameter_buckets;
    to_.scratches = from.scratches;
    to_.allocation = from.allocation;
    to_.stage = from.stage;
    to_.first_dependency.push_back(0);
    to_.first_buffer_use.push_back(0);
  }

  void step(const std::vector<bool>& keeps) {
    SIM_CHECK(keeps.size() == from_.size(), keeps.size(), from_.size());
    std::size_t wait = 0, scratch = 0;
    for (std::uint32_t op = 0; op < from_.size(); ++op) {
      for (; wait < from_.host_waits.size() && from_.host_waits[wait].before.value == op; ++wait)
        wait_on_host(from_.host_waits[wait].until);
      const bool takes =
          scratch < from_.scratch_of_op.size() && from_.scratch_of_op[scratch].first.value == op;
      if (keeps[op]) {
        if (takes)
          to_.scratch_of_op.emplace_back(OpId{static_cast<std::uint32_t>(to_.size())},
                                         from_.scratch_of_op[scratch].second);
        keep(op);
      } else {
        leave_out(op);
      }
      if (takes) ++scratch;
    }
  }

  Program take() {
    while (!to_.host_waits.empty() && to_.host_waits.back().before.value == to_.size())
      to_.host_waits.pop_back();
    return std::move(to_);
  }

 private:
  struct Lane {
    Ids last;     // the operator kept last
    Ids pending;  // dependencies of the operators left out since then
  };
  Lane& lane(std::uint32_t op) { return lanes_[static_cast<std::size_t>(from_.stream[op])]; }

  Ids waits_of(std::uint32_t op) const {
    Ids waits;
    for (const OpId before : from_.dependencies(OpId{op}))
      for (const std::uint32_t id : stands_for_[before.value])
        add(waits, id);
    return waits;
  }

  void leave_out(std::uint32_t op) {
    Lane& own = lane(op);
    for (const std::uint32_t id : waits_of(op))
      add(own.pending, id);
    stands_for_[op] = own.last;
    for (const std::uint32_t id : own.pending)
      add(stands_for_[op], id);
  }

  void keep(std::uint32_t op) {
    Lane& own = lane(op);
    const auto id = static_cast<std::uint32_t>(to_.size());
    to_.kind.push_back(from_.kind[op]);
    to_.stream.push_back(from_.stream[op]);
    to_.pass.push_back(from_.pass[op]);
    to_.work.push_back(from_.work[op]);
    to_.action.push_back(from_.action[op]);
    to_.subject.push_back(from_.subject[op]);
    to_.label.push_back(from_.label[op]);
    Ids waits = waits_of(op);
    for (const std::uint32_t before : own.pending)
      add(waits, before);
    std::sort(waits.begin(), waits.end());
    for (const std::uint32_t before : waits)
      if (to_.stream[before] != from_.stream[op]) to_.dependency.push_back(OpId{before});
    to_.first_dependency.push_back(static_cast<std::uint32_t>(to_.dependency.size()));
    const auto uses = from_.buffer_uses(OpId{op});
    to_.buffer_use.insert(to_.buffer_use.end(), uses.begin(), uses.end());
    to_.first_buffer_use.push_back(static_cast<std::uint32_t>(to_.buffer_use.size()));
    own = {.last = {id}, .pending = {}};
    stands_for_[op] = {id};
  }

  void wait_on_host(OpId until) {
    const OpId before{static_cast<std::uint32_t>(to_.size())};
    for (const std::uint32_t id : stands_for_[until.value])
      to_.host_waits.push_back({before, OpId{id}});
  }

  const Program& from_;
  Program to_;
  // For each operator of the step under way, or of the one before: the operators that have run when
  // it has.
  std::vector<Ids> stands_for_;
  std::array<Lane, stream_count> lanes_;
};

}  // namespace

Program unroll(const Program& program, const std::vector<std::vector<bool>>& steps) {
  Unroller unroller{program};
  for (const std::vector<bool>& keeps : steps)
    unroller.step(keeps);
  return unroller.take();
}

}  // namespace sim
