#include "sim/sweep/distributed_sweep.hpp"

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/sources.hpp"

namespace sim {
namespace {

constexpr std::chrono::milliseconds between_looks{50};  // at whether to stop

void read_inputs(const SweepSpecification& specification, std::uint64_t point) {
  try {
    const std::vector<std::string> overrides = overrides_at(specification, point);
    if (specification.layout == LayoutMode::fixed)
      load_scenario(specification.path, overrides);
    else
      load_workload(ScenarioSources{specification.path, overrides});
  } catch (const InputError&) {
    // The point will say so itself.
  }
}

// "64", "200 Gbps", "x0.5": what can hardly name a file.
bool is_number(const std::string& value) {
  const std::size_t at = value.starts_with('x') ? 1 : 0;
  return at < value.size() && value[at] >= '0' && value[at] <= '9';
}

}  // namespace

Task forecast_units(const SweepSpecification& specification) {
  return [&](std::uint64_t unit) {
    return answer_text(forecast_point(specification.path, overrides_at(specification, unit),
                                      specification.layout));
  };
}

std::string read_sweep_answer(const ObjectReader& answer) {
  return answer_text(read_point(answer));
}

std::vector<InputFile> files_of(const SweepSpecification& specification) {
  const InputLog log;
  read_inputs(specification, 0);
  std::uint64_t stride = 1;  // of the last axis, which varies fastest
  for (std::size_t axis = specification.axes.size(); axis-- > 0;) {
    const std::vector<std::string>& values = specification.axes[axis].values;
    const bool numbers = std::all_of(values.begin(), values.end(), is_number);
    const std::size_t before = log.files().size();
    for (std::size_t i = 1; i < values.size(); ++i) {
      read_inputs(specification, i * stride);
      if (numbers && log.files().size() == before) break;
    }
    stride *= values.size();
  }
  return log.files();
}

bool DistributedSweep::run(const Control& control) {
  const std::uint64_t points = point_count(specification.axes);
  std::uint64_t next = 0;
  while (!control.stopped()) {
    for (; next < points && workers.is_free(); ++next)
      if (shard.owns(next) && !book.find(next)) workers.submit(next);
    if (next == points && workers.in_flight() == 0) return true;
    std::optional<Answered> answered = workers.next(between_looks);
    if (!answered) continue;
    if (file) file->append(answered->unit, answered->answer);
    book.add(answered->unit, std::move(answered->answer), {"this run", 0, 0});
    if (done) done();
  }
  return false;
}

Sweep DistributedSweep::result() const {
  std::vector<PointResult> points;
  for (std::uint64_t i = 0; i < point_count(specification.axes); ++i) {
    const std::string* answer = book.find(i);
    SIM_CHECK(answer != nullptr, i);
    points.push_back(point_of_text(*answer));
  }
  return sweep_of(specification, std::move(points));
}

}  // namespace sim
