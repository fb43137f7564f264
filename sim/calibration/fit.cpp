#include "sim/calibration/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/base/table_text.hpp"
#include "sim/calibration/statistics.hpp"
#include "sim/config/yaml_text.hpp"

namespace sim {
namespace {

using Rows = std::vector<KernelMeasurement>;

// Their keys in a device file.
constexpr std::array<std::pair<AttentionKernel, std::string_view>, 3> flash_keys{
    {{AttentionKernel::flash, "attention"},
     {AttentionKernel::flash_1, "flash_attention_1"},
     {AttentionKernel::flash_2, "flash_attention_2"}}};

// Points without shape or time would divide by zero in the model.
void check_point(const MeasuredKernel& point) {
  const Kernel& kernel = point.kernel;
  const bool shaped = kernel.kind == OpKind::gemm || kernel.kind == OpKind::attention;
  const bool sized = kernel.m > 0 && kernel.n > 0 && kernel.k > 0 && kernel.batch > 0;
  const bool heads = kernel.kind != OpKind::attention || kernel.heads > 0;
  if (!runs_kernel(kernel.kind) || kernel.bytes < Bytes{} || point.time <= Duration{} ||
      (shaped && (!sized || !heads)))
    throw InputError(
        SourcePosition{.file = point.source},
        fmt::format("a measured {} kernel has no shape or no time", word(kernel.kind)));
}

// Such a kernel did not do its work. A rank that shares the device may have all of its bandwidth to
// itself for a moment, which is several times its part; and what lies in the L2 cache is quicker.
bool beats_memory(const MeasuredKernel& point, const Device& base) {
  constexpr double most = 8;
  if (base.generation == Generation::cpu || point.kernel.bytes <= base.l2 * 4) return false;
  return static_cast<double>(point.kernel.bytes.count()) >
         most * base.memory_bandwidth.in_bytes_per_second() * to_seconds(point.time);
}

class DeviceFitter {
 public:
  DeviceFitter(const Device& base, const MeasuredMachine& machine) : machine_{machine} {
    result_.base_name = base.name;
    result_.device = base;
    result_.device.measured_kernels.clear();
  }

  DeviceCalibration fit() {
    read_points();
    take_figures();
    if (device().generation == Generation::cpu) scale_core();
    for (const auto& entry : words_of(DType{}))
      fit_products(entry.value);
    fit_attention_kernels();
    fit_memory();
    fit_interference();
    add_measured_kernels();
    return std::move(result_);
  }

 private:
  Device& device() { return result_.device; }
  void origin(const std::string& key, FitProvenance provenance, std::size_t points) {
    result_.origins.push_back({key, provenance, static_cast<int>(points)});
  }
  void residual(const std::string& what, const Rows& rows) {
    if (!rows.empty()) result_.residuals.push_back({what, fit_error(rows, device())});
  }
  template <class Wanted>
  Rows select(Wanted wanted) const {
    Rows rows;
    std::copy_if(rows_.begin(), rows_.end(), std::back_inserter(rows), wanted);
    return rows;
  }

  void read_points() {
    for (const MeasuredKernel& point : machine_.kernels) {
      check_point(point);
      if (beats_memory(point, device())) {
        result_.notes.push_back(
            fmt::format("a {} kernel in {} that moves {} took {}: faster than the memory",
                        word(point.kernel.kind), word(point.kernel.dtype),
                        yaml_bytes(point.kernel.bytes), precise(point.time)));
        continue;
      }
      KernelMeasurement row;
      row.kind = word(point.kernel.kind);
      row.kernel = point.kernel;
      row.median = point.time;
      row.load = point.load;
      row.sms = point.sms;  // 0: set when the number of SMs is known
      rows_.push_back(std::move(row));
    }
  }

  // Figures that stand for themselves.
  void take_figures() {
    Device& d = device();
    d.name = machine_.device.empty() ? d.name : machine_.device;
    if (!machine_.host.empty()) d.name += " of " + machine_.host;
    if (machine_.sms) d.sms = *machine_.sms, origin("sms", FitProvenance::measured, 1);
    if (machine_.memory) d.memory = *machine_.memory, origin("memory", FitProvenance::measured, 1);
    if (machine_.reserved) {
      reserve_ = *machine_.reserved;
      d.reserved = reserve_.context + reserve_.nccl + reserve_.libraries;
      origin("reserved", FitProvenance::measured, 1);
    }
    if (machine_.host_issue) {
      d.host_issue = *machine_.host_issue;
      origin("host_issue", FitProvenance::measured, 1);
    }
    if (machine_.gaps) take_gaps(*machine_.gaps);
    for (KernelMeasurement& row : rows_) {
      if (row.sms == 0) row.sms = d.sms;
      if (row.sms > d.sms)
        throw InputError(
            SourcePosition{.file = d.name},
            fmt::format("a kernel was measured on {} SMs, but the device has {}", row.sms, d.sms));
    }
  }

  void take_gaps(const MeasuredGaps& gaps) {
    if (std::max(std::abs(gaps.issued), std::abs(gaps.replayed)) > to_seconds(most_kernel_gap)) {
      result_.notes.push_back(
          fmt::format("kernel_gaps: {:.3g} and {:.3g} s are no gaps", gaps.issued, gaps.replayed));
      return;
    }
    device().issued_gap = Duration{std::llround(gaps.issued * 1e12)};
    device().replayed_gap = Duration{std::llround(gaps.replayed * 1e12)};
    origin("kernel_gaps", FitProvenance::measured, 1);
  }

  // A core has no data sheet: its peak and its bandwidth are the best that was measured, which the
  // shares of the model then refer to.
  void scale_core() {
    Device& d = device();
    for (const auto& entry : words_of(DType{})) {
      auto& model = d.gemm[static_cast<std::size_t>(entry.value)];
      double best = 0;
      for (const KernelMeasurement& row : rows_)
        if (row.kernel.kind == OpKind::gemm && row.kernel.dtype == entry.value)
          best = std::max(best, gemm_flops(row.kernel) / to_seconds(row.median));
      if (best == 0 || !model) continue;
      model->peak = FlopRate::per_second(best);
      origin(fmt::format("gemm.{}.peak", entry.text), FitProvenance::measured, 1);
    }
    double bandwidth = 0;
    for (const KernelMeasurement& row : rows_)
      if (row.kernel.kind != OpKind::gemm && row.kernel.kind != OpKind::attention)
        bandwidth = std::max(
            bandwidth, static_cast<double>(row.kernel.bytes.count()) / to_seconds(row.median));
    if (bandwidth == 0) return;
    d.memory_bandwidth = d.memory_kernels.per_sm = Bandwidth::bytes_per_second(bandwidth);
    d.l2_bandwidth = std::max(d.l2_bandwidth, d.memory_bandwidth);
    origin("memory_bandwidth", FitProvenance::measured, 1);
  }

  void fit_products(DType dtype) {
    const Rows rows = select([dtype](const KernelMeasurement& row) {
      return row.kernel.kind == OpKind::gemm && row.kernel.dtype == dtype;
    });
    if (rows.empty()) return;
    if (!device().gemm_model(dtype)) {
      result_.notes.push_back(fmt::format("{} products in {}: {} has no model of that format",
                                          rows.size(), word(dtype), result_.base_name));
      return;
    }
    const std::string key = fmt::format("gemm.{}", word(dtype));
    if (rows.size() < product_parameters) {
      result_.notes.push_back(fmt::format("{}: {} points are too few for its {} parameters", key,
                                          rows.size(), product_parameters));
    } else {
      device() = fit_gemm(device(), dtype, FitScope::product, rows);
      origin(key, FitProvenance::fitted, rows.size());
    }
    residual(key, rows);
  }

  void fit_attention_kernels() {
    for (const auto& [implementation, key_text] : flash_keys) {
      const Rows rows = select([of = implementation](const KernelMeasurement& row) {
        return row.kernel.kind == OpKind::attention && row.kernel.attention == of;
      });
      if (rows.empty()) continue;
      const std::string key{key_text};
      if (!device().gemm_model(rows.front().kernel.dtype)) {
        result_.notes.push_back(key + ": the device has no model of its format");
        continue;
      }
      static_cast<void>(attention_rates(device(), implementation));
      if (rows.size() < attention_parameters) {
        result_.notes.push_back(fmt::format("{}: {} points are too few for its {} parameters", key,
                                            rows.size(), attention_parameters));
      } else {
        device() = fit_attention(device(), rows);
        origin(key, FitProvenance::fitted, rows.size());
      }
      for (const AttentionPart part : {AttentionPart::forward, AttentionPart::backward}) {
        Rows of_part;
        for (const KernelMeasurement& row : rows)
          if (row.kernel.part == part) of_part.push_back(row);
        residual(key + (part == AttentionPart::forward ? " forward" : " backward"), of_part);
      }
    }
  }

  void fit_memory() {
    const Rows rows = select([](const KernelMeasurement& row) {
      const bool products = row.kernel.kind == OpKind::gemm ||
                            row.kernel.kind == OpKind::attention ||
                            row.kernel.kind == OpKind::scan ||
                            (row.kernel.kind == OpKind::generic && row.kernel.flops > Flops{});
      return !products && row.kernel.bytes > Bytes{};
    });
    std::map<std::string, Rows> of_kind;
    for (const KernelMeasurement& row : rows)
      of_kind[memory_kind(row.kernel)].push_back(row);
    if (rows.empty()) return;
    if (rows.size() < of_kind.size() + 1) {
      result_.notes.emplace_back("memory_kernels: too few points for the kinds that were measured");
    } else {
      device() = fit_memory_kernels(device(), rows);
      origin("memory_kernels.fixed", FitProvenance::fitted, rows.size());
      for (const auto& [kind, of_it] : of_kind)
        origin("memory_kernels." + kind, FitProvenance::fitted, of_it.size());
    }
    for (const auto& [kind, of_it] : of_kind)
      residual("memory_kernels." + kind, of_it);
  }

  // While a collective is under way, kernels run at 1 - share of their speed: of the time that both
  // are there, that share is lost to them.
  void fit_interference() {
    std::vector<double> shares;
    for (const MeasuredInterference& point : machine_.interference) {
      const double both =
          std::min(to_seconds(point.collective_beside), to_seconds(point.kernels_beside));
      if (both <= 0 || point.kernels_alone <= Duration{}) continue;
      const double lost = to_seconds(point.kernels_beside) - to_seconds(point.kernels_alone);
      shares.push_back(std::clamp(lost / both, 0.0, 1.0));
    }
    if (shares.empty()) return;
    device().communication_share = median_of(shares);
    origin("communication.compute_share", FitProvenance::fitted, shares.size());
  }

  // Exactly these kernels, on the whole device and under the conditions of a step.
  void add_measured_kernels() {
    std::map<KernelShape, std::vector<double>> times;
    for (const KernelMeasurement& row : rows_)
      if (row.load == Load::step && row.sms == device().sms)
        times[shape_of(row.kernel)].push_back(to_seconds(row.median));
    for (auto& [shape, of_it] : times)
      device().measured_kernels.push_back({shape, duration_from_seconds(median_of(of_it))});
    if (!times.empty()) origin("measured_kernels", FitProvenance::measured, times.size());
  }

  static double gemm_flops(const Kernel& k) {
    return 2.0 * static_cast<double>(k.m) * static_cast<double>(k.n) * static_cast<double>(k.k) *
           static_cast<double>(k.batch);
  }

  const MeasuredMachine& machine_;
  Rows rows_;
  MeasuredReserve reserve_;
  DeviceCalibration result_;
};

}  // namespace

DeviceCalibration calibrate_device(const Device& base, const MeasuredMachine& machine) {
  return DeviceFitter{base, machine}.fit();
}

Device host_base_device() {
  const auto gigabytes = [](double value) { return Bandwidth::bytes_per_second(value * 1e9); };
  const Duration call = std::chrono::microseconds(1);
  Device device;
  device.name = "one core of a host";
  device.generation = Generation::cpu;
  device.sms = 1;
  device.memory = Bytes{std::int64_t{4} << 30};
  device.l2 = Bytes{std::int64_t{1} << 20};
  device.memory_bandwidth = device.memory_kernels.per_sm = gigabytes(10);
  device.tdp_watts = 10;
  device.burst_half = call;
  device.l2_bandwidth = gigabytes(100);
  // No shared memory to feed: the tile term alone counts.
  device.operand_feed_sm = device.operand_feed = gigabytes(1e6);
  device.gemm[static_cast<std::size_t>(DType::fp32)] = GemmModel{.peak = FlopRate::per_second(20e9),
                                                                 .attained = 1,
                                                                 .sustained = 1,
                                                                 .ramp_k = 8,
                                                                 .fixed = call};
  device.attention = {.kernels = "Eigen",
                      .forward_attained = 0.3,
                      .backward_attained = 0.3,
                      .ramp_tokens = 16,
                      .ramp_head_dim = 16,
                      .causal_efficiency = 1,
                      .fixed = call};
  device.memory_kernels.elementwise = device.memory_kernels.norm_forward =
      device.memory_kernels.norm_backward = device.memory_kernels.softmax =
          device.memory_kernels.optimizer = 0.3;
  device.memory_kernels.gemm = 1;
  device.memory_kernels.fixed = call;
  device.communication_share = 1;
  device.origin =
      "round figures of one core, to be calibrated; messages are moved by the thread that runs the "
      "kernels (compute_share 1)";
  return device;
}

std::string residual_table(const DeviceCalibration& fit) {
  std::string text = fmt::format("{:<28} {:>6} {:>8} {:>8} {:>8} {:>8}\n", "error of formula, %",
                                 "points", "median", "p90", "worst", "bias");
  for (const FitResidual& row : fit.residuals)
    text += fmt::format("{:<28} {:>6} {:>8.1f} {:>8.1f} {:>8.1f} {:>+8.1f}\n", row.what,
                        row.error.rows, row.error.median * 100, row.error.p90 * 100,
                        row.error.worst * 100, row.error.bias * 100);
  return text;
}

}  // namespace sim
