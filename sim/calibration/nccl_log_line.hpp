// One line of a log of nccl-tests: what launchers and NCCL's own log add to it is taken off, and
// its words are told apart.
//
// Launchers put a label before each line, or before each piece that a program writes:
// `srun -l` "12: ", mpirun "[1,0]<stdout>:", MPICH "[0] ", torchrun "[rank0]:", `kubectl logs`
// "[pod/launcher/main] ", time stamps, "worker-0 | ". So nothing is looked for at the start of a
// line: a row is found by its type, a comment by its words, a header by its column names.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

std::vector<std::string_view> words_in(std::string_view line);
std::optional<double> number_in(std::string_view text);

// A line without terminal codes and the carriage return, up to the first message of NCCL's own log
// ("HOST:PID:TID [0] NCCL INFO ..."), which may begin in the middle of a row.
struct LogLine {
  std::string text{};
  bool cut = false;  // a message of NCCL followed
};
LogLine log_line(std::string_view raw);

// Where the columns of a table are. A half (out of place, in place) has a time, algbw, busbw and
// more; the words repeat.
struct LogColumns {
  std::size_t all = 0;        // columns of numbers; a time stamp at the end is not counted
  std::size_t half = 0;       // columns in one half
  bool typed = false;         // the third column is the type of the elements
  bool redop = false;         // the fourth is the reduction
  bool error_column = false;  // before 2.13: the largest deviation instead of a count
  std::vector<std::size_t> times{}, algs{}, buses{}, wrongs{};
};
// The columns of a header with size, time, algbw, busbw; nothing otherwise.
std::optional<LogColumns> log_columns(std::string_view line);

// The words of a row in `text`, from its size on, as far as they are values; empty: none begins
// here.
struct RowPiece {
  std::vector<std::string> words{};
  bool ended = true;  // false: other text follows the values
};
RowPiece row_piece(const std::string& text, const LogColumns& columns);
// The values at the end of a line that has no others: the rest of a row that was interrupted.
RowPiece rest_of_row(const std::string& text);

// Without the labels of launchers at its start.
std::string without_labels(const std::string& text);
// The text of a comment of nccl-tests that starts with `words` ("Rank", "Out of bounds"), from
// there on; empty: it is none. The '#' may be missing (forums swallow it) only where `bare`.
std::string_view comment_of(std::string_view line, std::string_view words, bool bare);

}  // namespace sim
