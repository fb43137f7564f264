#include "sim/calibration/kernel_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "sim/base/input_error.hpp"
#include "sim/calibration/statistics.hpp"

namespace sim {
namespace {

// The host's time to issue one small kernel, of a device file's host_issue.
constexpr std::string_view issue_kind = "launch_eager_host";
// The clock of the device ticks in half microseconds, and below 2 us a time is mostly its launch.
constexpr Duration shortest = std::chrono::microseconds(2);
// An eagerly issued kernel shorter than this is bound by the host that issues it.
constexpr Duration shortest_eager = std::chrono::microseconds(150);

// Why a row can be neither fitted nor compared; empty: it can.
std::string_view unusable(const KernelMeasurement& row) {
  if (row.cast > Bytes{}) return "hold the cast of an operand";
  if (row.median <= shortest) return "take 2 us or less";
  if (row.eager && row.median <= shortest_eager) return "are bound by the host that issues them";
  return {};
}

KernelUse use_of(const KernelMeasurement& row, std::uint64_t seed) {
  if (!row.fits) return KernelUse::check;
  return held_out(row.kernel, seed) ? KernelUse::held_out : KernelUse::fit;
}

std::string_view word_of(KernelUse use) {
  if (use == KernelUse::held_out) return "held_out";
  return use == KernelUse::check ? "check" : "fit";
}

void take_fact(const std::string& key, const std::string& value, MeasuredMachine& machine) {
  const auto add = [&value](std::vector<std::string>& to) {
    if (std::ranges::find(to, value) == to.end()) to.push_back(value);
  };
  if (key == "gpu") machine.device = value;
  if (key == "host") machine.host = value;
  if (key == "date" && machine.date.empty()) machine.date = value;
  if (key == "version") add(machine.versions);
  if (key == "condition") add(machine.conditions);
  if (machine.device.starts_with("NVIDIA")) machine.maker = "NVIDIA";
  if (machine.device.starts_with("AMD")) machine.maker = "AMD";
}

// Absent: the device has no rates for such kernels.
std::optional<Duration> forecast(const KernelMeasurement& row, const Device& device) {
  if (is_flash(row.kernel.attention) && !device.attention_model(row.kernel.attention)) return {};
  try {
    KernelMeasurement second = row;
    second.median = std::chrono::seconds(1);
    return duration_from_seconds(prediction_ratio(second, device));
  } catch (const InputError&) {
    return {};
  }
}

double microseconds(Duration time) {
  return to_seconds(time) * 1e6;
}

}  // namespace

KernelRowsOfFiles read_kernel_rows(const std::vector<std::string>& paths, std::uint64_t seed) {
  KernelRowsOfFiles read;
  std::map<std::string_view, int> left_out;
  std::vector<double> issue;
  for (const std::string& path : paths) {
    KernelFile file = read_kernel_file(path);
    for (const auto& [key, value] : file.facts)
      take_fact(key, value, read.machine);
    for (const auto& [kind, time] : file.others)
      if (kind == issue_kind) issue.push_back(to_seconds(time));
    for (KernelMeasurement& row : file.rows) {
      if (row.median > Duration{}) {
        if (const std::string_view why = unusable(row); !why.empty()) {
          ++left_out[why];
        } else {
          read.machine.kernels.push_back({.kernel = row.kernel,
                                          .time = row.median,
                                          .load = row.load,
                                          .sms = row.sms,
                                          .source = path,
                                          .use = use_of(row, seed),
                                          .name = row.kind});
        }
      }
      read.all.push_back(std::move(row));
    }
  }
  if (!issue.empty()) read.machine.host_issue = duration_from_seconds(median_of(issue));
  for (const auto& [why, count] : left_out)
    read.notes.push_back(fmt::format("{} rows {}: left out", count, why));
  return read;
}

std::string forecast_table(const KernelRowsOfFiles& rows, const Device& device) {
  std::map<std::string, std::vector<KernelMeasurement>> of_kind;
  for (const KernelMeasurement& row : rows.all)
    if (row.median > Duration{} && unusable(row).empty() && row.sms <= device.sms &&
        forecast(row, device))
      of_kind[row.kind].push_back(row);
  std::string text =
      fmt::format("{:<40} {:>6} {:>8} {:>8} {:>8} {:>8}\n", "error of " + device.name + ", %",
                  "rows", "median", "p90", "worst", "bias");
  for (const auto& [kind, of_it] : of_kind) {
    const FitError error = fit_error(of_it, device);
    text += fmt::format("{:<40} {:>6} {:>8.1f} {:>8.1f} {:>8.1f} {:>+8.1f}\n", kind, error.rows,
                        error.median * 100, error.p90 * 100, error.worst * 100, error.bias * 100);
  }
  if (const auto issue = rows.machine.host_issue)
    text += fmt::format("{:<40} forecast {:.1f} us, measured {:.1f} us\n", issue_kind,
                        microseconds(device.host_issue), microseconds(*issue));
  return text;
}

std::string forecast_csv(const KernelRowsOfFiles& rows, const Device& device, std::uint64_t seed) {
  std::string text = "kind,sms,shape,forecast_us,median_us,forecast_over_measured,use\n";
  for (const KernelMeasurement& row : rows.all) {
    if (row.sms > device.sms) continue;
    const auto time = forecast(row, device);
    if (!time) continue;
    text += fmt::format("{},{},{},{:.3f},", row.kind, row.sms, row.shape, microseconds(*time));
    text += row.median > Duration{}
                ? fmt::format("{:.3f},{:.3f},{}\n", microseconds(row.median),
                              to_seconds(*time) / to_seconds(row.median),
                              unusable(row).empty() ? word_of(use_of(row, seed)) : "none")
                : ",,none\n";
  }
  text += fmt::format("{},{},,{:.3f},", issue_kind, device.sms, microseconds(device.host_issue));
  const auto issue = rows.machine.host_issue;
  return text + (issue ? fmt::format("{:.3f},{:.3f},fit\n", microseconds(*issue),
                                     to_seconds(device.host_issue) / to_seconds(*issue))
                       : ",,none\n");
}

}  // namespace sim
