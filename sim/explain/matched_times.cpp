#include "sim/explain/matched_times.hpp"

#include <algorithm>
#include <optional>

namespace sim {
namespace {

std::size_t factor_index(double TimeFactors::*member) {
  const auto* const found =
      std::find_if(time_factor_fields.begin(), time_factor_fields.end(),
                   [&](const TimeFactorField& field) { return field.member == member; });
  return static_cast<std::size_t>(found - time_factor_fields.begin());
}

std::optional<std::size_t> factor_of(const Program& program, std::uint32_t op) {
  const OpKind kind = program.kind[op];
  if (kind == OpKind::gemm || kind == OpKind::attention)
    return factor_index(&TimeFactors::products);
  if (runs_kernel(kind) && !is_of_host(kind)) return factor_index(&TimeFactors::memory_kernels);
  if (kind != OpKind::collective) return std::nullopt;
  return is_within_layers(program.collectives[program.work[op]].group)
             ? factor_index(&TimeFactors::tensor)
             : factor_index(&TimeFactors::data);
}

}  // namespace

MatchedTimes matched_times(const StepAccount& measured, const StepAccount& forecast,
                           const Program& program, const std::vector<bool>& matched_ops) {
  MatchedTimes times;
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const std::optional<std::size_t> factor = factor_of(program, op);
    if (!factor || !matched_ops[op]) continue;
    times[*factor].measured += measured.ops[op].running;
    times[*factor].forecast += forecast.ops[op].running;
  }
  return times;
}

std::optional<double> measured_factor(const MatchedTime& time, Duration step) {
  constexpr double least_part = 0.01;
  const double least = least_part * to_seconds(step);
  if (to_seconds(time.forecast) < least || to_seconds(time.measured) < least) return std::nullopt;
  return to_seconds(time.measured) / to_seconds(time.forecast);
}

}  // namespace sim
