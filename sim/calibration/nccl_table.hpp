// One table of a log of nccl-tests, and what the log said before it: which collective, on which
// ranks of which hosts.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibration/nccl_log_line.hpp"
#include "sim/calibration/nccl_tests.hpp"

namespace sim {

// The longest time of a collective that a log may state, in microseconds.
inline constexpr double longest_us = 1e12;

struct LogRank {
  int line = 0;
  std::string text{};  // the whole line of the list, from "Rank" on
  std::string host{};
  std::string device{};  // number on the host
  int group = 0;
};

// LogRun is the text before a table, or between its header and its rows.
struct LogRun {
  std::string program{};  // "all_reduce_perf"; empty: not named
  int program_line = 0;
  std::string algorithm{};  // value of NCCL_ALGO; empty: NCCL's choice
  std::map<int, LogRank> ranks{};
  int grouped_iterations = 1;  // "agg iters"
};

struct LogRow {
  int line = 0;
  double size = 0;          // bytes
  double microseconds = 0;  // 0: neither half was run
  double bus_over_alg = 0;  // 0: not known
  std::string type{};
  std::string reduction{};
};

struct LogTable {
  int line = 0;  // of the header
  LogColumns columns{};
  LogRun run{};
  std::vector<LogRow> rows{};
};

// The collective of a program of nccl-tests; nullptr: none of them. Empty: no forecast has such a
// collective (gather, scatter, hypercube).
const std::string_view* collective_of(std::string_view program);
// The program named in a line; empty: none.
std::string_view program_in(std::string_view line);

// racks_of: the fewest racks that hold so many hosts, which are trays, as many in each.
int racks_of(int hosts, const TrayShape& shape);

// The points of a table, notes on the way. Throws InputError (file `name`).
std::vector<MeasuredCollective> points_of(const LogTable& table, const std::string& name,
                                          const NcclTestsHints& hints,
                                          std::vector<std::string>& notes);

}  // namespace sim
