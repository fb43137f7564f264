#include "sim/search/progress_text.hpp"

#include <fmt/format.h>

#include "sim/base/table_text.hpp"
#include "sim/search/result.hpp"

namespace sim {

std::string progress_line(const SearchProgress& progress) {
  const SearchCounts& counts = progress.counts;
  const std::uint64_t decided = counts.legal - counts.open;
  const double rate = progress.seconds > 0 ? static_cast<double>(decided) / progress.seconds : 0;
  const double left = rate > 0 ? static_cast<double>(counts.open) / rate : 0;
  return fmt::format("{} of {} layouts decided, {} simulated, {}/s, at most {:.0f} s left, best {}",
                     grouped(decided), grouped(counts.legal), grouped(counts.simulated),
                     significant(rate), left,
                     progress.best ? precise(progress.best->step_time) : "none yet");
}

std::string stopped_line(const Search& search) {
  const std::optional<Evaluation> best = search.ranking().favourite();
  if (!best) return "stopped before a layout was found";
  return fmt::format("stopped; best so far: {}, {}", precise(best->step_time),
                     describe(layout_of(search.specification(), search.candidates(), best->index)));
}

std::string rate_line(const SearchCounts& counts, double seconds) {
  const std::uint64_t decided = counts.legal - counts.open;
  return fmt::format("{} layouts in {:.1f} s: {} layouts/s", grouped(decided), seconds,
                     significant(static_cast<double>(decided) / seconds));
}

}  // namespace sim
