#include "sim/calibration/nccl_tests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>

#include "sim/base/input_error.hpp"
#include "sim/config/json_scan.hpp"

namespace sim {
namespace {

constexpr std::size_t largest_file = std::size_t{64} << 20;
constexpr double longest_us = 1e12;

// Programs of nccl-tests and the collective that a curve names.
struct Test {
  std::string_view program;
  std::string_view collective;
};
constexpr std::array<Test, 8> tests{{{"all_reduce_perf", "all_reduce"},
                                     {"reduce_scatter_perf", "reduce_scatter"},
                                     {"all_gather_perf", "all_gather"},
                                     {"broadcast_perf", "broadcast"},
                                     {"reduce_perf", "reduce"},
                                     {"alltoall_perf", "all_to_all"},
                                     {"sendrecv_perf", "send_receive"},
                                     {"all_to_all_perf", "all_to_all"}}};

// Without `[1,0]<stdout>:` of mpirun --tag-output, ANSI escapes and the carriage return.
std::string cleaned(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      i += 2;
      while (i < line.size() && (line[i] < '@' || line[i] > '~'))
        ++i;
    } else if (line[i] != '\r') {
      text += line[i];
    }
  }
  if (!text.starts_with('[')) return text;
  const std::size_t end = text.find("]<std");
  const std::size_t colon = text.find(">:", end);
  if (end != std::string::npos && colon != std::string::npos) text.erase(0, colon + 2);
  return text;
}

std::vector<std::string_view> words_in(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t at = 0;
  while (true) {
    at = line.find_first_not_of(" \t", at);
    if (at == std::string_view::npos) return words;
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

// Where the columns of a table are. A half has time, algbw, busbw and more; the words repeat.
struct Columns {
  std::size_t size = 0, count = 0;
  std::vector<std::size_t> times, buses, algs;
  std::size_t all = 0;
};
std::optional<Columns> columns_of(std::string_view line) {
  std::vector<std::string_view> words = words_in(line);
  if (!words.empty() && words.front() == "#") words.erase(words.begin());
  if (!words.empty() && words.front().starts_with('#') && words.front() != "#wrong")
    words.front().remove_prefix(1);
  Columns columns;
  bool size = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "size") columns.size = i, size = true;
    if (words[i] == "count") columns.count = i;
    if (words[i] == "time") columns.times.push_back(i);
    if (words[i] == "algbw") columns.algs.push_back(i);
    if (words[i] == "busbw") columns.buses.push_back(i);
  }
  columns.all = words.size();
  if (!size || columns.times.empty() || columns.algs.size() != columns.times.size() ||
      columns.buses.size() != columns.times.size())
    return std::nullopt;
  return columns;
}

class LogReader {
 public:
  LogReader(std::string_view text, const std::string& name, const NcclTestsHints& hints)
      : text_{text}, name_{name}, hints_{hints} {}

  NcclTestsLog read() {
    std::size_t begin = 0;
    while (begin < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      ++line_;
      read_line(cleaned(text_.substr(begin, end - begin)));
      begin = end + 1;
    }
    if (!columns_)
      fail(0, "no table of nccl-tests was found: a header with size, time, algbw, busbw");
    finish();
    return std::move(log_);
  }

 private:
  struct Row {
    int line = 0;
    double size = 0;
    double microseconds = 0;
    double bus_over_alg = 0;  // 0: not known
  };

  [[noreturn]] void fail(int line, const std::string& what) const {
    throw InputError(SourcePosition{.file = name_, .line = line, .column = line > 0 ? 1 : 0}, what);
  }

  void read_line(const std::string& line) {
    if (const auto found = columns_of(line)) {
      columns_ = found;
    } else if (line.find('#') != std::string::npos &&
               line.find_first_not_of(' ') == line.find('#')) {
      read_comment(line);
    } else if (line.starts_with("NCCL version ")) {
      log_.versions.push_back("NCCL " + line.substr(13));
    } else if (columns_) {
      read_row(line);
    }
    if (!columns_ || line.find("perf") != std::string::npos) read_program(line);
  }

  void read_program(const std::string& line) {
    for (const Test& test : tests)
      if (const std::size_t at = line.find(test.program);
          at != std::string::npos &&
          (at == 0 ||
           !(std::isalnum(static_cast<unsigned char>(line[at - 1])) != 0 || line[at - 1] == '_')))
        collective_ = test.collective;
  }

  // "#  Rank  0 Group  0 Pid   2574 on HOST device  0 [0000:0f:00] NVIDIA A100"
  void read_comment(const std::string& line) {
    const std::vector<std::string_view> words = words_in(line);
    const auto on = std::find(words.begin(), words.end(), "on");
    if (words.size() < 6 || words[0] != "#" || words[1] != "Rank" || on == words.end() ||
        on + 1 == words.end())
      return;
    const auto rank = number_in(words[2]);
    if (!rank || *rank < 0 || *rank > 1e7) return;
    most_rank_ = std::max(most_rank_, static_cast<int>(*rank));
    hosts_.insert(std::string{*(on + 1)});
    const std::size_t bracket = line.find(']');
    if (bracket != std::string::npos && bracket + 2 < line.size())
      log_.device = line.substr(bracket + 2);
  }

  void read_row(const std::string& line) {
    const std::vector<std::string_view> words = words_in(line);
    if (words.empty() || !number_in(words.front())) return;  // NCCL's own log, "..."
    // Numbers of another program would be a row with fewer words.
    if (words.size() < columns_->all)
      return note(fmt::format("line {}: {} of {} columns", line_, words.size(), columns_->all));
    Row row{.line = line_};
    const auto size = number_in(words[columns_->size]);
    if (!size || *size < 0 || *size > 0x1p50 || *size != std::floor(*size))
      fail(line_, fmt::format("'{}' is no size in bytes", words[columns_->size]));
    row.size = *size;
    for (std::size_t half = 0; half < columns_->times.size(); ++half) {
      const auto time = number_in(words[columns_->times[half]]);
      if (!time) continue;  // N/A: this half was not run
      if (*time < 0 || *time > longest_us)
        fail(line_, fmt::format("'{}' is no time in us", words[columns_->times[half]]));
      if (row.microseconds == 0 || *time < row.microseconds) row.microseconds = *time;
      const auto alg = number_in(words[columns_->algs[half]]);
      const auto bus = number_in(words[columns_->buses[half]]);
      // Printed with two decimals: only large ones tell the ranks.
      if (alg && bus && *alg >= 5 && *bus > 0) row.bus_over_alg = *bus / *alg;
    }
    rows_.push_back(row);
  }

  void note(const std::string& text) {
    if (log_.notes.size() < 20) log_.notes.push_back(name_ + ": " + text);
  }

  // Ranks: the header's list, else the largest ratio of bus to algorithm bandwidth.
  int ranks_from_ratio() const {
    double ratio = 0;
    for (const Row& row : rows_)
      ratio = std::max(ratio, row.bus_over_alg);
    const bool all_reduce = collective_ == "all_reduce";
    const bool sliced = collective_ == "reduce_scatter" || collective_ == "all_gather" ||
                        collective_ == "all_to_all";
    if (ratio == 0 || (!all_reduce && !sliced)) return 0;
    // busbw = algbw 2(n-1)/n, or (n-1)/n (nccl-tests doc/PERFORMANCE.md). With two decimals of
    // three digits n is certain up to some dozens only.
    const double n = all_reduce ? 2 / (2 - ratio) : 1 / (1 - ratio);
    return n > 1 && n < 40 ? static_cast<int>(std::lround(n)) : 0;
  }

  template <class Value>
  Value settled(const char* what, const char* option, std::optional<Value> hint, bool known,
                Value found) const {
    if (hint && known && *hint != found)
      fail(0, fmt::format("the log says {} {}, {} says {}", what, found, option, *hint));
    if (!hint && !known)
      fail(0, fmt::format("the log does not tell the {}; say so with {}", what, option));
    return hint ? *hint : found;
  }

  void finish() {
    const std::string collective = settled<std::string>(
        "collective", "--collective", hints_.collective, !collective_.empty(), collective_);
    collective_ = collective;
    const int listed = most_rank_ + 1;
    const int guessed = listed > 0 ? listed : ranks_from_ratio();
    const int ranks =
        settled<int>("number of ranks", "--ranks", hints_.ranks, guessed > 0, guessed);
    const int hosts = static_cast<int>(hosts_.size());
    const int nodes = settled<int>("number of nodes", "--nodes", hints_.nodes, hosts > 0, hosts);
    if (ranks < 2) fail(0, fmt::format("{} rank: a collective needs two", ranks));
    if (nodes > ranks) fail(0, fmt::format("{} ranks on {} nodes", ranks, nodes));
    if (rows_.empty()) fail(0, "the table has no rows");
    int empty = 0;
    for (const Row& row : rows_) {
      if (row.size == 0 || row.microseconds == 0) {
        ++empty;  // size 0 measures the launch alone
        continue;
      }
      log_.points.push_back({.collective = collective,
                             .ranks = ranks,
                             .nodes = nodes,
                             .bytes = Bytes{static_cast<std::int64_t>(row.size)},
                             .time = duration_from_seconds(row.microseconds * 1e-6),
                             .algorithm = "",
                             .samples = 1,
                             .source = "nccl-tests log " + name_});
    }
    if (empty > 0) note(fmt::format("{} rows without bytes or time", empty));
  }

  std::string_view text_;
  std::string name_;
  const NcclTestsHints& hints_;
  NcclTestsLog log_;
  std::optional<Columns> columns_;
  std::vector<Row> rows_;
  std::string collective_;
  std::set<std::string> hosts_;
  int most_rank_ = -1;
  int line_ = 0;
};

}  // namespace

NcclTestsLog parse_nccl_tests(std::string_view text, const std::string& name,
                              const NcclTestsHints& hints) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{')
    throw InputError(SourcePosition{.file = name},
                     "this is the JSON of nccl-tests (-J); give its text output");
  return LogReader{text, name, hints}.read();
}

NcclTestsLog read_nccl_tests(const std::string& path, const NcclTestsHints& hints) {
  return parse_nccl_tests(load_text(path, largest_file), path, hints);
}

}  // namespace sim
