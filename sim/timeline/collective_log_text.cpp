// The log of collectives as lines of text.
#include <fmt/format.h>

#include <algorithm>

#include "sim/timeline/collective_log.hpp"

namespace sim {
namespace {

std::string milliseconds(double seconds) {
  return fmt::format("{:.2f}", 1e3 * seconds);
}
std::string milliseconds(Duration time) {
  return milliseconds(to_seconds(time));
}
std::string milliseconds(TimePoint time) {
  return milliseconds(time.time_since_epoch());
}

std::string size_of(Bytes bytes) {
  const auto count = static_cast<double>(bytes.count());
  return count < 1024 ? fmt::format("{} B", bytes.count())
                      : fmt::format("{:.2f} MiB", count / (1 << 20));
}

std::string percent(Duration part, Duration whole) {
  if (whole.count() == 0) return "-";
  return fmt::format("{:.0f} %", 100 * to_seconds(part) / to_seconds(whole));
}

std::string line_of(const std::string& name, const std::string& bucket, const std::string& bytes,
                    const std::vector<std::string>& numbers) {
  std::string line = fmt::format("{:<26} {:>6} {:>10}", name, bucket, bytes);
  for (const std::string& number : numbers)
    line += fmt::format(" {:>9}", number);
  return line + '\n';
}

std::string entry_line(const CollectiveEntry& entry, const std::optional<Duration>& fitted,
                       const std::optional<Duration>& alone) {
  return line_of(
      entry.name, entry.bucket ? fmt::format("{}", *entry.bucket) : "-", size_of(entry.bytes),
      {milliseconds(entry.ready), milliseconds(entry.launched), milliseconds(entry.active),
       milliseconds(entry.done), milliseconds(entry.hidden), milliseconds(entry.exposed()),
       fitted ? milliseconds(*fitted) : "-", alone ? milliseconds(*alone) : "-"});
}

std::string sum_text(std::span<const CollectiveEntry> entries) {
  Duration hidden{}, exposed{};
  Bytes bytes{};
  for (const CollectiveEntry& entry : entries) {
    hidden += entry.hidden;
    exposed += entry.exposed();
    bytes += entry.bytes;
  }
  return fmt::format("{} collectives, {}; under way {} ms: {} hidden, {} exposed\n", entries.size(),
                     size_of(bytes), milliseconds(hidden + exposed),
                     percent(hidden, hidden + exposed), percent(exposed, hidden + exposed));
}

std::string fit_text(const std::optional<AlphaBeta>& fit) {
  if (!fit)
    return "fit (alpha-beta): none; it takes collectives of two sizes with no kernel beside them\n";
  return fmt::format(
      "fit (alpha-beta): alpha {:.1f} us a message, beta {:.2f} GB/s; least squares over {} "
      "collectives of this step\n",
      1e6 * to_seconds(fit->alpha), fit->beta.in_bytes_per_second() / 1e9, fit->collectives);
}

}  // namespace

std::string collective_log_text(std::span<const CollectiveEntry> entries,
                                const std::optional<AlphaBeta>& fit,
                                std::span<const Duration> alone) {
  if (entries.empty()) return "no collectives\n";
  std::string text =
      line_of("collective, times in ms", "bucket", "size",
              {"ready", "launched", "met", "done", "hidden", "exposed", "fit", "forecast"});
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::optional<Duration> fitted = fit ? time_of(*fit, entries[i]) : std::nullopt;
    text +=
        entry_line(entries[i], fitted, i < alone.size() ? std::optional{alone[i]} : std::nullopt);
  }
  return text + sum_text(entries) + fit_text(fit);
}

}  // namespace sim
