#include "sim/calibration/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "sim/calibration/divided_rows.hpp"
#include "sim/calibration/statistics.hpp"

namespace sim {
namespace {

using Rows = std::vector<KernelMeasurement>;

// Their keys in a device file.
constexpr std::array<std::pair<AttentionKernel, std::string_view>, 3> flash_keys{
    {{AttentionKernel::flash, "attention"},
     {AttentionKernel::flash_1, "flash_attention_1"},
     {AttentionKernel::flash_2, "flash_attention_2"}}};

class DeviceFitter {
 public:
  DeviceFitter(const Device& base, const MeasuredMachine& machine) : machine_{machine} {
    result_.base_name = base.name;
    result_.device = base;
    result_.device.measured_kernels.clear();
  }

  DeviceCalibration fit() {
    take_figures();
    rows_ = divide_rows(machine_.kernels, device());
    result_.notes.insert(result_.notes.end(), rows_.notes.begin(), rows_.notes.end());
    if (device().generation == Generation::cpu) scale_core();
    for (const auto& entry : words_of(DType{}))
      fit_products(entry.value);
    fit_shares();
    fit_grouped_products();
    fit_attention_kernels();
    fit_memory();
    check_others();
    fit_interference();
    add_measured_kernels();
    return std::move(result_);
  }

 private:
  Device& device() { return result_.device; }
  void origin(const std::string& key, FitProvenance provenance, std::size_t points) {
    result_.origins.push_back({key, provenance, static_cast<int>(points)});
  }
  // Of the points of a fit, and of those like them that it did not see.
  template <class Wanted>
  void residual(const std::string& what, Wanted wanted) {
    add_residual(what, select(wanted));
    add_residual(what + ", held out", select(wanted, rows_.held_out));
  }
  void add_residual(const std::string& what, const Rows& rows) {
    if (!rows.empty()) result_.residuals.push_back({what, fit_error(rows, device())});
  }
  template <class Wanted>
  static Rows select(Wanted wanted, const Rows& from) {
    Rows rows;
    std::copy_if(from.begin(), from.end(), std::back_inserter(rows), wanted);
    return rows;
  }
  template <class Wanted>
  Rows select(Wanted wanted) const {
    return select(wanted, rows_.fitted);
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
      for (const KernelMeasurement& row : rows_.fitted)
        if (row.kernel.kind == OpKind::gemm && row.kernel.dtype == entry.value)
          best = std::max(best, gemm_flops(row.kernel) / to_seconds(row.median));
      if (best == 0 || !model) continue;
      model->peak = FlopRate::per_second(best);
      origin(fmt::format("gemm.{}.peak", entry.text), FitProvenance::measured, 1);
    }
    double bandwidth = 0;
    for (const KernelMeasurement& row : rows_.fitted)
      if (row.kernel.kind != OpKind::gemm && row.kernel.kind != OpKind::attention)
        bandwidth = std::max(
            bandwidth, static_cast<double>(row.kernel.bytes.count()) / to_seconds(row.median));
    if (bandwidth == 0) return;
    d.memory_bandwidth = d.memory_kernels.per_sm = Bandwidth::bytes_per_second(bandwidth);
    d.l2_bandwidth = std::max(d.l2_bandwidth, d.memory_bandwidth);
    origin("memory_bandwidth", FitProvenance::measured, 1);
  }

  void fit_products(DType dtype) {
    const auto wanted = [dtype](const KernelMeasurement& row) {
      return row.kernel.kind == OpKind::gemm && row.kernel.dtype == dtype && is_plain(row.kernel);
    };
    const Rows rows = select(wanted);
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
      const bool shared =
          dtype == DType::bf16 && rows.size() >= grid_points && rows_.listed.empty();
      device() = fit_gemm(device(), dtype,
                          shared ? FitScope::product_and_memory : FitScope::product, rows);
      origin(key, FitProvenance::fitted, rows.size());
      if (shared)
        for (const char* of_all : {"operand_feed", "memory_kernels.gemm", "memory_kernels.per_sm"})
          origin(of_all, FitProvenance::fitted, rows.size());
    }
    residual(key, wanted);
  }
  // A table of shapes of all sizes (sim/cost/README.md: 11 parameters) tells the rates at which
  // operands are read, too; the shapes of one plan do not.
  static constexpr std::size_t grid_points = 100;

  // With rates of their dtype alone.
  static bool is_plain(const Kernel& kernel) {
    return kernel.scales == ProductScales::tensors && kernel.grouping == Grouping::none &&
           (kernel.part == AttentionPart::forward || kernel.dtype != DType::fp8);
  }

  // Shares of 8-bit products, behind their plain ones.
  void fit_shares() {
    constexpr std::array keys{"gemm.fp8.gradient_share", "gemm.fp8.block_share",
                              "gemm.fp8.row_share", "gemm.fp8.micro_share"};
    for (const ProductScales scales : {ProductScales::tensors, ProductScales::blocks,
                                       ProductScales::rows, ProductScales::micro}) {
      const auto wanted = [scales](const KernelMeasurement& row) {
        return row.kernel.kind == OpKind::gemm && row.kernel.dtype == DType::fp8 &&
               row.kernel.scales == scales && row.kernel.grouping == Grouping::none &&
               !is_plain(row.kernel);
      };
      const Rows rows = select(wanted);
      if (rows.empty() || !device().gemm_model(DType::fp8)) continue;
      device() = fit_block_share(device(), scales, rows);
      const char* const key = keys[static_cast<std::size_t>(scales)];
      origin(key, FitProvenance::fitted, rows.size());
      residual(key, wanted);
    }
  }

  void fit_grouped_products() {
    for (const Grouping grouping : {Grouping::rows, Grouping::depth}) {
      const auto wanted = [grouping](const KernelMeasurement& row) {
        return row.kernel.kind == OpKind::gemm && row.kernel.grouping == grouping;
      };
      const Rows rows = select(wanted);
      if (rows.size() < product_parameters || !device().gemm_model(DType::bf16)) continue;
      device() = fit_grouped(device(), grouping, rows);
      const std::string key =
          grouping == Grouping::rows ? "grouped_gemm.rows" : "grouped_gemm.depth";
      origin(key, FitProvenance::fitted, rows.size());
      residual(key, wanted);
    }
  }

  // Kinds that are measured and have no parameter of their own.
  void check_others() {
    std::map<std::string, Rows> of_kind;
    for (const KernelMeasurement& row : rows_.checked)
      of_kind[row.kind].push_back(row);
    for (const auto& [kind, rows] : of_kind)
      add_residual(kind + ", not fitted", rows);
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
      for (const AttentionPart part : {AttentionPart::forward, AttentionPart::backward})
        residual(key + (part == AttentionPart::forward ? " forward" : " backward"),
                 [part, of = implementation](const KernelMeasurement& row) {
                   return row.kernel.kind == OpKind::attention && row.kernel.attention == of &&
                          row.kernel.part == part;
                 });
    }
  }

  static bool is_bound_by_memory(const KernelMeasurement& row) {
    const bool products = row.kernel.kind == OpKind::gemm || row.kernel.kind == OpKind::attention ||
                          row.kernel.kind == OpKind::scan ||
                          (row.kernel.kind == OpKind::generic && row.kernel.flops > Flops{});
    return !products && row.kernel.bytes > Bytes{};
  }

  void fit_memory() {
    const Rows rows = select(is_bound_by_memory);
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
    for (const auto& entry : of_kind)
      residual("memory_kernels." + entry.first, [&entry](const KernelMeasurement& row) {
        return is_bound_by_memory(row) && memory_kind(row.kernel) == entry.first;
      });
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
    for (const KernelMeasurement& row : rows_.listed)
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
  DividedRows rows_;
  MeasuredReserve reserve_;
  DeviceCalibration result_;
};

}  // namespace

DeviceCalibration calibrate_device(const Device& base, const MeasuredMachine& machine) {
  return DeviceFitter{base, machine}.fit();
}

std::string residual_table(const DeviceCalibration& fit) {
  std::string text = fmt::format("{:<40} {:>6} {:>8} {:>8} {:>8} {:>8}\n", "error of formula, %",
                                 "points", "median", "p90", "worst", "bias");
  for (const FitResidual& row : fit.residuals)
    text += fmt::format("{:<40} {:>6} {:>8.1f} {:>8.1f} {:>8.1f} {:>+8.1f}\n", row.what,
                        row.error.rows, row.error.median * 100, row.error.p90 * 100,
                        row.error.worst * 100, row.error.bias * 100);
  return text;
}

}  // namespace sim
