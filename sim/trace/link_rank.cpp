#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "sim/trace/kernel_words.hpp"
#include "sim/trace/pending_rank.hpp"

namespace sim {
namespace {

// A number that kernels refer to, and what it was found to be.
struct Wanted {
  std::int64_t id = -1;
  std::int32_t host = not_told;  // the first; a better one replaces it
  bool better = false;
  std::int32_t around = not_told;  // of a call: the innermost operator around it
  std::int64_t around_id = -1;
};

class WantedList {
 public:
  void add(std::int64_t id) {
    if (id >= 0 && (list_.empty() || list_.back().id != id)) list_.push_back({.id = id});
  }
  void sort() {
    const auto less = [](const Wanted& a, const Wanted& b) { return a.id < b.id; };
    const auto same = [](const Wanted& a, const Wanted& b) { return a.id == b.id; };
    std::sort(list_.begin(), list_.end(), less);
    list_.erase(std::unique(list_.begin(), list_.end(), same), list_.end());
  }
  Wanted* find(std::int64_t id) {
    const auto found = std::lower_bound(list_.begin(), list_.end(), id,
                                        [](const Wanted& a, std::int64_t b) { return a.id < b; });
    return found != list_.end() && found->id == id ? &*found : nullptr;
  }

 private:
  std::vector<Wanted> list_;
};

// The last entry of an id.
std::int32_t entry_of(const std::vector<std::pair<std::int64_t, std::int32_t>>& list,
                      std::int64_t id) {
  const auto next = std::upper_bound(list.begin(), list.end(), id,
                                     [](std::int64_t a, const auto& b) { return a < b.first; });
  return next != list.begin() && std::prev(next)->first == id ? std::prev(next)->second : not_told;
}

void sort_by_id(std::vector<std::pair<std::int64_t, std::int32_t>>& list) {
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
}

// Arrows from a call to its kernel name the correlation where the events do not.
void bind_flows(PendingRank& pending) {
  if (pending.flows.empty()) return;
  std::map<EventPlace, std::int64_t> begins, ends;
  for (const PendingFlow& flow : pending.flows)
    (flow.begins ? begins : ends).emplace(flow.place, flow.id);
  for (const Unbound& kernel : pending.unbound_device)
    if (const auto found = ends.find(kernel.place); found != ends.end())
      pending.device[kernel.index].correlation = found->second;
  for (const Unbound& call : pending.unbound_host)
    if (const auto found = begins.find(call.place); found != begins.end())
      pending.host[call.index].id = found->second;
  pending.flows.clear();
}

class RankLinker {
 public:
  RankLinker(PendingRank& pending, RunRank& rank, const TraceNames& names, LeftOut& left)
      : pending_{pending}, rank_{rank}, names_{names.list()}, left_{left} {}

  void link() {
    bind_flows(pending_);
    sort();
    for (const PendingDevice& kernel : pending_.device) {
      launches_.add(kernel.correlation);
      issuers_.add(kernel.activity.operator_id);
    }
    launches_.sort();
    issuers_.sort();
    move_host();
    move_device();
    order_calls();
  }

 private:
  // A span comes before those that it holds; equal ones are equal in all.
  void sort() {
    const auto host = [](const PendingHost& x) {
      return std::tuple{x.span.begin,  -x.span.end.time_since_epoch().count(),
                        x.span.what,   x.span.name,
                        x.span.thread, x.id};
    };
    const auto device = [](const PendingDevice& x) {
      return std::tuple{x.activity.begin,  x.activity.end,  x.activity.what,
                        x.activity.stream, x.activity.name, x.correlation};
    };
    const auto host_less = [&](const auto& a, const auto& b) { return host(a) < host(b); };
    const auto device_less = [&](const auto& a, const auto& b) { return device(a) < device(b); };
    if (!std::is_sorted(pending_.host.begin(), pending_.host.end(), host_less))
      std::sort(pending_.host.begin(), pending_.host.end(), host_less);
    if (!std::is_sorted(pending_.device.begin(), pending_.device.end(), device_less))
      std::sort(pending_.device.begin(), pending_.device.end(), device_less);
    sort_by_id(pending_.works);
    sort_by_id(pending_.calls);
  }

  void move_host() {
    rank_.host.reserve(pending_.host.size());
    while (!pending_.host.empty()) {
      const PendingHost& next = pending_.host.front();
      look_at(next, static_cast<std::int32_t>(rank_.host.size()));
      rank_.host.push_back(next.span);
      pending_.host.pop_front();
    }
  }

  void look_at(const PendingHost& next, std::int32_t index) {
    if (next.span.what == HostSpan::What::runtime) return look_at_call(next, index);
    const bool op = next.span.what == HostSpan::What::op;
    if (!op && next.span.what != HostSpan::What::mark) return;
    if (Wanted* wanted = issuers_.find(next.id); wanted && (op || !wanted->better)) {
      wanted->host = index;
      wanted->better = op;
    }
    if (op) stack_before(next.span).push_back({next.span.end, index, next.id});
  }

  // Several calls may have one number: a launch or a copy is the one.
  void look_at_call(const PendingHost& call, std::int32_t index) {
    Wanted* wanted = launches_.find(call.id);
    if (!wanted || (wanted->host != not_told && wanted->better)) return;
    const bool issues = issues_work(call.span.name);
    if (wanted->host != not_told && !issues) return;
    wanted->host = index;
    wanted->better = issues;
    const auto& stack = stack_before(call.span);
    wanted->around = stack.empty() ? not_told : stack.back().index;
    wanted->around_id = stack.empty() ? -1 : stack.back().id;
  }

  bool issues_work(std::uint32_t name) const {
    for (const char* word : {"Launch", "Memcpy", "Memset"})
      if (names_[name].find(word) != std::string_view::npos) return true;
    return false;
  }

  struct Open {
    TimePoint end;
    std::int32_t index;
    std::int64_t id;
  };
  // Operators of the thread that are not over.
  std::vector<Open>& stack_before(const HostSpan& span) {
    if (stacks_.size() <= span.thread) stacks_.resize(span.thread + 1);
    std::vector<Open>& stack = stacks_[span.thread];
    while (!stack.empty() && stack.back().end <= span.begin)
      stack.pop_back();
    return stack;
  }

  void move_device() {
    rank_.device.reserve(pending_.device.size());
    while (!pending_.device.empty()) {
      PendingDevice& next = pending_.device.front();
      link(next.activity, launches_.find(next.correlation));
      rank_.device.push_back(next.activity);
      pending_.device.pop_front();
    }
  }

  void link(DeviceActivity& activity, const Wanted* launch) {
    const Wanted* issuer = issuers_.find(activity.operator_id);
    std::int64_t id = activity.operator_id;
    if (launch) activity.launch = launch->host;
    if (issuer) activity.issuer = issuer->host;
    if (launch && (activity.issuer == not_told || !issuer->better) && launch->around != not_told) {
      activity.issuer = launch->around;
      id = launch->around_id;
    }
    activity.work = entry_of(pending_.works, activity.operator_id);
    if (!pending_.on_host) activity.kind = kind_of(activity);
    if (activity.call == not_told) activity.call = call_of(activity, id);
    if (activity.call != not_told) name_message(activity);
    const std::int32_t work =
        activity.work == not_told ? entry_of(pending_.works, id) : activity.work;
    if (activity.kind == OpKind::gemm && activity.call == not_told && work != not_told)
      activity.product = product_of_work(work);
    count(activity);
  }

  std::string_view op_name(const DeviceActivity& activity) const {
    if (activity.issuer == not_told) return {};
    const HostSpan& span = rank_.host[static_cast<std::size_t>(activity.issuer)];
    return span.what == HostSpan::What::op ? names_[span.name] : std::string_view{};
  }

  OpKind kind_of(const DeviceActivity& activity) {
    if (activity.call != not_told) return OpKind::collective;
    std::uint64_t key = std::uint64_t{activity.name} << 32;
    if (!op_name(activity).empty())
      key |= rank_.host[static_cast<std::size_t>(activity.issuer)].name;
    const auto [entry, is_new] = kinds_.try_emplace(key, OpKind::elementwise);
    if (is_new) entry->second = kind_of_kernel(names_[activity.name], op_name(activity));
    return entry->second;
  }

  // The call of a collective without metadata: that of its operator, or by its name.
  std::int32_t call_of(const DeviceActivity& activity, std::int64_t id) {
    if (activity.kind != OpKind::collective) return not_told;
    const std::int32_t told = entry_of(pending_.calls, id);
    if (told != not_told) return told;
    CollectiveCall call;
    call.kind = collective_of_kernel(names_[activity.name]).kind;
    // An all-to-all is messages of all to all.
    if (!call.kind && activity.issuer != not_told) {
      const HostSpan& issuer = rank_.host[static_cast<std::size_t>(activity.issuer)];
      call.kind = collective_of_kernel(names_[issuer.name]).kind;
    }
    rank_.calls.push_back(call);
    return static_cast<std::int32_t>(rank_.calls.size()) - 1;
  }

  void name_message(DeviceActivity& activity) const {
    const CollectiveCall& call = rank_.calls[static_cast<std::size_t>(activity.call)];
    if (call.kind) return;
    const std::string_view operation = names_[call.operation];
    if (operation == "recv")
      activity.kind = OpKind::recv;
    else if (operation == "send" || collective_of_kernel(names_[activity.name]).message)
      activity.kind = OpKind::send;
  }

  std::int32_t product_of_work(std::int32_t work) {
    const Kernel& kernel = rank_.works[static_cast<std::size_t>(work)];
    if (kernel.kind != OpKind::gemm) return not_told;
    const auto [entry, is_new] =
        products_.try_emplace({kernel.m, kernel.n, kernel.k, kernel.batch},
                              static_cast<std::int32_t>(rank_.products.size()));
    if (is_new)
      rank_.products.push_back(
          {.m = kernel.m, .n = kernel.n, .k = kernel.k, .batch = kernel.batch});
    return entry->second;
  }

  void count(const DeviceActivity& activity) {
    if (pending_.on_host) return;
    ++left_.kernels;
    if (activity.launch == not_told) {
      ++left_.unlaunched;
      return;
    }
    const TimePoint launched = rank_.host[static_cast<std::size_t>(activity.launch)].begin;
    if (activity.begin >= launched) return;
    ++left_.early;
    left_.earliest = std::max(left_.earliest, launched - activity.begin);
  }

  // In the order of their kernels, one each.
  void order_calls() {
    std::vector<CollectiveCall> calls;
    calls.reserve(rank_.calls.size());
    for (DeviceActivity& activity : rank_.device) {
      if (activity.call == not_told) continue;
      calls.push_back(rank_.calls[static_cast<std::size_t>(activity.call)]);
      activity.call = static_cast<std::int32_t>(calls.size()) - 1;
    }
    rank_.calls = std::move(calls);
  }

  PendingRank& pending_;
  RunRank& rank_;
  std::vector<std::string_view> names_;
  LeftOut& left_;
  WantedList launches_, issuers_;
  std::vector<std::vector<Open>> stacks_;
  std::unordered_map<std::uint64_t, OpKind> kinds_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, std::int32_t>
      products_;
};

}  // namespace

void link_rank(PendingRank& pending, RunRank& rank, const TraceNames& names, LeftOut& left) {
  RankLinker{pending, rank, names, left}.link();
}

}  // namespace sim
