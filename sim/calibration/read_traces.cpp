#include "sim/calibration/read_traces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "sim/base/input_error.hpp"
#include "sim/config/byte_source.hpp"
#include "sim/trace/read_trace.hpp"

namespace sim {
namespace {

std::size_t place_of(std::int32_t index) {
  return static_cast<std::size_t>(index);
}

TracedKernel traced(const TracedRun& run, const RunRank& rank, const DeviceActivity& activity,
                    TimePoint first, bool profiled) {
  TracedKernel made;
  made.name = run.names[activity.name];
  made.stream = activity.stream;
  made.issued_by = activity.operator_id;
  made.begin = TimePoint{activity.begin - first};
  made.end = TimePoint{activity.end - first};
  made.kind = activity.kind;
  made.op = activity.planned;
  if (activity.call != not_told) {
    const CollectiveCall& call = rank.calls[place_of(activity.call)];
    if (profiled) made.kind = OpKind::collective;  // messages are kernels of NCCL, too
    if (!profiled || call.operation != 0) made.collective = call.kind;
    made.bytes = call.bytes;
  } else if (activity.product != not_told) {
    const Product& product = rank.products[place_of(activity.product)];
    made.m = product.m;
    made.n = product.n;
    made.k = product.k;
    made.batch = product.batch;
  }
  return made;
}

// The activities that were launched within a step on the host.
std::vector<DeviceActivity> launched_within(const RunRank& rank, const StepMark& step) {
  std::vector<DeviceActivity> kernels;
  for (const DeviceActivity& activity : rank.device) {
    if (activity.launch == not_told) continue;
    const TimePoint launched = rank.host[place_of(activity.launch)].begin;
    if (launched >= step.begin && launched < step.end) kernels.push_back(activity);
  }
  return kernels;
}

struct Chosen {
  std::string step;
  std::vector<DeviceActivity> kernels;
};

int number_of(const StepMark& step) {
  int number = 0;
  const std::size_t at = step.name.find('#') + 1;
  std::from_chars(step.name.data() + at, step.name.data() + step.name.size(), number);
  return number;
}

[[noreturn]] void fail_without_kernels(const std::string& name) {
  throw InputError{
      SourcePosition{name, 0, 0},
      "the trace has no kernels of a GPU: was the profiler told to record CUDA activities?"};
}

// `profiled`: by PyTorch, whose marks are on the host; traces of ours are of one step.
Chosen choose(const RunRank& rank, bool profiled, std::optional<int> wanted,
              const std::string& name) {
  Chosen chosen;
  const std::vector<StepMark> marked = profiled ? rank.steps : std::vector<StepMark>{};
  if (marked.empty()) {
    if (wanted) throw InputError{SourcePosition{name, 0, 0}, "the trace marks no steps"};
    chosen.kernels = rank.device;
  }
  std::string numbers;
  for (const StepMark& step : marked) {
    const int number = number_of(step);
    numbers += fmt::format("{}{}", numbers.empty() ? "" : ", ", number);
    if (wanted && number != *wanted) continue;
    std::vector<DeviceActivity> kernels = launched_within(rank, step);
    if (kernels.empty()) continue;
    chosen = {step.name, std::move(kernels)};
  }
  if (chosen.kernels.empty() && wanted)
    throw InputError{SourcePosition{name, 0, 0},
                     fmt::format("no kernels of step {}; marked are {}", *wanted,
                                 numbers.empty() ? "none" : numbers)};
  if (chosen.kernels.empty()) fail_without_kernels(name);
  return chosen;
}

// The ranks of one file. `place`: which of the files, where it does not say the rank.
std::vector<TracedRank> ranks_of(const TracedRun& run, std::optional<int> wanted,
                                 const std::string& name, std::size_t place, std::string& step) {
  if (run.on_host) fail_without_kernels(name);
  std::vector<TracedRank> ranks;
  const bool profiled = run.maker == "PyTorch profiler";
  for (const RunRank& rank : run.ranks) {
    const Chosen chosen = choose(rank, profiled, wanted, name);
    TracedRank made;
    made.rank = rank.rank_told ? rank.rank : RankId{static_cast<std::uint32_t>(place)};
    const TimePoint first = profiled ? chosen.kernels.front().begin : TimePoint{};
    made.kernels.reserve(chosen.kernels.size());
    for (const DeviceActivity& activity : chosen.kernels)
      made.kernels.push_back(traced(run, rank, activity, first, profiled));
    step = chosen.step;
    ranks.push_back(std::move(made));
  }
  return ranks;
}

void add_rank(TracedTimeline& timeline, TracedRank rank) {
  for (const TracedKernel& kernel : rank.kernels)
    timeline.end = std::max(timeline.end, kernel.end);
  timeline.ranks.push_back(std::move(rank));
}

// A trace at a time: what is kept of each is small.
class TimelineMaker {
 public:
  explicit TimelineMaker(std::optional<int> step) : step_{step} {}

  void add(ByteSource& source) {
    const TracedRun run = read_trace(source);
    if (timeline_.device.empty()) timeline_.device = run.device.name;
    for (TracedRank& rank : ranks_of(run, step_, source.name(), place_, timeline_.step)) {
      if (!known_.insert(rank.rank).second)
        throw InputError{SourcePosition{source.name(), 0, 0},
                         fmt::format("a second trace of rank {}", rank.rank.value)};
      add_rank(timeline_, std::move(rank));
    }
    ++place_;
  }

  TracedTimeline finish() {
    std::sort(timeline_.ranks.begin(), timeline_.ranks.end(),
              [](const TracedRank& a, const TracedRank& b) { return a.rank < b.rank; });
    return std::move(timeline_);
  }

 private:
  std::optional<int> step_;
  std::size_t place_ = 0;
  TracedTimeline timeline_;
  std::set<RankId> known_;
};

}  // namespace

TracedTimeline parse_traces(const std::vector<KinetoTrace>& traces, std::optional<int> step) {
  TimelineMaker maker{step};
  for (const KinetoTrace& trace : traces)
    maker.add(*open_text(trace.text, trace.name));
  return maker.finish();
}

TracedTimeline read_traces(const std::vector<std::string>& paths, std::optional<int> step) {
  TimelineMaker maker{step};
  for (const std::string& path : paths)
    maker.add(*open_file(path));
  return maker.finish();
}

}  // namespace sim
