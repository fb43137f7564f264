#include "sim/calibration/kineto.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "sim/base/input_error.hpp"
#include "sim/calibration/kineto_events.hpp"
#include "sim/calibration/statistics.hpp"
#include "sim/config/json_scan.hpp"

namespace sim {
namespace {

constexpr std::size_t largest_trace = std::size_t{1} << 30;
// Kernels shorter than this are mostly launch; bandwidth is not what they show.
constexpr std::int64_t least_bytes = std::int64_t{1} << 20;

std::optional<DType> dtype_of(const std::string& type) {
  if (type == "c10::BFloat16" || type == "BFloat16") return DType::bf16;
  if (type == "c10::Half" || type == "Half") return DType::fp16;
  if (type == "float" || type == "Float") return DType::fp32;
  if (type.find("Float8") != std::string::npos) return DType::fp8;
  return std::nullopt;
}

using Dims = std::vector<std::int64_t>;

double elements(const Dims& dims) {
  double product = dims.empty() ? 0 : 1;
  for (const std::int64_t extent : dims)
    product *= static_cast<double>(extent);
  return product;
}

}  // namespace

// Bytes of an element as NCCL's metadata names it; 0: unknown.
int element_bytes(const std::string& dtype) {
  if (const auto known = dtype_of(dtype)) return bytes_of(*known);
  if (dtype == "Double" || dtype == "Long") return 8;
  if (dtype == "Int") return 4;
  if (dtype == "Short") return 2;
  if (dtype == "Byte" || dtype == "Char" || dtype == "Bool") return 1;
  return 0;
}

// The product of an operator: left [.., m, k] and right [.., k, n]; `linear` has right as [n, k].
std::optional<Kernel> product_of(const TraceOperator& op) {
  const bool biased = op.name == "aten::addmm" || op.name == "aten::baddbmm";
  const bool batched = op.name == "aten::bmm" || op.name == "aten::baddbmm";
  const bool linear = op.name == "aten::linear";
  if (!biased && !batched && !linear && op.name != "aten::mm") return std::nullopt;
  const std::size_t first = biased ? 1 : 0;
  if (op.dims.size() < first + 2 || op.types.size() < first + 2) return std::nullopt;
  const Dims& left = op.dims[first];
  const Dims& right = op.dims[first + 1];
  const std::size_t rank = batched ? 3 : 2;
  if (right.size() != rank || (linear ? left.size() < 2 : left.size() != rank)) return std::nullopt;
  const auto dtype = dtype_of(op.types[first]);
  if (!dtype) return std::nullopt;
  Kernel kernel;
  kernel.kind = OpKind::gemm;
  kernel.dtype = *dtype;
  kernel.batch = batched ? left[0] : 1;
  kernel.k = left.back();
  const double rows = elements(left) / static_cast<double>(std::max<std::int64_t>(1, kernel.k)) /
                      static_cast<double>(std::max<std::int64_t>(1, kernel.batch));
  if (!(rows >= 1 && rows < 1e12)) return std::nullopt;
  kernel.m = static_cast<std::int64_t>(rows);
  kernel.n = linear ? right[0] : right.back();
  const std::int64_t inner = linear ? right[1] : right[rank - 2];
  constexpr std::int64_t most = 1 << 24;
  if (inner != kernel.k || kernel.batch < 1 || kernel.batch > most || kernel.k < 1 ||
      kernel.k > most || kernel.n < 1 || kernel.n > most || kernel.m > most)
    return std::nullopt;
  const double product = static_cast<double>(kernel.m) * static_cast<double>(kernel.n) *
                         static_cast<double>(kernel.batch);
  kernel.flops = Flops{2.0 * product * static_cast<double>(kernel.k)};
  const double bytes = (static_cast<double>(kernel.m + kernel.n) * static_cast<double>(kernel.k) *
                            static_cast<double>(kernel.batch) +
                        product) *
                       bytes_of(kernel.dtype);
  if (bytes > 1e15) return std::nullopt;
  kernel.bytes = Bytes{static_cast<std::int64_t>(bytes)};
  return kernel;
}

namespace {

// Memory-bound operators whose traffic follows from their shapes: how often the largest of their
// tensors is read and written.
struct Streamed {
  const char* name;
  OpKind kind;
  AttentionPart part;
  double passes;
};
constexpr std::array<Streamed, 9> streamed{
    {{"aten::add", OpKind::elementwise, AttentionPart::forward, 3},
     {"aten::add_", OpKind::elementwise, AttentionPart::forward, 3},
     {"aten::mul", OpKind::elementwise, AttentionPart::forward, 3},
     {"aten::mul_", OpKind::elementwise, AttentionPart::forward, 3},
     {"aten::gelu", OpKind::elementwise, AttentionPart::forward, 2},
     {"aten::silu", OpKind::elementwise, AttentionPart::forward, 2},
     {"aten::relu", OpKind::elementwise, AttentionPart::forward, 2},
     {"aten::native_layer_norm", OpKind::norm, AttentionPart::forward, 2},
     {"aten::native_layer_norm_backward", OpKind::norm, AttentionPart::backward, 3}}};

std::optional<Kernel> stream_of(const TraceOperator& op) {
  for (const Streamed& entry : streamed) {
    if (op.name != entry.name || op.dims.empty() || op.types.empty()) continue;
    const auto dtype = dtype_of(op.types[0]);
    // A sum or product with a scalar or a broadcast tensor moves less than three whole ones.
    const bool pair = entry.passes > 2 && entry.kind == OpKind::elementwise;
    if (!dtype || (pair && (op.dims.size() < 2 || op.dims[0] != op.dims[1]))) return std::nullopt;
    const double bytes = elements(op.dims[0]) * bytes_of(*dtype) * entry.passes;
    if (bytes < static_cast<double>(least_bytes) || bytes > 1e15) return std::nullopt;
    Kernel kernel;
    kernel.kind = entry.kind;
    kernel.part = entry.part;
    kernel.dtype = *dtype;
    kernel.bytes = Bytes{static_cast<std::int64_t>(bytes)};
    return kernel;
  }
  return std::nullopt;
}

// "AMD" by HIP, by the name of the GPU or by a warp of 64 threads.
std::string maker_of(const TraceEvents& trace) {
  const auto named = [&](const char* word) { return trace.device.find(word) != std::string::npos; };
  if (trace.calls_hip || trace.warp == 64 || named("AMD") || named("Instinct") || named("Radeon"))
    return "AMD";
  return named("NVIDIA") || named("Tesla") || trace.warp == 32 ? "NVIDIA" : "";
}

class Collector {
 public:
  explicit Collector(const KinetoHints& hints) : hints_{hints} {}

  void add(const TraceEvents& trace, const std::string& name) {
    files_ += (files_.empty() ? "PyTorch trace " : ", ") + name;
    if (result_.machine.device.empty()) result_.machine.device = trace.device;
    if (trace.sms > 0) result_.machine.sms = trace.sms;
    add_maker(trace, name);
    for (const std::string& version : trace.versions)
      if (versions_.insert(version).second) result_.machine.versions.push_back(version);
    add_kernels(trace);
    add_collectives(trace);
    add_launches(trace);
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

  void add_maker(const TraceEvents& trace, const std::string& name) {
    const std::string maker = maker_of(trace);
    if (maker.empty()) return;
    MeasuredMachine& machine = result_.machine;
    if (!machine.maker.empty() && machine.maker != maker)
      throw InputError(
          SourcePosition{.file = name},
          fmt::format("is of a GPU of {}, the traces before it of {}", maker, machine.maker));
    machine.maker = maker;
    if (maker == "NVIDIA") machine.capability = trace.capability;
  }

  // All kernels of one operator are its time: a split product has two.
  void add_kernels(const TraceEvents& trace) {
    std::map<std::int64_t, std::pair<double, bool>> of_operator;  // us, tf32
    for (const TraceKernel& kernel : trace.kernels) {
      if (!kernel.collective.empty()) continue;
      auto& sum = of_operator[kernel.external];
      sum.first += kernel.microseconds;
      sum.second = sum.second || kernel.name.find("tf32") != std::string::npos;
    }
    for (const auto& [external, sum] : of_operator) {
      const auto found = trace.operators.find(external);
      std::optional<Kernel> kernel;
      if (found != trace.operators.end()) {
        kernel = product_of(found->second);
        if (kernel && kernel->dtype == DType::fp32 && sum.second) kernel->dtype = DType::tf32;
        if (!kernel) kernel = stream_of(found->second);
      }
      if (!kernel || sum.first <= 0) {
        ++unmatched_;
        continue;
      }
      Samples& samples = kernels_[shape_of(*kernel)];
      samples.kernel = *kernel;
      samples.seconds.push_back(sum.first * 1e-6);
    }
  }

  void add_collectives(const TraceEvents& trace) {
    std::map<Call, std::size_t> next;
    for (const TraceKernel& kernel : trace.kernels) {
      if (kernel.collective.empty()) continue;
      const std::string name = collective_name(kernel.collective);
      const int element = element_bytes(kernel.dtype);
      const double count =
          static_cast<double>(name == "all_gather" ? kernel.out_elements : kernel.in_elements);
      const int ranks = name == "send_receive" ? 2 : kernel.group_size;
      if (name.empty() || element == 0 || count <= 0 || count > 1e15 || ranks < 2 ||
          kernel.microseconds <= 0) {
        ++odd_collectives_;
        continue;
      }
      const Call call{name, static_cast<std::int64_t>(count) * element, ranks, kernel.group,
                      nodes_of(kernel, ranks)};
      const std::size_t index = next[call]++;
      std::vector<std::vector<double>>& calls = collectives_[call];
      if (index >= calls.size()) calls.resize(index + 1);
      calls[index].push_back(kernel.microseconds * 1e-6);
    }
  }

  int nodes_of(const TraceKernel& kernel, int ranks) const {
    if (!hints_.gpus_per_node) return 0;
    std::set<std::int64_t> nodes;
    for (const std::int64_t rank : kernel.ranks)
      nodes.insert(rank / *hints_.gpus_per_node);
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
  void add_launches(const TraceEvents& trace) {
    for (const auto& [thread, launches] : trace.launches) {
      double last = -1;
      for (const TraceLaunch& launch : launches) {
        if (launch.kernel && last >= 0 && launch.at > last)
          gaps_.push_back((launch.at - last) * 1e-6);
        last = launch.kernel ? launch.at : -1;
      }
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
    collector.add(scan_kineto(trace.text, trace.name), trace.name);
  return collector.finish();
}

KinetoResult read_kineto(const std::vector<std::string>& paths, const KinetoHints& hints) {
  Collector collector{hints};
  for (const std::string& path : paths) {
    const std::string text = load_text(path, largest_trace);
    collector.add(scan_kineto(text, path), path);
  }
  return collector.finish();
}

}  // namespace sim
