#include "sim/trace/event_keeper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "sim/trace/collective_words.hpp"
#include "sim/trace/kernel_words.hpp"

namespace sim {
namespace {

constexpr std::size_t most_events = 2'000'000'000;
constexpr std::uint32_t streams_of_device = 1 << 16;

Duration duration_of(const TraceTime& time) {
  return Duration{time.microseconds * 1'000'000 + time.picoseconds};
}

bool is_profiled(EventKind kind) {
  return kind == EventKind::kernel || kind == EventKind::copy || kind == EventKind::set;
}

HostSpan::What what_of(EventKind kind) {
  switch (kind) {
    case EventKind::runtime:
      return HostSpan::What::runtime;
    case EventKind::mark:
      return HostSpan::What::mark;
    case EventKind::garbage:
      return HostSpan::What::garbage;
    default:
      return HostSpan::What::op;
  }
}

}  // namespace

EventKeeper::EventKeeper(StreamedJson& scan, TraceNames& names, TraceFile& file)
    : scan_{scan}, names_{names}, file_{file} {
  names_.number("");
}

void EventKeeper::keep(TraceEvent& event) {
  if (event.kind == EventKind::flow) return keep_flow(event);
  if (event.phase != "X") return;
  switch (event.kind) {
    case EventKind::python:
      ++file_.left.python;
      return;
    case EventKind::other:
      if (!event.category.empty() && file_.left.categories.size() < 64)
        ++file_.left.categories[event.category];
      return;
    case EventKind::slice:
      return keep_slice(event);
    default:
      break;
  }
  if (is_profiled(event.kind)) return keep_device(event);
  if (timed(event)) keep_host(event);
}

// From the first event of the file, which may be later than others.
std::optional<TimePoint> EventKeeper::place(const TraceTime& time) {
  if (!file_.origin) file_.origin = time.microseconds;
  const std::int64_t away = time.microseconds - *file_.origin;
  if (away <= -longest_microseconds || away >= longest_microseconds) return std::nullopt;
  return TimePoint{Duration{away * 1'000'000 + time.picoseconds}};
}

bool EventKeeper::timed(const TraceEvent& event) {
  if (!event.at) {
    ++file_.left.untimed;
    return false;
  }
  if (event.duration.microseconds < 0) {
    ++file_.left.negative;
    return false;
  }
  const std::optional<TimePoint> begin = place(*event.at);
  if (!begin || std::abs(event.at->microseconds - *file_.origin) + event.duration.microseconds >=
                    longest_microseconds) {
    ++file_.left.far;
    return false;
  }
  return true;
}

void EventKeeper::check_kernel(const TraceEvent& event) const {
  constexpr double longest = 1e13;
  if (event.microseconds < 0 || event.microseconds > longest)
    scan_.fail(
        fmt::format("'{}' takes {} us; expected 0 to {}", event.name, event.microseconds, longest));
  const auto begin = static_cast<double>(event.at ? event.at->microseconds : 0);
  const double span =
      std::abs(begin - static_cast<double>(file_.origin.value_or(0))) + event.microseconds;
  if (span >= static_cast<double>(longest_microseconds))
    scan_.fail(fmt::format("its kernels span {:.3g} s; at most {:.3g} s are read", span * 1e-6,
                           static_cast<double>(longest_microseconds) * 1e-6));
}

EventPlace EventKeeper::place_of(const TraceEvent& event, TimePoint at) const {
  return {event.process, event.thread, at};
}

void EventKeeper::keep_device(TraceEvent& event) {
  const TraceTime at = event.at.value_or(TraceTime{});
  const std::optional<TimePoint> begin = place(at);
  check_kernel(event);
  if (!begin) scan_.fail("its kernels are too far apart");
  if (pending_.device.size() >= most_events) scan_.fail("more than 2e9 kernels");
  DeviceActivity activity;
  activity.name = names_.number(event.name);
  activity.stream = stream_of(event);
  activity.begin = *begin;
  activity.end = *begin + duration_of(event.duration);
  activity.what = event.kind == EventKind::kernel ? DeviceActivity::What::kernel
                  : event.kind == EventKind::copy ? DeviceActivity::What::copy
                                                  : DeviceActivity::What::set;
  activity.operator_id = event.external;
  if (!event.collective.operation.empty()) activity.call = keep_call(event.collective);
  if (event.correlation >= 0 && !correlated_) {
    correlated_ = true;
    pending_.flows = {};
    pending_.unbound_host = {};
  }
  if (event.correlation < 0)
    pending_.unbound_device.push_back(
        {place_of(event, *begin), static_cast<std::uint32_t>(pending_.device.size())});
  pending_.device.push_back({activity, event.correlation});
}

// Streams of other devices than the first are numbered apart.
std::uint32_t EventKeeper::stream_of(const TraceEvent& event) {
  const std::int64_t stream =
      std::max<std::int64_t>(0, event.stream >= 0 ? event.stream : event.thread);
  const std::int64_t device = event.device >= 0 ? event.device : event.process;
  if (std::find(devices_.begin(), devices_.end(), device) == devices_.end())
    devices_.push_back(device);
  const auto number = static_cast<std::uint32_t>(stream);
  const auto which = std::find(devices_.begin(), devices_.end(), device) - devices_.begin();
  return number + static_cast<std::uint32_t>(which) * streams_of_device;
}

std::uint32_t EventKeeper::thread_of(const TraceEvent& event) {
  return threads_
      .try_emplace({event.process, event.thread}, static_cast<std::uint32_t>(threads_.size()))
      .first->second;
}

void EventKeeper::keep_host(TraceEvent& event) {
  if (pending_.host.size() >= most_events) scan_.fail("more than 2e9 events of the host");
  const TimePoint begin = *place(*event.at);
  const TimePoint end = begin + duration_of(event.duration);
  PendingHost pending;
  pending.span = {.name = names_.number(event.name),
                  .thread = thread_of(event),
                  .begin = begin,
                  .end = end,
                  .what = what_of(event.kind)};
  pending.id = event.kind == EventKind::runtime ? event.correlation : event.external;
  if (event.kind == EventKind::mark) keep_step(event, begin, end);
  if (event.kind != EventKind::runtime) keep_backend_call(event);
  if (event.kind == EventKind::runtime) {
    file_.device.hip = file_.device.hip || event.name.starts_with("hip");
    if (event.correlation < 0 && !correlated_)
      pending_.unbound_host.push_back(
          {place_of(event, begin), static_cast<std::uint32_t>(pending_.host.size())});
  } else if (event.external >= 0) {
    keep_work(event);
    if (!event.collective.operation.empty())
      pending_.calls.emplace_back(event.external, keep_call(event.collective));
  }
  pending_.host.push_back(pending);
}

void EventKeeper::keep_step(const TraceEvent& event, TimePoint begin, TimePoint end) {
  constexpr std::string_view head = "ProfilerStep#";
  if (!event.name.starts_with(head)) return;
  int number = 0;
  const char* const last = event.name.data() + event.name.size();
  const auto [stop, error] = std::from_chars(event.name.data() + head.size(), last, number);
  if (error == std::errc{} && stop == last) rank_.steps.push_back({event.name, begin, end});
}

void EventKeeper::keep_work(TraceEvent& event) {
  if (event.kind != EventKind::op || event.op.dims.empty()) return;
  event.op.name = event.name;
  const std::optional<Kernel> work = work_of(event.op);
  if (!work) return;
  const auto [entry, is_new] =
      works_.try_emplace({work->kind, work->dtype, work->part, work->m, work->n, work->k,
                          work->batch, work->bytes.count()},
                         static_cast<std::int32_t>(rank_.works.size()));
  if (is_new) rank_.works.push_back(*work);
  pending_.works.emplace_back(event.external, entry->second);
}

void EventKeeper::keep_flow(const TraceEvent& event) {
  const bool begins = event.phase == "s";
  if (correlated_ || event.flow < 0 || !event.at || (!begins && event.phase != "f")) return;
  if (const std::optional<TimePoint> at = place(*event.at))
    pending_.flows.push_back({event.flow, place_of(event, *at), begins});
}

void EventKeeper::keep_slice(const TraceEvent& event) {
  const TraceTime at = event.at.value_or(TraceTime{});
  const std::optional<TimePoint> begin = place(at);
  check_kernel(event);
  if (!begin) scan_.fail("its slices are too far apart");
  if (event.process < 0 || event.process > largest_traced_rank)
    scan_.fail(fmt::format("a process is {}; expected a rank, 0 to {}", event.process,
                           largest_traced_rank));
  RunRank& rank = slices_[event.process];
  const EventSlice& told = event.slice;
  DeviceActivity activity;
  activity.name = names_.number(event.name);
  activity.stream = static_cast<std::uint32_t>(std::max<std::int64_t>(0, event.thread));
  activity.begin = *begin;
  activity.end = *begin + duration_of(event.duration);
  activity.planned = static_cast<std::int32_t>(std::min<std::int64_t>(told.op, INT32_MAX));
  activity.kind = kind_of_kernel(event.name, {});
  if (!told.operation.empty() || told.bytes >= 0) {
    CollectiveCall call;
    call.kind = collective_kind(told.operation);
    call.bytes = bytes_of(told.bytes, 1);
    call.operation = names_.number(told.operation);
    EventCollective named;
    named.group = told.group;
    call.group = group_of(named);
    activity.kind = told.operation.empty() ? OpKind::send : OpKind::collective;
    activity.call = static_cast<std::int32_t>(rank.calls.size());
    rank.calls.push_back(call);
  } else if (told.m > 0) {
    activity.kind = OpKind::gemm;
    const Product product{told.m, told.n, told.k, told.batch};
    const auto known = std::find(rank.products.begin(), rank.products.end(), product);
    activity.product = static_cast<std::int32_t>(known - rank.products.begin());
    if (known == rank.products.end()) rank.products.push_back(product);
  }
  rank.device.push_back(activity);
}

void EventKeeper::finish() {
  const bool profiled = !pending_.device.empty();
  if (!profiled && !slices_.empty()) return finish_slices();
  file_.maker = "PyTorch profiler";
  if (devices_.size() > 1)
    file_.notes.push_back(fmt::format(
        "{}: kernels of {} devices are taken as one rank; streams of the others are numbered from "
        "{} on",
        file_.name, devices_.size(), streams_of_device));
  if (!profiled && !nccl_ && file_.device.name.empty()) take_host();
  link_rank(pending_, rank_, names_, file_.left);
  std::sort(rank_.steps.begin(), rank_.steps.end(),
            [](const StepMark& a, const StepMark& b) { return a.begin < b.begin; });
  rank_.source = file_.name;
  file_.ranks.push_back(std::move(rank_));
}

void EventKeeper::finish_slices() {
  file_.maker = fmt::format("Stepcast ({})", file_.engine.empty() ? "simulated" : file_.engine);
  file_.numbered = true;
  // A trace of ours is of one step.
  StepMark step{"step", TimePoint{}, TimePoint{}};
  for (const auto& [process, rank] : slices_)
    for (const DeviceActivity& activity : rank.device)
      step.end = std::max(step.end, activity.end);
  for (auto& [process, rank] : slices_) {
    rank.steps = {step};
    rank.rank = {static_cast<std::uint32_t>(process)};
    rank.source = file_.name;
    std::stable_sort(
        rank.device.begin(), rank.device.end(),
        [](const DeviceActivity& a, const DeviceActivity& b) { return a.begin < b.begin; });
    file_.ranks.push_back(std::move(rank));
  }
}

}  // namespace sim
