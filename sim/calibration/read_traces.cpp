#include "sim/calibration/read_traces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "sim/base/input_error.hpp"
#include "sim/calibration/kineto_events.hpp"
#include "sim/config/json_scan.hpp"

namespace sim {
namespace {

constexpr std::size_t largest_file = std::size_t{1} << 30;

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
        Bytes{std::max(kernel.in_elements, kernel.out_elements) * element_bytes(kernel.dtype)};
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
  std::set<std::uint32_t> ranks;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const TraceEvents events = scan_kineto(traces[i].text, traces[i].name);
    const Chosen chosen = choose(events, step, traces[i].name);
    TracedRank rank;
    rank.rank = {static_cast<std::uint32_t>(events.rank.value_or(static_cast<int>(i)))};
    if (!ranks.insert(rank.rank.value).second)
      throw InputError{SourcePosition{traces[i].name, 0, 0},
                       fmt::format("a second trace of rank {}", rank.rank.value)};
    const double first = chosen.kernels.front().at;
    for (const TraceKernel& kernel : chosen.kernels) {
      rank.kernels.push_back(traced(kernel, events, first));
      timeline.end = std::max(timeline.end, rank.kernels.back().end);
    }
    timeline.step = chosen.step;
    if (timeline.device.empty()) timeline.device = events.device;
    timeline.ranks.push_back(std::move(rank));
  }
  std::sort(timeline.ranks.begin(), timeline.ranks.end(),
            [](const TracedRank& a, const TracedRank& b) { return a.rank < b.rank; });
  return timeline;
}

TracedTimeline read_traces(const std::vector<std::string>& paths, std::optional<int> step) {
  std::vector<KinetoTrace> traces;
  for (const std::string& path : paths)
    traces.push_back({path, load_text(path, largest_file)});
  return parse_traces(traces, step);
}

}  // namespace sim
