// Appends operators to a Program and keeps its invariants: equal work is stored once, and an edge
// is stored only where the order of a stream, or an earlier edge, does not imply it.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "sim/program/program.hpp"

namespace sim {

class ProgramBuilder {
 public:
  explicit ProgramBuilder(int stage);

  void reserve(std::size_t ops);

  std::uint32_t kernel(const Kernel& kernel);
  std::uint32_t collective(const Collective& collective);
  std::uint32_t transfer(const Transfer& transfer);
  std::uint32_t name(std::string_view text);
  BufferId buffer(Bytes size, BufferCategory category, bool persistent = false);
  BufferId host_buffer(Bytes size);  // persistent

  // The next operator added to `stream` starts after `event` has finished (cudaStreamWaitEvent).
  void wait(Stream stream, OpId event);
  // As above, for all that has been issued to `on` so far: what PyTorch's NCCL process group does
  // with the current stream before it launches a collective.
  void wait_for_stream(Stream stream, Stream on);
  // The host issues nothing more until `event` has finished; or all that it has issued so far but
  // messages, whose partners may be waited for in a circle.
  void host_waits_for(OpId event);
  void host_waits_for_all();
  struct HostRules {
    bool waits = true;             // false: the two above do nothing
    bool blocks_launches = false;  // before every operator but messages it waits for all
  };
  void set_host_rules(const HostRules& rules) { host_rules_ = rules; }

  // Does is what an operator does, and to which site or bucket.
  struct Does {
    Action action = Action::forward;
    std::uint32_t subject = Program::no_subject;
  };
  OpId add(OpKind kind, Stream stream, Pass pass, std::uint32_t work, const OpLabel& label,
           Does does);
  OpId add_kernel(std::uint32_t kernel, Stream stream, Pass pass, const OpLabel& label, Does does) {
    return add(program_.kernels[kernel].kind, stream, pass, kernel, label, does);
  }
  OpId add_collective(std::uint32_t work, Stream stream, Pass pass, const OpLabel& label,
                      Does does) {
    return add(OpKind::collective, stream, pass, work, label, does);
  }

  // Buffers of the operator added last.
  void reads(BufferId buffer, Role role, std::int16_t part = BufferUse::whole) {
    use(buffer, Access::read, role, part);
  }
  void writes(BufferId buffer, Role role, std::int16_t part = BufferUse::whole) {
    use(buffer, Access::write, role, part);
  }
  void frees(BufferId buffer, Role role) { use(buffer, Access::free, role); }

  // Adds scratch memory to the operator added last.
  void takes(const Scratch& scratch);
  // States that a framework has `count` equal tensors in the place of a buffer.
  void tensors(BufferId buffer, int count) { program_.buffers[buffer.value].tensors = count; }
  void set_allocation(const Allocation& allocation) { program_.allocation = allocation; }

  void set_parameters(std::vector<Site> sites, std::vector<ParameterBucket> buckets);

  bool has_op(Stream stream) const { return last_[index(stream)] != none; }
  OpId last(Stream stream) const { return OpId{last_[index(stream)]}; }
  Stream stream_of(OpId op) const { return program_.stream[op.value]; }
  Bytes size_of(BufferId buffer) const { return program_.buffers[buffer.value].size; }
  std::size_t size() const { return program_.size(); }

  Program finish();

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  static std::size_t index(Stream stream) { return static_cast<std::size_t>(stream); }
  void use(BufferId buffer, Access access, Role role, std::int16_t part = BufferUse::whole) {
    program_.buffer_use.push_back({buffer, access, role, part});
    ++program_.first_buffer_use.back();
  }

  Program program_;
  std::array<std::uint32_t, stream_count> last_{};  // operator issued last to each stream
  // waits_[a][b]: what stream a must still wait for on stream b; seen_[a][b]: what it has waited
  // for. Streams are in order, so having seen an operator is having seen all before it.
  std::array<std::array<std::uint32_t, stream_count>, stream_count> waits_{};
  std::array<std::array<std::uint32_t, stream_count>, stream_count> seen_{};
  std::array<bool, stream_count> has_waits_{};
  HostRules host_rules_;
  std::array<std::uint32_t, stream_count> host_seen_{};  // operators that the host has waited for
};

}  // namespace sim
