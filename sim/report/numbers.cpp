#include "sim/report/numbers.hpp"

namespace sim {

double algorithm_bandwidth(const CollectiveSummary& row) {
  const double seconds = to_seconds(row.mean_time);
  return seconds > 0 ? static_cast<double>(row.bytes.count()) / seconds : 0;
}

double link_use(const Report& report, std::size_t link) {
  const double most =
      report.link_capacities[link].in_bytes_per_second() * to_seconds(report.step_time);
  return most > 0 ? static_cast<double>(report.busiest_links[link].carried.count()) / most : 0;
}

}  // namespace sim
