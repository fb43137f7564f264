#include "sim/scores/real/real_drift.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"
#include "sim/base/median_interval.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/reader.hpp"
#include "sim/scores/score.hpp"

namespace sim {

std::optional<ReferenceTimes> load_reference(const std::string& cluster_path) {
  const Document cluster = Document::load(cluster_path);
  const ObjectReader top = cluster.root_object();
  if (!top.has("device")) return std::nullopt;
  const Document device =
      Document::load(referenced_file(cluster_path, top.text("device"), "topologies/devices"));
  const ObjectReader of_device = device.root_object();
  if (!of_device.has("reference")) return std::nullopt;
  const ObjectReader reference = of_device.object("reference");
  const ReferenceTimes times{.product = to_seconds(reference.duration("product")),
                             .copy = to_seconds(reference.duration("copy")),
                             .whole = to_seconds(reference.duration("whole"))};
  const bool usable = times.product > 0 && times.copy > 0 && times.whole > 0;
  return usable ? std::optional{times} : std::nullopt;
}

Drift take_out_drift(const StepsBesideReference& run, const ReferenceTimes& calibrated,
                     double waiting) {
  const std::size_t count = run.steps.size();
  SIM_CHECK(count > 0 && run.whole.size() == count + 2, count, run.whole.size());
  SIM_CHECK(run.product.size() == count + 2 && run.copy.size() == count + 2, count);
  std::vector<double> slowdowns, corrected;
  for (std::size_t i = 0; i < count; ++i) {
    slowdowns.push_back((run.whole[i] + run.whole[i + 1]) / 2 / calibrated.whole);
    corrected.push_back(run.steps[i] / slowdowns.back());
  }
  Drift drift;
  drift.measured = quantile(corrected, 0.5);
  drift.slowdown = quantile(slowdowns, 0.5);
  drift.recorded = (run.whole[count] + run.whole[count + 1]) / 2 / calibrated.whole;
  const double product = quantile(run.product, 0.5) / calibrated.product;
  const double copy = quantile(run.copy, 0.5) / calibrated.copy;
  const double disagreement = std::abs(product - copy) / 2 / std::min(product, copy);
  // Fewer than five steps have no known interval: their range stands for it.
  const auto [least, most] = std::minmax_element(corrected.begin(), corrected.end());
  const double interval =
      count < 5 ? (*most - *least) / 2 / drift.measured : median_half_width(corrected);
  drift.left = interval + disagreement + waiting * std::max(0.0, 1 - 1 / drift.slowdown);
  return drift;
}

}  // namespace sim
