#include "sim/trace/host_work.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "sim/trace/kernel_words.hpp"
#include "sim/trace/op_shapes.hpp"

namespace sim {
namespace {

// The role of a span on a thread: how its time counts.
enum class Role : std::uint8_t {
  caller,      // only what it calls is work
  piecewise,   // an operator: its time less that of those it calls
  whole,       // the same, with all that it calls
  collective,  // the same, of a communication library
  loading      // no work, nor what it calls
};

bool takes_all(Role role) {
  return role != Role::caller && role != Role::piecewise;
}

// Namespaces whose operators only call others, or wait for them.
constexpr std::array callers{std::string_view{"autograd::"}, std::string_view{"torch::autograd::"},
                             std::string_view{"c10d::"}, std::string_view{"c10d_functional::"},
                             std::string_view{"_c10d_functional::"}};

Role role_of_operator(std::string_view name) {
  if (has_known_work(name)) return Role::whole;
  // Nodes of autograd and record_param_comms have no namespace.
  const bool calls = name.find("::") == std::string_view::npos ||
                     std::any_of(callers.begin(), callers.end(),
                                 [&](std::string_view caller) { return name.starts_with(caller); });
  return calls ? Role::caller : Role::piecewise;
}

class ThreadReader {
 public:
  ThreadReader(PendingRank& pending, const RunRank& rank,
               const std::vector<std::string_view>& names)
      : pending_{pending}, rank_{rank}, names_{names} {
    for (const auto& [host, call] : pending.backend_calls)
      calls_.emplace(host, call);
    for (const auto& [id, work] : pending.works)
      works_.emplace(id, work);
  }

  void add(std::uint32_t index) {
    const PendingHost& next = pending_.host[index];
    if (!open_.empty() && next.span.thread != thread_) finish();
    thread_ = next.span.thread;
    close_until(next.span.begin);
    emit(next.span.begin);
    at_ = next.span.begin;
    Open made{next.span.end, index, role_of(next, index), in_optimizer(next)};
    if (!open_.empty() && takes_all(open_.back().role)) {
      made.role = open_.back().role;
      made.owner = open_.back().owner;
    }
    open_.push_back(made);
  }

  void finish() {
    close_until(TimePoint::max());
    at_ = TimePoint::min();
    last_ = not_told;
  }

 private:
  struct Open {
    TimePoint end;
    std::uint32_t owner;  // into pending_.host: what has its time
    Role role;
    bool optimizer;  // runs within a step of the optimizer
  };

  Role role_of(const PendingHost& of, std::uint32_t index) const {
    if (calls_.count(index) > 0) return Role::collective;
    const std::string_view name = names_[of.span.name];
    if (of.span.what == HostSpan::What::op) return role_of_operator(name);
    return name.starts_with("enumerate(DataLoader)") ? Role::loading : Role::caller;
  }

  bool in_optimizer(const PendingHost& next) const {
    return (!open_.empty() && open_.back().optimizer) ||
           names_[next.span.name].starts_with("Optimizer.step#");
  }

  void close_until(TimePoint time) {
    while (!open_.empty() && open_.back().end <= time) {
      emit(open_.back().end);
      at_ = std::max(at_, open_.back().end);
      open_.pop_back();
    }
  }

  // The time since the last change is of the innermost span.
  void emit(TimePoint until) {
    if (open_.empty() || until <= at_) return;
    const Open& inner = open_.back();
    if (inner.role == Role::caller || inner.role == Role::loading) return;
    if (last_ == static_cast<std::int64_t>(inner.owner) &&
        pending_.device.back().activity.end == at_) {
      pending_.device.back().activity.end = until;
      return;
    }
    last_ = inner.owner;
    pending_.device.push_back({activity_of(inner, until)});
  }

  DeviceActivity activity_of(const Open& inner, TimePoint until) const {
    const PendingHost& owner = pending_.host[inner.owner];
    DeviceActivity made;
    made.name = owner.span.name;
    made.stream = owner.span.thread;
    made.begin = at_;
    made.end = until;
    made.operator_id = owner.id;
    if (inner.role == Role::collective) {
      made.kind = OpKind::collective;
      made.call = calls_.at(inner.owner);
    } else {
      made.kind = kind_of(owner, inner.optimizer);
    }
    return made;
  }

  OpKind kind_of(const PendingHost& of, bool optimizer) const {
    const std::string_view name = names_[of.span.name];
    const auto work = works_.find(of.id);
    const OpKind kind = is_product(name) ? OpKind::gemm
                        : work != works_.end()
                            ? rank_.works[static_cast<std::size_t>(work->second)].kind
                            : kind_of_kernel(name, {});
    return optimizer && kind == OpKind::elementwise ? OpKind::optimizer : kind;
  }

  PendingRank& pending_;
  const RunRank& rank_;
  const std::vector<std::string_view>& names_;
  std::map<std::uint32_t, std::int32_t> calls_;
  std::map<std::int64_t, std::int32_t> works_;
  std::uint32_t thread_ = 0;
  TimePoint at_ = TimePoint::min();
  std::int64_t last_ = not_told;  // the owner of the last activity, on this thread
  std::vector<Open> open_;
};

}  // namespace

bool operators_as_work(PendingRank& pending, const RunRank& rank, const TraceNames& names) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < pending.host.size(); ++i)
    if (const HostSpan::What what = pending.host[i].span.what;
        what == HostSpan::What::op || what == HostSpan::What::mark)
      order.push_back(i);
  // Among spans with one begin and one end, the outer one has the lower number.
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const auto key = [&](std::uint32_t i) {
      const PendingHost& of = pending.host[i];
      return std::tuple{of.span.thread, of.span.begin, -of.span.end.time_since_epoch().count(),
                        of.id};
    };
    return key(a) < key(b);
  });
  const std::vector<std::string_view> list = names.list();
  ThreadReader reader{pending, rank, list};
  for (const std::uint32_t index : order)
    reader.add(index);
  reader.finish();
  pending.on_host = !pending.device.empty();
  return pending.on_host;
}

}  // namespace sim
