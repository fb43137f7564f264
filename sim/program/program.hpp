// One rank's operators in issue order: the contract between planner, simulator and real engine.
//
// Invariants of a built Program:
//  1. Arrays `kind .. label` have one entry per operator, in the order the host issues them.
//  2. Operators of one stream run in issue order. `dependencies(op)` names earlier operators of
//     other streams that must have finished; edges that a stream implies are not stored.
//  3. `work` indexes `kernels`, `collectives` or `transfers`, as `kind` says. Equal work is stored
//     once, so a table of costs has one row per distinct kernel, not per operator.
//  4. A buffer is allocated when the first operator that writes it is issued and freed after the
//     operator that frees it; persistent buffers live from before the first operator to the end. A
//     later `write` updates in place; `free` is the last read. A write after that begins a new
//     life: gathered weights and whole gradients of a bucket keep their buffer's number.
//  5. Two uses of a life of which one writes are ordered by a stream or by dependencies, but for
//     those of different parts.
//  6. An operator has the roles that its action allows (action_table.hpp), in one buffer each.
//  7. What the host waits for comes before all that it issues behind, by streams or dependencies.
//
// Streams: kernels run on `compute`; the casts and sums that belong to a gradient reduction run on
// `data_comm` beside it. sim/plan/rules/ says which operators a layout becomes, and why.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/program/buffers.hpp"
#include "sim/program/op_work.hpp"
#include "sim/program/operators.hpp"
#include "sim/program/scratch.hpp"

namespace sim {

// The host issues nothing from `before` on until `until` has finished (cudaEventSynchronize).
struct HostWait {
  OpId before;
  OpId until;
  bool operator==(const HostWait&) const = default;
};

class Program {
 public:
  static constexpr std::uint32_t no_subject = UINT32_MAX;

  std::size_t size() const { return kind.size(); }
  std::span<const OpId> dependencies(OpId op) const {
    return slice(dependency, first_dependency, op);
  }
  std::span<const BufferUse> buffer_uses(OpId op) const {
    return slice(buffer_use, first_buffer_use, op);
  }
  const std::string& name(OpId op) const { return names[label[op.value].name]; }

  std::vector<OpKind> kind;
  std::vector<Stream> stream;
  std::vector<Pass> pass;
  std::vector<std::uint32_t> work;
  std::vector<Action> action;
  std::vector<std::uint32_t> subject;  // index into `sites` or `parameter_buckets`, or no_subject
  std::vector<OpLabel> label;
  std::vector<std::uint32_t> first_dependency;  // size() + 1 offsets
  std::vector<OpId> dependency;
  std::vector<std::uint32_t> first_buffer_use;  // size() + 1 offsets
  std::vector<BufferUse> buffer_use;
  std::vector<HostWait> host_waits;  // in issue order; several may stand before one operator

  std::vector<Kernel> kernels;
  std::vector<Collective> collectives;
  std::vector<Transfer> transfers;
  std::vector<Buffer> buffers;
  std::vector<std::string> names;
  std::vector<Site> sites;  // every operator of the stage's blocks, in forward order
  std::vector<ParameterBucket> parameter_buckets;
  // Scratch memory of operators, in issue order; equal entries are stored once.
  std::vector<Scratch> scratches;
  std::vector<std::pair<OpId, std::uint32_t>> scratch_of_op;
  Allocation allocation;
  int stage = 0;  // pipeline rank this program belongs to

  // Whether the operator of the site has parameters in a bucket, and not those of another one.
  bool owns_parameters(const Site& site) const {
    return !site.tied && site.elements > 0 && site.bucket < parameter_buckets.size();
  }

 private:
  template <class T>
  static std::span<const T> slice(const std::vector<T>& items,
                                  const std::vector<std::uint32_t>& first, OpId op) {
    return std::span{items}.subspan(first[op.value], first[op.value + 1] - first[op.value]);
  }
};

}  // namespace sim
