// Collectives that events tell of, and their groups.
#include <fmt/format.h>

#include <algorithm>

#include "sim/trace/collective_words.hpp"
#include "sim/trace/event_keeper.hpp"
#include "sim/trace/host_work.hpp"

namespace sim {

Bytes EventKeeper::bytes_of(std::int64_t elements, int each) {
  constexpr std::int64_t most = std::int64_t{1} << 50;
  return Bytes{std::clamp<std::int64_t>(elements, 0, most) * each};
}

// By the shapes of its inputs.
void EventKeeper::keep_backend_call(const TraceEvent& event) {
  nccl_ = nccl_ || event.name.starts_with("nccl:");
  const std::string_view operation = operation_of_backend(event.name);
  if (operation.empty()) return;
  EventCollective told;
  told.operation = operation;
  if (!event.op.types.empty()) told.dtype = event.op.types.front();
  constexpr double most = 1e15;
  double elements = 0;
  for (const std::vector<std::int64_t>& extents : event.op.dims)
    elements += elements_of(extents);
  told.in_elements = static_cast<std::int64_t>(std::min(elements, most));
  pending_.backend_calls.emplace_back(static_cast<std::uint32_t>(pending_.host.size()),
                                      keep_call(told));
}

std::int32_t EventKeeper::keep_call(const EventCollective& told) {
  CollectiveCall call;
  call.kind = collective_kind(told.operation);
  call.bytes = bytes_of(std::max(told.in_elements, told.out_elements), element_bytes(told.dtype));
  call.group = group_of(told);
  call.dtype = names_.number(told.dtype);
  call.operation = names_.number(told.operation);
  call.in_elements = told.in_elements;
  call.out_elements = told.out_elements;
  rank_.calls.push_back(call);
  return static_cast<std::int32_t>(rank_.calls.size()) - 1;
}

std::int32_t EventKeeper::group_of(const EventCollective& told) {
  if (told.group.empty() && told.ranks.empty() && told.group_size == 0) return not_told;
  TracedGroup group{told.group, told.description, told.group_size};
  for (const std::int64_t rank : ranks_in(told.ranks))
    if (rank <= largest_traced_rank) group.ranks.push_back({static_cast<std::uint32_t>(rank)});
  std::sort(group.ranks.begin(), group.ranks.end());
  // A message names a group of one beside the ranks of the communicator.
  if (!group.ranks.empty()) group.size = static_cast<int>(group.ranks.size());
  const std::string key = fmt::format("{}\n{}\n{}", told.group, told.ranks, group.size);
  const auto [entry, is_new] =
      groups_.try_emplace(key, static_cast<std::int32_t>(file_.groups.size()));
  if (is_new) {
    file_.shortened.push_back(group.ranks.empty() ? told.ranks : "");
    file_.groups.push_back(std::move(group));
  }
  return entry->second;
}

// Without a GPU. A collective of a library of the host does not name its group: it is known where
// there is one. What a rank gives to an all-gather is its own part.
void EventKeeper::take_host() {
  file_.on_host = operators_as_work(pending_, rank_, names_);
  if (!file_.on_host) return;
  file_.device.name = "CPU";
  const bool one = file_.groups.size() == 1;
  for (CollectiveCall& call : rank_.calls) {
    call.group = one ? 0 : not_told;
    if (call.kind == CollectiveKind::all_gather)
      call.bytes = call.bytes * (one ? file_.groups.front().size : 0);
  }
}

}  // namespace sim
