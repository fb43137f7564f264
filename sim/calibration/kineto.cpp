#include "sim/calibration/kineto.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/base/input_error.hpp"
#include "sim/calibration/statistics.hpp"
#include "sim/trace/collective_words.hpp"
#include "sim/trace/read_trace.hpp"

namespace sim {
namespace {

constexpr const char* profiler = "PyTorch profiler";
// Kernels shorter than this are mostly launch; bandwidth is not what they show.
constexpr Bytes least_bytes{std::int64_t{1} << 20};
constexpr std::int64_t most_elements = 1'000'000'000'000'000;

// "AMD" by HIP, by the name of the GPU or by a warp of 64 threads.
std::string maker_of(const TracedDevice& device) {
  const auto named = [&](const char* word) { return device.name.find(word) != std::string::npos; };
  if (device.hip || device.warp == 64 || named("AMD") || named("Instinct") || named("Radeon"))
    return "AMD";
  return named("NVIDIA") || named("Tesla") || device.warp == 32 ? "NVIDIA" : "";
}

class Collector {
 public:
  explicit Collector(const KinetoHints& hints) : hints_{hints} {}

  void add(const TracedRun& trace, const std::string& name) {
    if (trace.on_host)
      throw InputError{SourcePosition{.file = name},
                       "the trace has no kernels of a GPU: was the profiler told to record CUDA "
                       "activities?"};
    files_ += (files_.empty() ? "PyTorch trace " : ", ") + name;
    if (result_.machine.device.empty()) result_.machine.device = trace.device.name;
    if (trace.device.multiprocessors > 0) result_.machine.sms = trace.device.multiprocessors;
    add_maker(trace, name);
    for (const std::string& version : trace.versions)
      if (version.starts_with("CUDA") && versions_.insert(version).second)
        result_.machine.versions.push_back(version);
    if (trace.maker != profiler) return;
    for (const RunRank& rank : trace.ranks) {
      add_kernels(trace, rank);
      add_collectives(trace, rank);
      add_launches(trace, rank);
    }
  }

  KinetoResult finish() {
    for (auto& [shape, of_it] : kernels_)
      result_.machine.kernels.push_back({.kernel = of_it.kernel,
                                         .time = duration_from_seconds(median_of(of_it.seconds)),
                                         .load = Load::step,
                                         .sms = 0,
                                         .samples = static_cast<int>(of_it.seconds.size()),
                                         .source = files_});
    finish_collectives();
    if (!gaps_.empty()) {
      // Most gaps hold more of Python and of the profiler than of one launch: the lower quartile.
      result_.machine.host_issue = duration_from_seconds(quantile_of(gaps_, 0.25));
      note(fmt::format(
          "host_issue is the lower quartile of {} gaps between launches, the profiler's "
          "own cost in it",
          gaps_.size()));
    }
    if (unmatched_ > 0)
      note(
          fmt::format("{} kernels belong to no operator with shapes (record_shapes=True) that is "
                      "known",
                      unmatched_));
    if (result_.machine.kernels.empty() && result_.machine.collectives.empty() && gaps_.empty())
      throw InputError(SourcePosition{.file = files_},
                       "nothing to measure: no kernels with shapes, no collectives, no launches");
    return std::move(result_);
  }

 private:
  struct Samples {
    Kernel kernel;
    std::vector<double> seconds;
  };
  // A call of a collective: name, bytes, ranks, process group, nodes; and which of them.
  using Call = std::tuple<std::string, std::int64_t, int, std::string, int>;

  void note(const std::string& text) { result_.notes.push_back(text); }

  void add_maker(const TracedRun& trace, const std::string& name) {
    const std::string maker = maker_of(trace.device);
    if (maker.empty()) return;
    MeasuredMachine& machine = result_.machine;
    if (!machine.maker.empty() && machine.maker != maker)
      throw InputError(
          SourcePosition{.file = name},
          fmt::format("is of a GPU of {}, the traces before it of {}", maker, machine.maker));
    machine.maker = maker;
    if (maker == "NVIDIA") machine.capability = trace.device.capability;
  }

  // The metadata of a kernel's collective; nullptr: none.
  static const CollectiveCall* told_call(const RunRank& rank, const DeviceActivity& kernel) {
    if (kernel.what != DeviceActivity::What::kernel || kernel.call == not_told) return nullptr;
    const CollectiveCall& call = rank.calls[static_cast<std::size_t>(kernel.call)];
    return call.operation == 0 ? nullptr : &call;
  }

  // All kernels of one operator are its time: a split product has two.
  void add_kernels(const TracedRun& trace, const RunRank& rank) {
    struct OfOperator {
      Duration time{};
      bool tf32 = false;
      std::int32_t work = not_told;
    };
    std::map<std::int64_t, OfOperator> operators;
    for (const DeviceActivity& kernel : rank.device) {
      if (kernel.what != DeviceActivity::What::kernel || told_call(rank, kernel)) continue;
      OfOperator& sum = operators[kernel.operator_id];
      sum.time += kernel.time();
      sum.tf32 = sum.tf32 || trace.names[kernel.name].find("tf32") != std::string::npos;
      sum.work = kernel.work;
    }
    for (const auto& [id, sum] : operators) {
      std::optional<Kernel> kernel;
      if (sum.work != not_told) kernel = rank.works[static_cast<std::size_t>(sum.work)];
      if (kernel && kernel->kind != OpKind::gemm && kernel->bytes < least_bytes) kernel.reset();
      if (!kernel || sum.time <= Duration{}) {
        ++unmatched_;
        continue;
      }
      if (kernel->kind == OpKind::gemm && kernel->dtype == DType::fp32 && sum.tf32)
        kernel->dtype = DType::tf32;
      Samples& samples = kernels_[shape_of(*kernel)];
      samples.kernel = *kernel;
      samples.seconds.push_back(to_seconds(sum.time));
    }
  }

  void add_collectives(const TracedRun& trace, const RunRank& rank) {
    std::map<Call, std::size_t> next;
    for (const DeviceActivity& kernel : rank.device) {
      const CollectiveCall* told = told_call(rank, kernel);
      if (!told) continue;
      const TracedGroup group = told->group == not_told
                                    ? TracedGroup{}
                                    : trace.groups[static_cast<std::size_t>(told->group)];
      const std::string name = collective_name(trace.names[told->operation]);
      const int element = element_bytes(trace.names[told->dtype]);
      const std::int64_t count = name == "all_gather" ? told->out_elements : told->in_elements;
      const int ranks = name == "send_receive" ? 2 : group.size;
      if (name.empty() || element == 0 || count <= 0 || count > most_elements || ranks < 2 ||
          kernel.time() <= Duration{}) {
        ++odd_collectives_;
        continue;
      }
      const Call call{name, count * element, ranks, group.name, nodes_of(group, ranks)};
      const std::size_t index = next[call]++;
      auto& calls = collectives_[call];
      if (index >= calls.size()) calls.resize(index + 1);
      calls[index].push_back(to_seconds(kernel.time()));
    }
  }

  int nodes_of(const TracedGroup& group, int ranks) const {
    if (!hints_.gpus_per_node) return 0;
    std::set<std::uint32_t> nodes;
    for (const RankId rank : group.ranks)
      nodes.insert(rank.value / static_cast<std::uint32_t>(*hints_.gpus_per_node));
    if (!nodes.empty()) return static_cast<int>(nodes.size());
    return (ranks + *hints_.gpus_per_node - 1) / *hints_.gpus_per_node;
  }

  void finish_collectives() {
    if (odd_collectives_ > 0)
      note(fmt::format("{} communication kernels without size, group or a known name",
                       odd_collectives_));
    if (!collectives_.empty() && !hints_.gpus_per_node) {
      note("collectives were left out: say how many GPUs a node has (--gpus-per-node)");
      return;
    }
    for (const auto& [call, calls] : collectives_) {
      const auto& [name, bytes, ranks, group, nodes] = call;
      std::vector<double> times;
      std::size_t fewest = SIZE_MAX;
      for (const std::vector<double>& of_ranks : calls) {
        times.push_back(*std::min_element(of_ranks.begin(), of_ranks.end()));
        fewest = std::min(fewest, of_ranks.size());
      }
      if (fewest < static_cast<std::size_t>(ranks) && !warned_) {
        note("fewer traces than ranks: the times of collectives hold waiting for other ranks");
        warned_ = true;
      }
      result_.machine.collectives.push_back({.collective = name,
                                             .ranks = ranks,
                                             .nodes = nodes,
                                             .bytes = Bytes{bytes},
                                             .time = duration_from_seconds(median_of(times)),
                                             .algorithm = "",
                                             .samples = static_cast<int>(times.size()),
                                             .source = files_});
    }
  }

  // Host time per kernel: from one launch to the next on a thread, where nothing but launches lies
  // between.
  void add_launches(const TracedRun& trace, const RunRank& rank) {
    std::map<std::uint32_t, std::optional<TimePoint>> last;  // launch of each thread
    for (const HostSpan& span : rank.host) {
      if (span.what != HostSpan::What::runtime) continue;
      std::optional<TimePoint>& before = last[span.thread];
      const bool kernel = trace.names[span.name].find("LaunchKernel") != std::string::npos;
      if (kernel && before && span.begin > *before)
        gaps_.push_back(to_seconds(span.begin - *before));
      before = kernel ? std::optional{span.begin} : std::nullopt;
    }
  }

  const KinetoHints& hints_;
  KinetoResult result_;
  std::string files_;
  std::set<std::string> versions_;
  std::map<KernelShape, Samples> kernels_;
  std::map<Call, std::vector<std::vector<double>>> collectives_;
  std::vector<double> gaps_;
  int unmatched_ = 0, odd_collectives_ = 0;
  bool warned_ = false;
};

}  // namespace

KinetoResult parse_kineto(const std::vector<KinetoTrace>& traces, const KinetoHints& hints) {
  Collector collector{hints};
  for (const KinetoTrace& trace : traces)
    collector.add(read_trace(*open_text(trace.text, trace.name)), trace.name);
  return collector.finish();
}

KinetoResult read_kineto(const std::vector<std::string>& paths, const KinetoHints& hints) {
  Collector collector{hints};
  for (const std::string& path : paths)
    collector.add(read_trace(*open_file(path)), path);
  return collector.finish();
}

}  // namespace sim
