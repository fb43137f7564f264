#include "sim/explain/same_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/config/data_files.hpp"
#include "sim/explain/activity_class.hpp"
#include "sim/topology/device_of_gpu.hpp"

namespace sim {
namespace {

// m and n change places where a library computes the transposed product.
using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
Shape shape_of(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) {
  return {std::min(m, n), std::max(m, n), k, batch};
}

std::string text_of_shape(const Shape& shape) {
  const auto [m, n, k, batch] = shape;
  return batch > 1 ? fmt::format("{} x {}x{}x{}", batch, m, n, k)
                   : fmt::format("{}x{}x{}", m, n, k);
}

// The work of a step, in a form that both sides have.
struct StepInventory {
  std::map<Shape, Duration> products{};
  std::size_t product_calls = 0;
  std::size_t product_launches = 0;  // as many or more, where an operator is several products
  bool shapes_told = true;
  std::map<std::string, std::size_t> collectives{};  // by kind
};

StepInventory measured_inventory(const RunRank& rank, const RankSteps& steps, std::size_t step) {
  StepInventory made;
  std::set<std::int32_t> issuers;
  for (std::size_t i = 0; i < rank.device.size(); ++i) {
    const DeviceActivity& activity = rank.device[i];
    if (steps.step_of[i] != static_cast<std::int32_t>(step)) continue;
    if (activity.kind == OpKind::collective) {
      const CollectiveCall call = call_of(rank, activity);
      if (call.kind) ++made.collectives[std::string{word(*call.kind)}];
    }
    if (activity.kind != OpKind::gemm) continue;
    if (activity.issuer < 0 || issuers.insert(activity.issuer).second) ++made.product_calls;
    if (activity.product < 0) {
      made.shapes_told = false;
      continue;
    }
    const Product& p = rank.products[static_cast<std::size_t>(activity.product)];
    made.products[shape_of(p.m, p.n, p.k, p.batch)] += activity.time();
  }
  return made;
}

StepInventory forecast_inventory(const Program& program, const RecordedTrack& track) {
  StepInventory made;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const Duration time = track.spans[op].end - track.spans[op].begin;
    if (time.count() == 0) continue;
    if (program.kind[op] == OpKind::collective)
      ++made.collectives[std::string{word(program.collectives[program.work[op]].kind)}];
    if (program.kind[op] != OpKind::gemm) continue;
    const Kernel& kernel = program.kernels[program.work[op]];
    ++made.product_calls;
    made.product_launches += static_cast<std::size_t>(std::max(1, kernel.launches));
    made.products[shape_of(kernel.m, kernel.n, kernel.k, kernel.batch)] += time;
  }
  return made;
}

// The shapes of `a` that `b` does not have, by time; and their share of the time of all.
std::string strange_shapes(const StepInventory& a, const StepInventory& b, const char* of,
                           const char* other) {
  Duration all{}, strange{};
  std::vector<std::pair<Duration, Shape>> shapes;
  for (const auto& [shape, time] : a.products) {
    all += time;
    if (b.products.count(shape) > 0) continue;
    strange += time;
    shapes.emplace_back(time, shape);
  }
  constexpr double least_said = 0.02;
  if (all.count() == 0 || to_seconds(strange) < least_said * to_seconds(all)) return {};
  std::sort(shapes.rbegin(), shapes.rend());
  std::string list;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, shapes.size()); ++i)
    list += (i > 0 ? ", " : "") + text_of_shape(shapes[i].second);
  if (shapes.size() > 3) list += fmt::format(" and {} more", shapes.size() - 3);
  return fmt::format(
      "products of shapes that {} does not have are {:.0f} % of the time of products "
      "in {}: {}",
      other, 100 * to_seconds(strange) / to_seconds(all), of, list);
}

void add_counts(const StepInventory& measured, const StepInventory& forecast,
                std::vector<std::string>& said) {
  const double calls = static_cast<double>(measured.product_calls);
  if (calls * 1.02 < static_cast<double>(forecast.product_calls) ||
      calls > 1.02 * static_cast<double>(forecast.product_launches))
    said.push_back(fmt::format("a step has {} matrix products in the trace, {} in the forecast",
                               measured.product_calls, forecast.product_calls));
  if (measured.collectives.empty() && forecast.collectives.empty()) return;
  std::set<std::string> kinds;
  for (const auto& [kind, count] : measured.collectives)
    kinds.insert(kind);
  for (const auto& [kind, count] : forecast.collectives)
    kinds.insert(kind);
  for (const std::string& kind : kinds) {
    const auto count = [&](const StepInventory& of) {
      const auto found = of.collectives.find(kind);
      return found == of.collectives.end() ? std::size_t{0} : found->second;
    };
    if (count(measured) != count(forecast))
      said.push_back(fmt::format("a step has {} {} in the trace, {} in the forecast",
                                 count(measured), kind, count(forecast)));
  }
}

}  // namespace

std::vector<std::string> job_differences(const TracedRun& run, std::size_t rank,
                                         const RankSteps& steps, std::size_t step,
                                         const Record& forecast, const RecordedTrack& track,
                                         double matched) {
  std::vector<std::string> said;
  if (run.world_size > 0 && run.world_size != forecast.world_size)
    said.push_back(fmt::format("the trace is of a job of {} ranks, the scenario of {}",
                               run.world_size, forecast.world_size));
  const StepInventory measured = measured_inventory(run.ranks[rank], steps, step);
  const StepInventory planned = forecast_inventory(forecast.programs[track.program], track);
  if (!measured.products.empty()) {
    for (const std::string& text :
         {strange_shapes(measured, planned, "the trace", "the forecast"),
          measured.shapes_told ? strange_shapes(planned, measured, "the forecast", "the trace")
                               : std::string{}})
      if (!text.empty()) said.push_back(text);
  }
  add_counts(measured, planned, said);
  constexpr double least_matched = 0.8;
  if (matched < least_matched)
    said.push_back(
        fmt::format("{:.0f} % of the time of the step's kernels is of operators that "
                    "the forecast has",
                    matched * 100));
  return said;
}

std::string device_difference(const TracedDevice& traced, const Device& forecast) {
  const std::string file = device_of_gpu(traced.name);
  if (file.empty()) return {};
  const std::string known = load_device(find_data_file("topologies/devices", file)).name;
  // Devices of a calibration have more words: "H100 SXM, measured".
  if (forecast.name.starts_with(known)) return {};
  return fmt::format("the trace is of '{}' ({}), the scenario of {}", traced.name, known,
                     forecast.name);
}

}  // namespace sim
