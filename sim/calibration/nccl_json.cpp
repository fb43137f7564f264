#include "sim/calibration/nccl_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/calibration/nccl_table.hpp"
#include "sim/config/json_scan.hpp"

namespace sim {
namespace {

constexpr std::size_t most_devices = 1 << 17;

class TestsJson {
 public:
  TestsJson(std::string_view text, const std::string& name, const NcclTestsHints& hints)
      : scan_{text, name}, name_{name}, hints_{hints} {}

  NcclTestsLog read() {
    scan_.object([&](std::string_view key) {
      if (key == "args")
        read_arguments();
      else if (key == "env")
        read_environment();
      else if (key == "nccl_version")
        read_version();
      else if (key == "config")
        read_config();
      else if (key == "results")
        read_results();
      else if (key == "out_of_bounds" || key == "average_bus_bandwidth")
        read_verdict(key == "out_of_bounds");
      else if (key == "errors")
        read_errors();
      else
        scan_.skip();
    });
    scan_.finish();
    if (table_.rows.empty()) scan_.fail("there are no results of nccl-tests in this file");
    list_other_devices();
    log_.points = points_of(table_, name_, hints_, log_.notes);
    if (log_.points.empty())
      throw InputError{{name_, 0, 0},
                       fmt::format("makes no curve: {}", fmt::join(log_.notes, "; "))};
    return std::move(log_);
  }

 private:
  std::optional<std::string> maybe_text() {
    if (scan_.peek() == JsonScan::Kind::text) return scan_.text();
    scan_.skip();
    return std::nullopt;
  }
  // A number, or nothing: for a half that was not run or not checked nccl-tests writes null or
  // "nan".
  std::optional<double> maybe_number() {
    if (scan_.peek() == JsonScan::Kind::number) return scan_.real({.min = -1, .max = 1e15});
    scan_.skip();
    return std::nullopt;
  }

  void read_arguments() {
    bool first = true;
    scan_.list([&] {
      const std::optional<std::string> word = maybe_text();
      if (first && word) table_.run.program = program_in(*word);
      first = false;
    });
  }

  void read_environment() {
    scan_.list([&] {
      const std::string variable = maybe_text().value_or("");
      if (variable.starts_with("NCCL_ALGO=")) table_.run.algorithm = variable.substr(10);
    });
  }

  // NCCL_VERSION_CODE: 22900 is 2.29.0; before 2.9 there was a digit less.
  void read_version() {
    const auto code = static_cast<std::int64_t>(maybe_number().value_or(0));
    const std::int64_t major = code >= 10'000 ? code / 10'000 : code / 1000;
    const std::int64_t rest = code >= 10'000 ? code % 10'000 : code % 1000;
    if (code > 0)
      log_.versions.push_back(fmt::format("NCCL {}.{}.{}", major, rest / 100, rest % 100));
  }

  void read_config() {
    scan_.object([&](std::string_view key) {
      if (key == "aggregated_iterations")
        table_.run.grouped_iterations =
            static_cast<int>(scan_.integer({.min = 1, .max = 1'000'000}));
      else if (key == "nthreads" || key == "ngpus")
        per_process_ *= static_cast<int>(scan_.integer({.min = 1, .max = 1024}));
      else if (key == "devices")
        scan_.list([&] { read_device(); });
      else
        scan_.skip();
    });
  }

  void read_device() {
    LogRank entry{.line = 1};
    std::int64_t rank = -1;
    scan_.object([&](std::string_view key) {
      if (key == "rank")
        rank = scan_.integer({.min = 0, .max = 10'000'000});
      else if (key == "group")
        entry.group = static_cast<int>(scan_.integer({.min = 0, .max = 10'000'000}));
      else if (key == "hostname")
        entry.host = maybe_text().value_or("");
      else if (key == "device")
        entry.device = fmt::format("{}", scan_.integer({.min = 0, .max = 1024}));
      else if (key == "device_info" && log_.device.empty())
        log_.device = maybe_text().value_or("");
      else
        scan_.skip();
    });
    if (rank < 0) scan_.fail("a device without rank");
    if (!table_.run.ranks.try_emplace(static_cast<int>(rank), entry).second)
      scan_.fail(fmt::format("rank {} is listed a second time", rank));
    if (table_.run.ranks.size() > most_devices) scan_.fail("more than 131072 devices");
  }

  // A process of several GPUs lists the first of them only (src/util.cu, parseRankInfo).
  void list_other_devices() {
    const std::map<int, LogRank> listed = table_.run.ranks;
    if (listed.size() * static_cast<std::size_t>(per_process_) > most_devices) return;
    for (const auto& [rank, entry] : listed)
      for (int i = 1; i < per_process_; ++i) {
        LogRank other = entry;
        other.device += fmt::format("+{}", i);
        table_.run.ranks.try_emplace(rank + i, std::move(other));
      }
  }

  void read_results() {
    const int line = scan_.where().line;
    table_.line = std::max(1, line);
    scan_.list([&] {
      LogRow row{.line = table_.line};
      scan_.object([&](std::string_view key) {
        if (key == "size")
          row.size = static_cast<double>(scan_.integer({.min = 0, .max = std::int64_t{1} << 50}));
        else if (key == "type")
          row.type = maybe_text().value_or("");
        else if (key == "redop")
          row.reduction = maybe_text().value_or("");
        else if (key == "out_of_place" || key == "in_place")
          read_half(row);
        else
          scan_.skip();
      });
      table_.rows.push_back(std::move(row));
    });
  }

  void read_half(LogRow& row) {
    if (scan_.peek() != JsonScan::Kind::object) return scan_.skip();
    std::optional<double> time, alg, bus;
    scan_.object([&](std::string_view key) {
      if (key == "cpu_time")
        scan_.fail("measured with -C 1: the time of the host alone; run nccl-tests without it");
      if (key == "time")
        time = maybe_number();
      else if (key == "alg_bw")
        alg = maybe_number();
      else if (key == "bus_bw")
        bus = maybe_number();
      else if (key == "nwrong" && maybe_wrong())
        scan_.fail("nwrong: the run computed wrong results; its times are not used");
      else if (key != "nwrong")
        scan_.skip();
    });
    if (!time) return;
    if (*time < 0 || *time > longest_us) scan_.fail(fmt::format("{:g} is no time in us", *time));
    if (row.microseconds == 0 || *time < row.microseconds) row.microseconds = *time;
    // Six decimals: of larger ones the ratio is certain.
    if (alg && bus && *alg >= 0.01 && *bus > 0) row.bus_over_alg = *bus / *alg;
  }
  bool maybe_wrong() { return maybe_number().value_or(0) > 0; }

  void read_verdict(bool results) {
    scan_.object([&](std::string_view key) {
      if (key != "okay") return scan_.skip();
      if (maybe_text().value_or("") != "false") return;
      scan_.fail(results ? "the run computed wrong results (out_of_bounds); its times are not used"
                         : "the run did not reach the bandwidth that it asked for "
                           "(NCCL_TESTS_MIN_BW)");
    });
  }

  void read_errors() {
    scan_.list([&] {
      const std::string text = maybe_text().value_or("");
      if (!text.empty() && log_.notes.size() < 20)
        log_.notes.push_back(fmt::format("{}: the run reported '{}'", name_, text.substr(0, 100)));
    });
  }

  JsonScan scan_;
  const std::string& name_;
  const NcclTestsHints& hints_;
  NcclTestsLog log_;
  LogTable table_;
  int per_process_ = 1;
};

}  // namespace

NcclTestsLog parse_nccl_tests_json(std::string_view text, const std::string& name,
                                   const NcclTestsHints& hints) {
  return TestsJson{text, name, hints}.read();
}

}  // namespace sim
