#include "sim/engine/repeated.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace sim {
namespace {

using LastOps = std::array<std::optional<OpId>, stream_count>;

template <class T>
void append_times(std::vector<T>& to, const std::vector<T>& of, int times) {
  for (int i = 0; i < times; ++i)
    to.insert(to.end(), of.begin(), of.end());
}

// An operator on the compute stream that lasts so long on any device.
void add_delay(Program& to, Duration delay) {
  Kernel kernel;
  kernel.known = delay;
  to.kernels.push_back(kernel);
  to.names.emplace_back("start of the job");
  to.kind.push_back(OpKind::elementwise);
  to.stream.push_back(Stream::compute);
  to.pass.push_back(Pass::forward);
  to.work.push_back(static_cast<std::uint32_t>(to.kernels.size() - 1));
  to.action.push_back(Action::forward);
  to.subject.push_back(Program::no_subject);
  OpLabel label{};
  label.name = static_cast<std::uint32_t>(to.names.size() - 1);
  to.label.push_back(label);
}

// Dependencies of one step; the first operators of its streams wait for the last ones of `before`.
void add_dependencies(Program& to, const Program& program, std::uint32_t offset,
                      const LastOps& before) {
  std::array<bool, stream_count> begun{};
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const auto stream = static_cast<std::size_t>(program.stream[op]);
    if (!std::exchange(begun[stream], true))
      for (std::size_t other = 0; other < stream_count; ++other)
        if (other != stream && before[other]) to.dependency.push_back(*before[other]);
    for (const OpId dependency : program.dependencies({op}))
      to.dependency.push_back({dependency.value + offset});
    to.first_dependency.push_back(static_cast<std::uint32_t>(to.dependency.size()));
  }
}

LastOps last_ops(const Program& program, std::uint32_t offset) {
  LastOps last;
  for (std::uint32_t op = 0; op < program.size(); ++op)
    last[static_cast<std::size_t>(program.stream[op])] = OpId{op + offset};
  return last;
}

}  // namespace

Program repeated(const Program& program, int steps, Duration delay) {
  Program all;
  all.kernels = program.kernels;
  all.collectives = program.collectives;
  all.transfers = program.transfers;
  all.names = program.names;
  all.sites = program.sites;
  all.parameter_buckets = program.parameter_buckets;
  all.stage = program.stage;
  add_delay(all, delay);
  append_times(all.kind, program.kind, steps);
  append_times(all.stream, program.stream, steps);
  append_times(all.pass, program.pass, steps);
  append_times(all.work, program.work, steps);
  append_times(all.action, program.action, steps);
  append_times(all.subject, program.subject, steps);
  append_times(all.label, program.label, steps);
  all.first_dependency = {0, 0};
  LastOps before{};
  before[static_cast<std::size_t>(Stream::compute)] = OpId{0};
  for (int step = 0; step < steps; ++step) {
    const auto offset =
        static_cast<std::uint32_t>(1 + program.size() * static_cast<std::size_t>(step));
    for (const std::optional<OpId>& last : before)
      if (last) all.host_waits.push_back({OpId{offset}, *last});
    for (const HostWait& wait : program.host_waits)
      all.host_waits.push_back({{wait.before.value + offset}, {wait.until.value + offset}});
    add_dependencies(all, program, offset, before);
    before = last_ops(program, offset);
  }
  all.first_buffer_use.assign(all.size() + 1, 0);
  return all;
}

std::size_t begin_of_step(const Program& program, int step) {
  return 1 + program.size() * static_cast<std::size_t>(step);
}

}  // namespace sim
