// A timeline as columns: one array per property, a row per operator that ran. NumPy and pandas take
// them through the buffer protocol, without a copy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"

namespace stepcast_python {

struct TimelineColumns {
  std::vector<std::int32_t> rank;         // global rank
  std::vector<std::int32_t> represents;   // ranks that do exactly the same
  std::vector<std::int32_t> stage;        // pipeline stage
  std::vector<std::int32_t> name;         // index into `names`
  std::vector<std::int32_t> stream;       // index into `streams`
  std::vector<std::int32_t> layer;        // -1: of no layer
  std::vector<std::int32_t> micro_batch;  // -1: of none
  std::vector<std::int64_t> begin_ps, active_ps, end_ps;
  std::vector<std::string> names, streams;
};

// `active` is when all partners of a communication had arrived; for kernels it is `begin`.
std::shared_ptr<const TimelineColumns> columns_of(const sim::Plan& plan,
                                                  const sim::Timeline& timeline);

}  // namespace stepcast_python
