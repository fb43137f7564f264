#include "sim/explain/activity_class.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "sim/base/lower_case.hpp"

namespace sim {
namespace {

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

// Whether the text has the word, with no letter before or behind it: "next", not "context".
bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_letter(text[end])))
      return true;
  }
  return false;
}

}  // namespace

ActivityClass class_of_activity(const DeviceActivity& activity) {
  switch (activity.kind) {
    case OpKind::collective:
    case OpKind::send:
    case OpKind::recv:
      return ActivityClass::communication;
    case OpKind::host_copy:
      return ActivityClass::copy;
    case OpKind::host_update:
    case OpKind::server_exchange:
    case OpKind::barrier:
      return ActivityClass::of_host;
    default:
      return activity.what == DeviceActivity::What::kernel ? ActivityClass::compute
                                                           : ActivityClass::copy;
  }
}

std::string_view category_of(OpKind kind) {
  switch (kind) {
    case OpKind::gemm:
      return "matrix products";
    case OpKind::attention:
      return "attention";
    case OpKind::optimizer:
      return "optimizer";
    case OpKind::norm:
      return "norms";
    case OpKind::cross_entropy:
      return "loss";
    case OpKind::scan:
      return "scans";
    case OpKind::collective:
      return "collectives";
    case OpKind::send:
    case OpKind::recv:
      return "messages";
    case OpKind::host_copy:
      return "copies";
    default:
      return "memory-bound kernels";
  }
}

std::string label_of_group(const TracedRun& run, std::int32_t group) {
  if (group < 0 || group >= static_cast<std::int32_t>(run.groups.size())) return "group not told";
  const TracedGroup& of = run.groups[static_cast<std::size_t>(group)];
  if (!of.description.empty() && of.description != "undefined") return of.description;
  const int size = of.size > 0 ? of.size : static_cast<int>(of.ranks.size());
  if (size > 0) return fmt::format("group of {}", size);
  return of.name.empty() ? std::string{"group not told"} : "group " + of.name;
}

std::string_view name_of_call(const CollectiveCall& call) {
  return call.kind ? word(*call.kind) : std::string_view{"message"};
}

CollectiveCall call_of(const RunRank& rank, const DeviceActivity& activity) {
  if (activity.call >= 0 && activity.call < static_cast<std::int32_t>(rank.calls.size()))
    return rank.calls[static_cast<std::size_t>(activity.call)];
  return {};
}

bool loads_data(std::string_view name) {
  const std::string lower = lower_case(name);
  return lower.find("dataloader") != std::string::npos || has_word(lower, "next") ||
         has_word(lower, "get_batch") || has_word(lower, "next_batch");
}

bool waits_for_device(std::string_view name) {
  constexpr std::array<std::string_view, 12> calls{
      "cudaDeviceSynchronize",     "cudaStreamSynchronize",
      "cudaEventSynchronize",      "cuStreamSynchronize",
      "cuCtxSynchronize",          "cuEventSynchronize",
      "hipDeviceSynchronize",      "hipStreamSynchronize",
      "hipEventSynchronize",       "aten::item",
      "aten::_local_scalar_dense", "aten::nonzero"};
  return std::any_of(calls.begin(), calls.end(), [&](std::string_view call) {
    return name == call || (name.starts_with(call) && name.substr(call.size()).starts_with("_v"));
  });
}

std::string kernel_words(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  std::string words;
  for (const char c : name) {
    if (c == '(' || c == '<') break;
    words += c;
  }
  if (words.empty()) words = name;
  constexpr std::size_t longest = 72;
  if (words.size() > longest) words = words.substr(0, longest - 3) + "...";
  return words;
}

}  // namespace sim
