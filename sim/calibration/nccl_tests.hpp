// Logs of nccl-tests and rccl-tests (github.com/NVIDIA/nccl-tests): measured points of collectives.
//
// A log holds any number of tables (runs), each with a collective, ranks and hosts of its own.
// Columns are found by their words, so all dialects are read: with the old `error` column and no
// root, with `#wrong` and root (2.13 and later), with columns of per-iteration statistics and time
// stamps. Labels of launchers, terminal codes and lines of NCCL's own log, also in the middle of a
// row, are passed over (nccl_log_line.hpp). The JSON of `-J` and the lines of NCCL's Inspector are
// read alike (nccl_json.hpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibration/measurements.hpp"
#include "sim/program/program.hpp"

namespace sim {

// Hosts that are trays of one NVLink domain, as a node of the cluster (NVL72: 18 trays of 4 GPUs).
struct TrayShape {
  int gpus = 0;   // of a tray
  int trays = 0;  // of a node
};

// NcclTestsHints: facts that a log does not always state.
struct NcclTestsHints {
  std::optional<std::string> collective{};  // word of CollectiveKind, or send_receive
  std::optional<int> ranks{};
  std::optional<int> nodes{};        // as the cluster counts them
  std::optional<TrayShape> trays{};  // absent: a host of the log is a node
};

struct NcclTestsLog {
  std::vector<MeasuredCollective> points{};  // tables in the log's order
  std::string device{};                      // as the log names it first; empty: it does not
  std::vector<std::string> versions{};       // "NCCL 2.29.3+cuda13.1"
  std::vector<std::string> notes{};          // parts left out or assumed, and why
};

// The better half of a row (out of place, in place) counts: NCCL users take either.
// Throws InputError, with the line: no table; a table without rows as the only one; a row that is
// none or whose rest is missing; wrong results (#wrong, FAILED); ranks, nodes or collective that
// neither table nor hints tell, hints that contradict a table, bandwidths that belong to another
// collective or number of ranks; outputs of several processes mixed.
NcclTestsLog read_nccl_tests(const std::string& path, const NcclTestsHints& hints = {});
NcclTestsLog parse_nccl_tests(std::string_view text, const std::string& name,
                              const NcclTestsHints& hints = {});

}  // namespace sim
