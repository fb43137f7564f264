#include "sim/calibration/nccl_tests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "sim/base/input_error.hpp"
#include "sim/calibration/nccl_json.hpp"
#include "sim/calibration/nccl_table.hpp"
#include "sim/config/json_scan.hpp"

namespace sim {
namespace {

constexpr std::size_t largest_log = std::size_t{64} << 20;

std::string shortened(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  text.remove_prefix(begin);
  return std::string{text.substr(0, 100)} + (text.size() > 100 ? "..." : "");
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
      read_line(text_.substr(begin, end - begin));
      begin = end + 1;
    }
    drop_pending("the log ends there");
    if (tables_.empty())
      fail(unread_line_,
           fmt::format("no table of nccl-tests was found: a header with size, time, "
                       "algbw, busbw{}",
                       unread_.empty() ? "" : fmt::format("; not understood: '{}'", unread_)));
    finish();
    return std::move(log_);
  }

 private:
  [[noreturn]] void fail(int line, const std::string& what) const {
    throw InputError(SourcePosition{.file = name_, .line = line, .column = line > 0 ? 1 : 0}, what);
  }
  void note(const std::string& text) {
    if (log_.notes.size() < 20) log_.notes.push_back(name_ + ": " + text);
  }
  bool in_rows() const { return !tables_.empty() && !closed_ && !tables_.back().rows.empty(); }
  bool before_rows() const { return !tables_.empty() && !closed_ && tables_.back().rows.empty(); }
  // The run that lines before a table describe; between a header and its rows, that of the open
  // table.
  LogRun& run() { return before_rows() ? tables_.back().run : next_; }

  void read_line(std::string_view raw) {
    read_versions(raw);
    read_algorithm(raw);
    const LogLine line = log_line(raw);
    if (line.text.find("cputime") != std::string::npos &&
        line.text.find("algbw") != std::string::npos)
      fail(line_, "measured with -C 1: the time of the host alone; run nccl-tests without it");
    if (const auto columns = log_columns(line.text)) {
      start_table(*columns);
    } else if (!read_comment(line.text) && !read_row(line) && !read_program(line.text)) {
      if (!line.cut) keep_unread(line.text);
    }
  }

  void start_table(const LogColumns& columns) {
    drop_pending("another table begins");
    if (before_rows())
      fail(line_,
           fmt::format("a second header after that of line {}, without a row between: outputs "
                       "of several processes are mixed",
                       tables_.back().line));
    if (next_.algorithm.empty()) next_.algorithm = exported_algorithm_;
    tables_.push_back({.line = line_, .columns = columns, .run = std::move(next_), .rows = {}});
    next_ = {};
    closed_ = false;
  }

  // The run of the open table is over: what follows is of the next one.
  void close() {
    drop_pending("the table ends");
    closed_ = true;
  }

  bool read_comment(const std::string& text) {
    const auto is = [&](std::string_view words, bool bare = false) {
      return comment_of(text, words, bare);
    };
    if (const auto rank = is("Rank ", true); !rank.empty() && read_rank(rank)) return true;
    if (!is("nThread", true).empty()) {
      close();
      read_grouping(text);
      return true;
    }
    if (const auto start = is("Collective test starting:"); !start.empty()) {
      close();
      return read_program(text);
    }
    if (const auto end = is("Collective test concluded:"); !end.empty()) {
      conclude(end);
      return true;
    }
    if (const auto bounds = is("Out of bounds values", true); !bounds.empty()) {
      check_bounds(text, bounds);
      close();
      return true;
    }
    if (const auto average = is("Avg bus bandwidth", true); !average.empty()) {
      if (average.find("FAILED") != std::string_view::npos)
        fail(line_, fmt::format("the run did not reach the bandwidth that it asked for "
                                "(NCCL_TESTS_MIN_BW): '{}'",
                                shortened(text)));
      close();
      return true;
    }
    const std::string plain = without_labels(text);
    static constexpr std::array<std::string_view, 4> bare{"Using devices", "out-of-place", "(B)",
                                                          "rccl-tests:"};
    return plain.empty() || plain.front() == '#' ||
           std::any_of(bare.begin(), bare.end(),
                       [&](std::string_view words) { return plain.starts_with(words); });
  }

  void check_bounds(const std::string& text, std::string_view bounds) const {
    const std::size_t colon = bounds.find(':');
    const auto words = words_in(bounds.substr(colon == std::string_view::npos ? 0 : colon + 1));
    const auto wrong = words.empty() ? std::nullopt : number_in(words.front());
    if ((wrong && *wrong > 0) || bounds.find("FAILED") != std::string_view::npos)
      fail(line_, fmt::format("the run computed wrong results: '{}'; its times are not used",
                              shortened(text)));
  }

  // "Rank  0 Group  0 Pid   2574 on HOST device  0 [0000:0f:00] NVIDIA A100"
  bool read_rank(std::string_view text) {
    const std::vector<std::string_view> words = words_in(text);
    const auto after = [&](std::string_view word) {
      const auto found = std::find(words.begin(), words.end(), word);
      return found == words.end() || found + 1 == words.end() ? std::string_view{} : *(found + 1);
    };
    const auto rank = words.size() < 2 ? std::nullopt : number_in(words[1]);
    if (!rank || *rank < 0 || *rank > 1e7 || *rank != std::floor(*rank) || after("on").empty())
      return false;
    if (in_rows()) close();
    LogRank entry{
        .line = line_,
        .text = std::string{text},
        .host = std::string{after("on")},
        .device = std::string{after("device")},
        .group = static_cast<int>(std::clamp(number_in(after("Group")).value_or(0), 0.0, 1e7))};
    const auto [known, fresh] = run().ranks.try_emplace(static_cast<int>(*rank), entry);
    if (!fresh && known->second.text != entry.text)
      fail(line_,
           fmt::format("rank {} is listed a second time, after line {}: each process measured "
                       "alone (nccl-tests built without MPI=1), or the outputs of several runs "
                       "are mixed",
                       known->first, known->second.line));
    const std::size_t bracket = text.find(']');
    if (log_.device.empty() && bracket != std::string_view::npos && bracket + 2 < text.size())
      log_.device = text.substr(bracket + 2);
    return true;
  }

  void read_grouping(const std::string& text) {
    const std::size_t at = text.find("agg iters:");
    if (at == std::string::npos) return;
    const auto words = words_in(std::string_view{text}.substr(at + 10));
    const auto count = words.empty() ? std::nullopt : number_in(words.front());
    if (count && *count >= 1 && *count < 1e6) run().grouped_iterations = static_cast<int>(*count);
  }

  void conclude(std::string_view end) {
    const std::string_view program = program_in(end);
    if (tables_.empty() || program.empty()) return;
    LogRun& run = tables_.back().run;
    if (run.program.empty()) run.program = program;
    if (run.program != program)
      fail(line_,
           fmt::format("the table of line {} is of {} (line {}) and of {}: outputs of several "
                       "runs are mixed",
                       tables_.back().line, run.program, run.program_line, program));
    closed_ = true;
  }

  bool read_program(const std::string& text) {
    if (text.find("Linking") != std::string::npos || text.find("Compiling") != std::string::npos)
      return false;
    const std::string_view program = program_in(text);
    if (program.empty()) return false;
    if (before_rows() && run().program.empty()) {
      run().program = program;
      run().program_line = line_;
    }
    next_.program = program;
    next_.program_line = line_;
    return true;
  }

  void read_versions(std::string_view raw) {
    for (const std::string_view library : {"NCCL version ", "RCCL version "})
      if (const std::size_t at = raw.find(library); at != std::string_view::npos) {
        const auto words = words_in(raw.substr(at + library.size()));
        std::string_view number = words.empty() ? std::string_view{} : words.front();
        if (number == ":" && words.size() > 1) number = words[1];
        while (number.ends_with('\r'))
          number.remove_suffix(1);
        const std::string version = fmt::format("{} {}", library.substr(0, 4), number);
        if (!number.empty() && number.front() >= '0' && number.front() <= '9' &&
            std::find(log_.versions.begin(), log_.versions.end(), version) == log_.versions.end())
          log_.versions.push_back(version);
      }
  }

  // "NCCL_ALGO=Ring" of a command, "NCCL_ALGO set by environment to Ring" of NCCL's log.
  void read_algorithm(std::string_view raw) {
    constexpr std::string_view variable = "NCCL_ALGO";
    const std::size_t at = raw.find(variable);
    if (at == std::string_view::npos) return;
    std::string_view rest = raw.substr(at + variable.size());
    constexpr std::string_view told = " set by environment to ";
    const bool by_nccl = rest.starts_with(told);
    if (!by_nccl && !rest.starts_with('=')) return;
    rest.remove_prefix(by_nccl ? told.size() : 1);
    const std::size_t end = std::min(rest.find_first_of(" \t\r.'\""), rest.size());
    const std::string value{rest.substr(0, end)};
    if (value.empty()) return;
    // NCCL speaks of the run under way, a command of the next one.
    (by_nccl && !tables_.empty() && !closed_ ? tables_.back().run : run()).algorithm = value;
    if (raw.find("export ") != std::string_view::npos) exported_algorithm_ = value;
  }

  bool read_row(const LogLine& line) {
    if (tables_.empty()) return false;
    const LogColumns& columns = tables_.back().columns;
    RowPiece piece = row_piece(line.text, columns);
    if (!piece.words.empty()) {
      if (!pending_.empty()) fail(pending_line_, incomplete("another row begins"));
      if (closed_) fail(line_, fmt::format("a row without a header: '{}'", shortened(line.text)));
      pending_ = std::move(piece.words);
      pending_line_ = line_;
    } else if (!pending_.empty()) {
      piece = rest_of_row(line.text);
      if (piece.words.empty() || pending_.size() + piece.words.size() > columns.all) return false;
      pending_.insert(pending_.end(), piece.words.begin(), piece.words.end());
    } else {
      return false;
    }
    // nccl-tests leaves the other half blank where it was not run.
    const bool one_half =
        !line.cut && piece.ended && pending_.size() == columns.times.front() + columns.half;
    if (pending_.size() >= columns.all || one_half) end_row();
    return true;
  }

  std::string incomplete(const char* why) const {
    return fmt::format(
        "this row has {} of {} columns and {}: '{}'; outputs of several processes are "
        "mixed, or it is cut off",
        pending_.size(), tables_.back().columns.all, why, fmt::join(pending_, " "));
  }

  void drop_pending(const char* why) {
    if (pending_.empty()) return;
    note(fmt::format("line {}: a row of {} of {} columns is left out: {}", pending_line_,
                     pending_.size(), tables_.back().columns.all, why));
    pending_.clear();
  }

  void end_row() {
    const LogColumns& columns = tables_.back().columns;
    LogRow row{.line = pending_line_};
    const auto size = number_in(pending_[0]);
    if (!size || *size < 0 || *size > 0x1p50 || *size != std::floor(*size))
      fail(pending_line_, fmt::format("'{}' is no size in bytes", pending_[0]));
    row.size = *size;
    if (columns.typed) row.type = pending_[2];
    if (columns.redop) row.reduction = pending_[3];
    for (std::size_t half = 0; half < columns.times.size(); ++half)
      if (columns.buses[half] < pending_.size()) read_half(half, row);
    check_wrong();
    tables_.back().rows.push_back(std::move(row));
    pending_.clear();
  }

  void read_half(std::size_t half, LogRow& row) const {
    const LogColumns& columns = tables_.back().columns;
    const std::string& text = pending_[columns.times[half]];
    const auto time = number_in(text);
    if (!time) return;  // N/A: this half was not run
    if (*time < 0 || *time > longest_us)
      fail(pending_line_, fmt::format("'{}' is no time in us", text));
    if (row.microseconds == 0 || *time < row.microseconds) row.microseconds = *time;
    const auto alg = number_in(pending_[columns.algs[half]]);
    const auto bus = number_in(pending_[columns.buses[half]]);
    // Printed with two decimals: only large ones tell the ranks.
    if (alg && bus && *alg >= 5 && *bus > 0) row.bus_over_alg = *bus / *alg;
  }

  void check_wrong() const {
    for (const std::size_t column : tables_.back().columns.wrongs)
      if (column < pending_.size())
        if (const auto wrong = number_in(pending_[column]); wrong && *wrong > 0)
          fail(pending_line_,
               fmt::format("#wrong is {}: the run computed wrong results; its times are not used",
                           pending_[column]));
  }

  void keep_unread(const std::string& text) {
    if (text.find("Test NCCL failure") != std::string::npos ||
        text.find("Test CUDA failure") != std::string::npos ||
        text.find("Test failure") != std::string::npos)
      note(fmt::format("line {}: the run stopped: '{}'", line_, shortened(text)));
    else if (in_rows())
      ++strangers_;
    const bool near = text.find("busbw") != std::string::npos;
    if (unread_.empty() || (near && unread_.find("busbw") == std::string::npos)) {
      unread_ = shortened(text);
      unread_line_ = line_;
    }
    if (in_rows() && strangers_ == 1) {
      stranger_ = shortened(text);
      stranger_line_ = line_;
    }
  }

  void finish() {
    if (strangers_ > 0)
      note(fmt::format("{} line{} between rows {} not understood and left out; line {}: '{}'",
                       strangers_, strangers_ == 1 ? "" : "s", strangers_ == 1 ? "is" : "are",
                       stranger_line_, stranger_));
    std::vector<std::string> notes;
    std::map<std::string, int> curves;
    for (const LogTable& table : tables_) {
      if (table.rows.empty()) {
        if (tables_.size() == 1) fail(table.line, "the table has no rows");
        notes.push_back(fmt::format("{}:{}: the table has no rows", name_, table.line));
        continue;
      }
      const auto points = points_of(table, name_, hints_, notes);
      log_.points.insert(log_.points.end(), points.begin(), points.end());
      if (!points.empty()) ++curves[curve_name(points.front())];
    }
    for (const auto& [curve, tables] : curves)
      if (tables > 1)
        notes.push_back(fmt::format("{}: {} tables of {} make one curve: the median of each size",
                                    name_, tables, curve));
    log_.notes.insert(log_.notes.end(), notes.begin(), notes.end());
    if (log_.points.empty())
      fail(0, fmt::format("no table of this log makes a curve: {}", fmt::join(notes, "; ")));
  }

  static std::string curve_name(const MeasuredCollective& point) {
    return fmt::format("{}{} of {} ranks on {} node{}", point.collective,
                       point.algorithm.empty() ? "" : " (" + point.algorithm + ")", point.ranks,
                       point.nodes, point.nodes == 1 ? "" : "s");
  }

  std::string_view text_;
  const std::string& name_;
  const NcclTestsHints& hints_;
  NcclTestsLog log_;
  std::vector<LogTable> tables_;
  LogRun next_;          // of the table to come
  bool closed_ = false;  // the last table has ended
  std::string exported_algorithm_;
  std::vector<std::string> pending_;  // words of a row that is not complete yet
  int pending_line_ = 0;
  int line_ = 0;
  std::string unread_, stranger_;
  int unread_line_ = 0, stranger_line_ = 0, strangers_ = 0;
};

}  // namespace

NcclTestsLog parse_nccl_tests(std::string_view text, const std::string& name,
                              const NcclTestsHints& hints) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{')
    return LogReader{text, name, hints}.read();
  if (text.find("\"inspector_output_format_version\"") != std::string_view::npos ||
      text.find("\"coll_perf\"") != std::string_view::npos)
    return parse_nccl_inspector(text, name, hints);
  if (text.find("\"results\"") != std::string_view::npos)
    return parse_nccl_tests_json(text, name, hints);
  throw InputError(SourcePosition{.file = name},
                   "is JSON, but neither of nccl-tests (-J) nor of NCCL's Inspector");
}

NcclTestsLog read_nccl_tests(const std::string& path, const NcclTestsHints& hints) {
  return parse_nccl_tests(load_text(path, largest_log), path, hints);
}

}  // namespace sim
