// Why a run is not as fast as its forecast: the difference, split into parts that sum to it
// exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/explain/matched_times.hpp"
#include "sim/explain/step_parts.hpp"
#include "sim/timeline/record.hpp"
#include "sim/trace/traced_run.hpp"

namespace sim {

// TroubleKind is why a step is longer than its forecast. The time of a part is that of its state
// (StepState) on one rank in the trace, less that in the forecast.
enum class TroubleKind : std::uint8_t {
  products,            // matrix products that both have
  attention,           // attention that both have
  memory_bound,        // other kernels that both have
  optimizer,           // the optimizer's that both have
  extra_kernels,       // kernels that the forecast does not have
  missing_kernels,     // kernels of the forecast that the trace does not have: below zero
  slower_collectives,  // exposed time of collectives that both have, as far as they take longer
  overlap,             // their other exposed time: it was hidden in the forecast
  extra_collectives,   // exposed collectives that the forecast does not have
  missing_collectives,
  stragglers,  // waiting for other ranks of collectives
  pipeline,    // messages between stages, exposed, and waiting for them
  host,        // the host issues too late; gaps between kernels
  synchronisation,
  data_loading,
  garbage,
  copies,
};
constexpr auto words_of(TroubleKind) {
  return std::array{Word{TroubleKind::products, "products"},
                    Word{TroubleKind::attention, "attention"},
                    Word{TroubleKind::memory_bound, "memory_bound"},
                    Word{TroubleKind::optimizer, "optimizer"},
                    Word{TroubleKind::extra_kernels, "extra_kernels"},
                    Word{TroubleKind::missing_kernels, "missing_kernels"},
                    Word{TroubleKind::slower_collectives, "slower_collectives"},
                    Word{TroubleKind::overlap, "overlap"},
                    Word{TroubleKind::extra_collectives, "extra_collectives"},
                    Word{TroubleKind::missing_collectives, "missing_collectives"},
                    Word{TroubleKind::stragglers, "stragglers"},
                    Word{TroubleKind::pipeline, "pipeline"},
                    Word{TroubleKind::host, "host"},
                    Word{TroubleKind::synchronisation, "synchronisation"},
                    Word{TroubleKind::data_loading, "data_loading"},
                    Word{TroubleKind::garbage, "garbage_collection"},
                    Word{TroubleKind::copies, "copies"}};
}

// An operator, a shape or a kernel within a part. Items sum to their part exactly.
struct WaterfallItem {
  std::string name{};
  Duration time{};  // measured less forecast
  // While it runs, hidden or not, in the trace and in the forecast; 0: it has no such time.
  Duration measured{}, forecast{};
  // Operators of the forecast's program of the rank; of idle time those that came late, the
  // latest first. Empty: it is a kernel that the forecast does not have.
  std::vector<std::uint32_t> ops{};
};

struct WaterfallPart {
  TroubleKind kind = TroubleKind::products;
  Duration time{};
  std::vector<WaterfallItem> items{};  // largest first, by size without sign
  std::string sentence{};              // in the terms of the field
};

// The step, simulated again with a part of it as slow as it was measured and all others as
// forecast.
struct TriedPart {
  std::string_view name{};  // of TimeFactors; "all of them"
  double factor = 1;        // on its time; of all of them: 1
  Duration step{};
};

struct Waterfall {
  RankId rank{};
  std::string step{};
  std::size_t step_index = 0;  // of the steps of the rank
  Duration measured{}, forecast{};
  std::vector<WaterfallPart> parts{};  // most time first; those below zero last
  // Signs that trace and scenario are not the same job; empty: none.
  std::vector<std::string> differences{};
  // The share, in the time of the step's kernels without communication, of operators of the
  // forecast.
  double matched = 0;
  MatchedTimes times{};
  std::vector<TriedPart> tried{};  // filled in by who can simulate; empty: nothing was tried
  // The rank that the others wait for most, and its own largest part; empty: nobody waits.
  std::string late{};
  std::optional<TroubleKind> late_kind{};  // that part
  Duration difference() const { return measured - forecast; }
  double slower() const { return to_seconds(measured) / to_seconds(forecast) - 1; }
};

// make_waterfall() looks at the rank whose waiting exceeds the forecast's by the median of all, in
// its step of median length. `forecast`: with the traced ranks. Throws InputError for a run without
// kernels, and for a forecast without the time of a step.
Waterfall make_waterfall(const TracedRun& run, const Record& forecast);

std::string waterfall_table(const Waterfall& waterfall, bool color);

}  // namespace sim
