// Measured collectives in JSON: the file of `nccl-tests -J`, and the lines of NCCL's Inspector.
#pragma once

#include <string>
#include <string_view>

#include "sim/calibration/nccl_tests.hpp"

namespace sim {

// parse_nccl_tests_json: as its text output (parse_nccl_tests); keys of NVIDIA/nccl-tests at
// 0fdb00a3, src/util.cu. Throws InputError for the same reasons.
NcclTestsLog parse_nccl_tests_json(std::string_view text, const std::string& name,
                                   const NcclTestsHints& hints);

// parse_nccl_inspector: each line is a call of a collective by a rank (NVIDIA/nccl at 3254c695,
// plugins/profiler/inspector/README.md). A call counts the shortest kernel among the ranks in the
// file, a size the median of its calls. `hints.ranks` and `hints.collective` choose among the
// communicators. Throws InputError where no line is of a collective that makes a curve, and for a
// bandwidth that does not follow from the size and the time.
NcclTestsLog parse_nccl_inspector(std::string_view text, const std::string& name,
                                  const NcclTestsHints& hints);

}  // namespace sim
