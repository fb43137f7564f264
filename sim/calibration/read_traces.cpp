#include "sim/calibration/read_traces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "sim/base/input_error.hpp"
#include "sim/calibration/kineto_events.hpp"
#include "sim/config/json_scan.hpp"

namespace sim {
namespace {

constexpr std::size_t largest_trace_read = std::size_t{1} << 30;
constexpr std::int64_t most_ranks = 1 << 24;

struct KindWord {
  std::string_view word;  // in lower case
  OpKind kind;
};
// In this order: the name of an attention kernel may hold "gemm".
constexpr std::array kind_words{KindWord{"nccl", OpKind::collective},
                                KindWord{"rccl", OpKind::collective},
                                KindWord{"attention", OpKind::attention},
                                KindWord{"flash", OpKind::attention},
                                KindWord{"fmha", OpKind::attention},
                                KindWord{"sdpa", OpKind::attention},
                                KindWord{"layer_norm", OpKind::norm},
                                KindWord{"layernorm", OpKind::norm},
                                KindWord{"rms_norm", OpKind::norm},
                                KindWord{"rmsnorm", OpKind::norm},
                                KindWord{"cross_entropy", OpKind::cross_entropy},
                                KindWord{"nll_loss", OpKind::cross_entropy},
                                KindWord{"log_softmax", OpKind::cross_entropy},
                                KindWord{"adam", OpKind::optimizer},
                                KindWord{"multi_tensor_apply", OpKind::optimizer},
                                KindWord{"multitensorapply", OpKind::optimizer},
                                KindWord{"gemm", OpKind::gemm},
                                KindWord{"nvjet", OpKind::gemm},
                                KindWord{"cutlass", OpKind::gemm},
                                KindWord{"wgmma", OpKind::gemm},
                                KindWord{"splitkreduce", OpKind::gemm}};

std::optional<CollectiveKind> collective_of(const std::string& torch) {
  const std::string name = collective_name(torch);
  for (const auto& known : words_of(CollectiveKind{}))
    if (known.text == name) return known.value;
  return std::nullopt;
}

TimePoint time_of(double microseconds) {
  return TimePoint{Duration{std::llround(microseconds * 1e6)}};
}

// Within the range of Duration.
void check_length(double microseconds, const std::string& name) {
  constexpr double longest = 4e12;  // us
  if (!(microseconds < longest))
    throw InputError{SourcePosition{name, 0, 0},
                     fmt::format("its kernels span {:.3g} s; at most {:.3g} s are read",
                                 microseconds * 1e-6, longest * 1e-6)};
}

// A negative number of elements, as another program may write it, is none.
Bytes bytes_of(std::int64_t elements, int each) {
  return Bytes{std::max<std::int64_t>(0, elements) * each};
}

TracedKernel traced(const TraceKernel& kernel, const TraceEvents& events, double first) {
  TracedKernel made;
  made.name = kernel.name;
  made.stream = kernel.stream;
  made.issued_by = kernel.external;
  made.begin = time_of(kernel.at - first);
  made.end = time_of(kernel.at - first + kernel.microseconds);
  const auto op = events.operators.find(kernel.external);
  const std::string op_name = op == events.operators.end() ? std::string{} : op->second.name;
  made.kind = kind_of_kernel(kernel.name, op_name);
  if (!kernel.collective.empty()) {
    made.kind = OpKind::collective;
    made.collective = collective_of(kernel.collective);
    made.bytes =
        bytes_of(std::max(kernel.in_elements, kernel.out_elements), element_bytes(kernel.dtype));
  } else if (made.kind == OpKind::gemm && op != events.operators.end()) {
    if (const std::optional<Kernel> product = product_of(op->second)) {
      made.m = product->m;
      made.n = product->n;
      made.k = product->k;
      made.batch = product->batch;
    }
  }
  return made;
}

// The kernels and copies that were launched within [begin, end) on the host.
std::vector<TraceKernel> launched_within(const TraceEvents& events, double begin, double end) {
  std::set<std::int64_t> launched;
  for (const auto& [thread, launches] : events.launches)
    for (const TraceLaunch& launch : launches)
      if (launch.correlation >= 0 && launch.at >= begin && launch.at < end)
        launched.insert(launch.correlation);
  std::vector<TraceKernel> kernels;
  for (const auto* list : {&events.kernels, &events.copies})
    for (const TraceKernel& kernel : *list)
      if (launched.count(kernel.correlation) > 0) kernels.push_back(kernel);
  return kernels;
}

TracedKernel traced(const TraceSlice& slice, double first) {
  TracedKernel made;
  made.name = slice.name;
  made.stream = slice.thread;
  made.begin = time_of(slice.at - first);
  made.end = time_of(slice.at - first + slice.microseconds);
  made.op = slice.op;
  made.kind = kind_of_kernel(slice.name, {});
  if (!slice.operation.empty()) {
    made.kind = OpKind::collective;
    for (const auto& known : words_of(CollectiveKind{}))
      if (known.text == slice.operation) made.collective = known.value;
    made.bytes = bytes_of(slice.bytes, 1);
  } else if (slice.bytes >= 0) {
    made.kind = OpKind::send;
    made.bytes = Bytes{slice.bytes};
  } else if (slice.m > 0) {
    made.kind = OpKind::gemm;
    made.m = slice.m;
    made.n = slice.n;
    made.k = slice.k;
    made.batch = slice.batch;
  }
  return made;
}

// The ranks of a trace that Stepcast wrote; all have one clock.
std::vector<TracedRank> ranks_of(const std::vector<TraceSlice>& slices, const std::string& name) {
  const double first = slices.front().at;
  std::map<std::int64_t, TracedRank> ranks;
  for (const TraceSlice& slice : slices) {
    check_length(slice.at - first + slice.microseconds, name);
    if (slice.process < 0 || slice.process > most_ranks)
      throw InputError{
          SourcePosition{name, 0, 0},
          fmt::format("a process is {}; expected a rank, 0 to {}", slice.process, most_ranks)};
    TracedRank& rank = ranks[slice.process];
    rank.rank = {static_cast<std::uint32_t>(slice.process)};
    rank.kernels.push_back(traced(slice, first));
  }
  std::vector<TracedRank> list;
  list.reserve(ranks.size());
  for (auto& [process, rank] : ranks)
    list.push_back(std::move(rank));
  return list;
}

struct Chosen {
  std::string step;
  std::vector<TraceKernel> kernels;
};

Chosen choose(const TraceEvents& events, std::optional<int> wanted, const std::string& name) {
  Chosen chosen;
  if (events.steps.empty()) {
    if (wanted) throw InputError{SourcePosition{name, 0, 0}, "the trace marks no steps"};
    chosen.kernels = events.kernels;
    chosen.kernels.insert(chosen.kernels.end(), events.copies.begin(), events.copies.end());
  }
  std::string numbers;
  for (const TraceStep& step : events.steps) {
    numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", step.number);
    if (wanted && step.number != *wanted) continue;
    std::vector<TraceKernel> kernels = launched_within(events, step.begin, step.end);
    if (kernels.empty()) continue;
    chosen = {fmt::format("ProfilerStep#{}", step.number), std::move(kernels)};
  }
  if (chosen.kernels.empty())
    throw InputError{SourcePosition{name, 0, 0},
                     wanted ? fmt::format("no kernels of step {}; marked are {}", *wanted,
                                          numbers.empty() ? "none" : numbers)
                            : std::string{"the trace has no kernels: was the profiler told to "
                                          "record CUDA activities?"}};
  std::stable_sort(chosen.kernels.begin(), chosen.kernels.end(),
                   [](const TraceKernel& a, const TraceKernel& b) { return a.at < b.at; });
  return chosen;
}

// The ranks of one file. `place`: which of the files, where it does not say the rank.
std::vector<TracedRank> ranks_of(const TraceEvents& events, std::optional<int> wanted,
                                 const std::string& name, std::size_t place, std::string& step) {
  const bool profiled = !events.kernels.empty() || !events.copies.empty();
  if (!profiled && !events.slices.empty() && !wanted) return ranks_of(events.slices, name);
  const Chosen chosen = choose(events, wanted, name);
  TracedRank rank;
  rank.rank = {static_cast<std::uint32_t>(events.rank.value_or(static_cast<int>(place)))};
  const double first = chosen.kernels.front().at;
  for (const TraceKernel& kernel : chosen.kernels) {
    check_length(kernel.at - first + kernel.microseconds, name);
    rank.kernels.push_back(traced(kernel, events, first));
  }
  step = chosen.step;
  return {std::move(rank)};
}

void add(TracedTimeline& timeline, TracedRank rank) {
  for (const TracedKernel& kernel : rank.kernels)
    timeline.end = std::max(timeline.end, kernel.end);
  timeline.ranks.push_back(std::move(rank));
}

}  // namespace

OpKind kind_of_kernel(std::string_view name, std::string_view op) {
  std::string text = fmt::format("{} {}", name, op);
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (const KindWord& known : kind_words)
    if (text.find(known.word) != std::string::npos) return known.kind;
  return OpKind::elementwise;
}

TracedTimeline parse_traces(const std::vector<KinetoTrace>& traces, std::optional<int> step) {
  TracedTimeline timeline;
  std::set<RankId> known;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const TraceEvents events = scan_kineto(traces[i].text, traces[i].name);
    if (timeline.device.empty()) timeline.device = events.device;
    for (TracedRank& rank : ranks_of(events, step, traces[i].name, i, timeline.step)) {
      if (!known.insert(rank.rank).second)
        throw InputError{SourcePosition{traces[i].name, 0, 0},
                         fmt::format("a second trace of rank {}", rank.rank.value)};
      add(timeline, std::move(rank));
    }
  }
  std::sort(timeline.ranks.begin(), timeline.ranks.end(),
            [](const TracedRank& a, const TracedRank& b) { return a.rank < b.rank; });
  return timeline;
}

TracedTimeline read_traces(const std::vector<std::string>& paths, std::optional<int> step) {
  std::vector<KinetoTrace> traces;
  traces.reserve(paths.size());
  for (const std::string& path : paths)
    traces.push_back({path, load_text(path, largest_trace_read)});
  return parse_traces(traces, step);
}

}  // namespace sim
