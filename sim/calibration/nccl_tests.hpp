// Logs of nccl-tests (github.com/NVIDIA/nccl-tests): measured points of collectives.
//
// Columns are found by their words, so all dialects are read: with the old `error` column and no
// root, with `#wrong` and root (2.13 and later), with extra columns of per-iteration statistics and
// time stamps, and with the 2026 header and footer. Prefixes of `mpirun --tag-output`, ANSI codes
// and lines of NCCL's own log between the rows are passed over. The JSON of `-J` is refused.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibration/measurements.hpp"
#include "sim/plan/program.hpp"

namespace sim {

// What a log does not always say.
struct NcclTestsHints {
  std::optional<std::string> collective{};  // word of CollectiveKind, or send_receive
  std::optional<int> ranks{};
  std::optional<int> nodes{};
};

struct NcclTestsLog {
  std::vector<MeasuredCollective> points{};
  std::string device{};                 // as the log names it; empty: it does not
  std::vector<std::string> versions{};  // "NCCL 2.29.3+cuda13.1"
  std::vector<std::string> notes{};     // rows left out, and why
};

// The better half of a row (out of place, in place) counts: NCCL users take either.
// Throws InputError: no table, a row that is none, ranks or collective that neither log nor hints
// tell, a hint that contradicts the log.
NcclTestsLog read_nccl_tests(const std::string& path, const NcclTestsHints& hints = {});
NcclTestsLog parse_nccl_tests(std::string_view text, const std::string& name,
                              const NcclTestsHints& hints = {});

}  // namespace sim
