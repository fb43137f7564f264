#include "sim/program/program_builder.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"

namespace sim {
namespace {

// Tables hold tens of rows, so a linear search from the newest beats hashing.
template <class Item>
std::uint32_t intern(std::vector<Item>& items, const Item& item) {
  const auto found = std::find(items.rbegin(), items.rend(), item);
  if (found != items.rend()) {
    return static_cast<std::uint32_t>(items.rend() - found) - 1;
  }
  items.push_back(item);
  return static_cast<std::uint32_t>(items.size() - 1);
}

bool is_message(OpKind kind) {
  return kind == OpKind::send || kind == OpKind::recv;
}

}  // namespace

ProgramBuilder::ProgramBuilder(int stage) {
  program_.stage = stage;
  program_.first_dependency.push_back(0);
  program_.first_buffer_use.push_back(0);
  last_.fill(none);
  host_seen_.fill(none);
  for (auto& row : waits_)
    row.fill(none);
  for (auto& row : seen_)
    row.fill(none);
}

void ProgramBuilder::reserve(std::size_t ops) {
  program_.kind.reserve(ops);
  program_.stream.reserve(ops);
  program_.pass.reserve(ops);
  program_.work.reserve(ops);
  program_.action.reserve(ops);
  program_.subject.reserve(ops);
  program_.label.reserve(ops);
  program_.first_dependency.reserve(ops + 1);
  program_.first_buffer_use.reserve(ops + 1);
  program_.dependency.reserve(ops);
  program_.buffer_use.reserve(4 * ops);
  program_.buffers.reserve(ops + ops / 2);
}

std::uint32_t ProgramBuilder::kernel(const Kernel& kernel) {
  return intern(program_.kernels, kernel);
}

std::uint32_t ProgramBuilder::collective(const Collective& collective) {
  return intern(program_.collectives, collective);
}

std::uint32_t ProgramBuilder::transfer(const Transfer& transfer) {
  return intern(program_.transfers, transfer);
}

std::uint32_t ProgramBuilder::name(std::string_view text) {
  const auto found = std::find(program_.names.begin(), program_.names.end(), text);
  const auto index = static_cast<std::uint32_t>(found - program_.names.begin());
  if (found == program_.names.end()) program_.names.emplace_back(text);
  return index;
}

BufferId ProgramBuilder::buffer(Bytes size, BufferCategory category, bool persistent) {
  SIM_CHECK(size.count() >= 0, size.count());
  program_.buffers.push_back({.size = size, .category = category, .persistent = persistent});
  return BufferId{static_cast<std::uint32_t>(program_.buffers.size() - 1)};
}

BufferId ProgramBuilder::host_buffer(Bytes size) {
  const BufferId made = buffer(Bytes{}, BufferCategory::optimizer, true);
  program_.buffers[made.value].host = size;
  return made;
}

void ProgramBuilder::wait(Stream stream, OpId event) {
  const auto on = index(program_.stream[event.value]);
  const auto waiter = index(stream);
  if (on == waiter) return;  // the stream's own order
  const std::uint32_t seen = seen_[waiter][on];
  if (seen != none && seen >= event.value) return;
  std::uint32_t& pending = waits_[waiter][on];
  if (pending == none || pending < event.value) pending = event.value;
  has_waits_[waiter] = true;
}

void ProgramBuilder::wait_for_stream(Stream stream, Stream on) {
  if (has_op(on)) wait(stream, last(on));
}

void ProgramBuilder::host_waits_for(OpId event) {
  if (!host_rules_.waits) return;
  const Stream on = program_.stream[event.value];
  std::uint32_t& seen = host_seen_[index(on)];
  if (seen != none && seen >= event.value) return;
  seen = event.value;
  program_.host_waits.push_back({OpId{static_cast<std::uint32_t>(size())}, event});
  for (std::size_t stream = 0; stream < stream_count; ++stream)
    wait(static_cast<Stream>(stream), event);
}

void ProgramBuilder::host_waits_for_all() {
  for (const std::uint32_t last : last_)
    if (last != none && !is_message(program_.kind[last])) host_waits_for(OpId{last});
}

OpId ProgramBuilder::add(OpKind kind, Stream stream, Pass pass, std::uint32_t work,
                         const OpLabel& label, Does does) {
  if (host_rules_.blocks_launches && !is_message(kind)) host_waits_for_all();
  const OpId op{static_cast<std::uint32_t>(program_.size())};
  program_.kind.push_back(kind);
  program_.stream.push_back(stream);
  program_.pass.push_back(pass);
  program_.work.push_back(work);
  program_.action.push_back(does.action);
  program_.subject.push_back(does.subject);
  program_.label.push_back(label);
  const auto at = index(stream);
  if (has_waits_[at]) {
    for (std::size_t on = 0; on < stream_count; ++on) {
      std::uint32_t& pending = waits_[at][on];
      if (pending == none) continue;
      program_.dependency.push_back(OpId{pending});
      seen_[at][on] = pending;
      pending = none;
    }
    has_waits_[at] = false;
  }
  program_.first_dependency.push_back(static_cast<std::uint32_t>(program_.dependency.size()));
  program_.first_buffer_use.push_back(static_cast<std::uint32_t>(program_.buffer_use.size()));
  last_[at] = op.value;
  return op;
}

void ProgramBuilder::takes(const Scratch& scratch) {
  if (scratch.empty()) return;
  const OpId op{static_cast<std::uint32_t>(program_.size() - 1)};
  program_.scratch_of_op.emplace_back(op, intern(program_.scratches, scratch));
}

void ProgramBuilder::set_parameters(std::vector<Site> sites, std::vector<ParameterBucket> buckets) {
  program_.sites = std::move(sites);
  program_.parameter_buckets = std::move(buckets);
}

Program ProgramBuilder::finish() {
  auto& waits = program_.host_waits;
  while (!waits.empty() && waits.back().before.value == program_.size())
    waits.pop_back();  // nothing comes behind
  return std::move(program_);
}

}  // namespace sim
