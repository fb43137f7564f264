// stepcast_fit_kernels DEVICE.yaml MEASUREMENTS.csv
//     [--fit | --fit-all | --fit-shares | --fit-grouped | --rows]
//
// Prints how far the device's model is off the measurements, on the shapes that its fit used and on
// those held out. --fit: fits the matrix products anew (70% of the shapes), prints the parameters
// as they stand in a device file, and judges the fitted model. --rows: every row's error.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <set>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/cost/kernel_cost.hpp"
#include "sim/cost/kernel_fit.hpp"

namespace {

using Rows = std::vector<sim::KernelMeasurement>;
constexpr sim::Duration shortest = std::chrono::microseconds(2);

template <class Predicate>
Rows select(const Rows& rows, Predicate wanted) {
  Rows chosen;
  for (const sim::KernelMeasurement& row : rows)
    if (wanted(row)) chosen.push_back(row);
  return chosen;
}

void print_error(const std::string& what, const Rows& rows, const sim::Device& device) {
  if (rows.empty()) return;
  const sim::FitError error = sim::fit_error(rows, device);
  fmt::print("{:<44} {:>5} {:>8.1f} {:>8.1f} {:>8.1f} {:>+8.1f}\n", what, error.rows,
             error.median * 100, error.p90 * 100, error.worst * 100, error.bias * 100);
}

// Products that have no rates of their own but those of their dtype.
bool is_plain_loop(const sim::KernelMeasurement& row) {
  return row.kernel.kind == sim::OpKind::gemm && row.load == sim::Load::loop &&
         row.kernel.scales == sim::ProductScales::tensors &&
         row.kernel.grouping == sim::Grouping::none;
}

void print_errors(const Rows& rows, const sim::Device& device) {
  fmt::print("{:<44} {:>5} {:>8} {:>8} {:>8} {:>8}\n", "error in %", "rows", "median", "p90",
             "worst", "bias");
  std::set<int, std::greater<>> sms;
  for (const auto& row : rows)
    sms.insert(row.sms);
  for (const int count : sms)
    for (const auto& entry : sim::words_of(sim::DType{}))
      for (const bool held_out : {false, true})
        print_error(
            fmt::format("gemm {}, {} SMs, {}", entry.text, count, held_out ? "held out" : "fitted"),
            select(rows,
                   [&](const auto& row) {
                     return is_plain_loop(row) && row.sms == count &&
                            row.kernel.dtype == entry.value && row.median > shortest &&
                            sim::held_out(row.kernel) == held_out;
                   }),
            device);
  // Kinds of products with rates of their own are told apart, too.
  std::set<std::string> others;
  for (const auto& row : rows)
    if (!is_plain_loop(row)) others.insert(row.kind);
  // An eagerly issued kernel shorter than this is bound by the host that issues it.
  constexpr sim::Duration eager = std::chrono::microseconds(150);
  const auto of_kind = [&](const std::string& kind, const char* which, auto&& wanted) {
    print_error(fmt::format("{}, {} SMs{}", kind, device.sms, which),
                select(rows,
                       [&](const auto& row) {
                         return row.kind == kind && row.sms == device.sms &&
                                row.median > (row.eager ? eager : shortest) && wanted(row.kernel);
                       }),
                device);
  };
  for (const std::string& kind : others) {
    if (kind.starts_with("gemm_") || kind.starts_with("grouped_") || kind.starts_with("mamba2_")) {
      of_kind(kind, ", fitted", [](const sim::Kernel& kernel) { return !sim::held_out(kernel); });
      of_kind(kind, ", held out", [](const sim::Kernel& kernel) { return sim::held_out(kernel); });
    } else {
      of_kind(kind, "", [](const sim::Kernel&) { return true; });
    }
  }
}

void print_rows(const Rows& rows, const sim::Device& device) {
  for (const auto& row : rows)
    fmt::print(
        "{:<20} sms {:>3} m {:>6} n {:>6} k {:>6} batch {} heads {} causal {:d} bytes {} "
        "{:>10.2f} us {:>+6.1f}%\n",
        row.kind, row.sms, row.kernel.m, row.kernel.n, row.kernel.k, row.kernel.batch,
        row.kernel.heads, row.kernel.causal, row.kernel.bytes.count(),
        sim::to_seconds(row.median) * 1e6, (sim::prediction_ratio(row, device) - 1) * 100);
}

sim::Device fit_shares(sim::Device device, const Rows& rows) {
  for (const sim::ProductScales scales :
       {sim::ProductScales::blocks, sim::ProductScales::rows, sim::ProductScales::micro}) {
    const Rows used = select(rows, [&](const auto& row) {
      return row.kernel.scales == scales && !sim::held_out(row.kernel);
    });
    if (!used.empty()) device = sim::fit_block_share(device, scales, used);
  }
  if (const sim::GemmModel* model = device.gemm_model(sim::DType::fp8))
    fmt::print("gemm.fp8: {{block_share: {:.3f}, row_share: {:.3f}, micro_share: {:.3f}}}\n",
               model->block_share, model->row_share, model->micro_share);
  return device;
}

sim::Device fit_grouped(sim::Device device, const Rows& rows) {
  for (const sim::Grouping grouping : {sim::Grouping::rows, sim::Grouping::depth}) {
    const Rows used = select(rows, [&](const auto& row) {
      return row.kernel.grouping == grouping && row.kind.ends_with("_even") &&
             !sim::held_out(row.kernel);
    });
    if (used.empty()) continue;
    device = sim::fit_grouped(device, grouping, used);
    const bool by_rows = grouping == sim::Grouping::rows;
    const sim::GroupedModel& model = by_rows ? *device.grouped_rows : *device.grouped_depth;
    fmt::print(
        "grouped_gemm.{}: {{attained: {:.3f}, ramp_k: {:.1f}, per_group: {:.2f} us, fixed: {:.2f} "
        "us}}\n",
        by_rows ? "rows" : "depth", model.attained, model.ramp_k,
        sim::to_seconds(model.per_group) * 1e6, sim::to_seconds(model.fixed) * 1e6);
  }
  return device;
}

sim::Device fit(sim::Device device, const Rows& rows, bool all) {
  for (const sim::DType dtype :
       {sim::DType::bf16, sim::DType::fp8, sim::DType::nvfp4, sim::DType::tf32, sim::DType::fp32}) {
    // The few fp32 and tf32 shapes are all fitted.
    const bool many = dtype != sim::DType::tf32 && dtype != sim::DType::fp32;
    const Rows used = select(rows, [&](const auto& row) {
      return is_plain_loop(row) && row.kernel.dtype == dtype && row.median > shortest &&
             !(many && sim::held_out(row.kernel));
    });
    constexpr std::size_t parameters = 11;  // at most: fewer rows than that fit anything
    if (used.size() < parameters || !device.gemm_model(dtype)) continue;
    device = sim::fit_gemm(device, dtype,
                           all && dtype == sim::DType::bf16 ? sim::FitScope::product_and_memory
                                                            : sim::FitScope::product,
                           used);
    const sim::GemmModel& model = *device.gemm_model(dtype);
    fmt::print(
        "gemm.{}: {{attained: {:.4f}, sustained: {:.4f}, ramp_k: {:.1f}, fixed: {:.3f} us}}\n",
        sim::word(dtype), model.attained, model.sustained, model.ramp_k,
        sim::to_seconds(model.fixed) * 1e6);
  }
  fmt::print(
      "short_loops: {{burst: {:.3f}, burst_half: {:.1f} us, l2_bandwidth: {:.0f} GB/s}}\n"
      "operand_feed: {{per_sm: {:.1f} GB/s, device: {:.0f} GB/s}}\n"
      "memory_kernels: {{gemm: {:.3f}, per_sm: {:.1f} GB/s}}\n",
      device.burst, sim::to_seconds(device.burst_half) * 1e6,
      device.l2_bandwidth.in_bytes_per_second() * 1e-9,
      device.operand_feed_sm.in_bytes_per_second() * 1e-9,
      device.operand_feed.in_bytes_per_second() * 1e-9, device.memory_kernels.gemm,
      device.memory_kernels.per_sm.in_bytes_per_second() * 1e-9);
  return device;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc == 4 ? argv[3] : "";
  if (argc < 3 || argc > 4 ||
      (argc == 4 && mode != "--fit" && mode != "--fit-all" && mode != "--fit-shares" &&
       mode != "--fit-grouped" && mode != "--rows")) {
    fmt::print(stderr,
               "usage: stepcast_fit_kernels DEVICE.yaml MEASUREMENTS.csv "
               "[--fit | --fit-all | --fit-shares | --fit-grouped | --rows]\n");
    return 2;
  }
  try {
    const sim::Device device = sim::load_device(argv[1]);
    const Rows rows = sim::read_kernel_measurements(argv[2]);
    for (const auto& row : rows)
      if (row.sms > device.sms)
        throw sim::InputError(
            sim::SourcePosition{.file = argv[2]},
            fmt::format("measured on {} SMs, but {} has {}", row.sms, device.name, device.sms));
    if (mode == "--rows")
      print_rows(rows, device);
    else if (mode == "--fit-shares")
      print_errors(rows, fit_shares(device, rows));
    else if (mode == "--fit-grouped")
      print_errors(rows, fit_grouped(device, rows));
    else
      print_errors(rows,
                   mode.starts_with("--fit") ? fit(device, rows, mode == "--fit-all") : device);
  } catch (const sim::InputError& error) {
    for (const sim::Problem& problem : error.problems())
      fmt::print(stderr, "{}\n", sim::to_text(problem));
    return 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
