// Factors of curves that are straight lines, so that every step and factor follows by hand.
#pragma once

#include <vector>

#include "sim/convergence/tables.hpp"

namespace sim::test {

// Loss 5 at first, less by `slope` with every step.
inline LossCurve straight(std::size_t scheme, std::uint64_t seed, double slope, int steps = 101) {
  LossCurve curve{.scheme = scheme, .seed = seed, .end = SeedEnd::trained};
  for (int i = 0; i < steps; ++i)
    curve.losses.push_back(5 - slope * i);
  return curve;
}

// Three schemes and two seeds; 101 steps without smoothing, so a curve's last value is of step 100.
// The baseline falls by 1 (seed 7) and by 2 (seed 8); "half" at half the rate of each; "mixed" as
// the baseline with one seed, by nothing with the other.
inline ConvergenceResult straight_lines() {
  ConvergenceResult result;
  ConvergenceFactors& factors = result.factors;
  factors.setting = {.suite = "lines",
                     .title = "straight lines",
                     .program = "stepcast 0",
                     .date = "2026-01-01T00:00:00Z",
                     .model = "none",
                     .parameters = 1000,
                     .scenario = "a \"base\"",
                     .data = "text.txt",
                     .optimizer = "adam",
                     .learning_rate = 1e-3,
                     .replicas = 4,
                     .global_batch = 8,
                     .sequence_length = 16,
                     .steps = 101,
                     .seeds = {7, 8},
                     .smoothing = 1};
  factors.targets = {{TargetKind::fall, 0.5}, {TargetKind::fall, 0.8}, {TargetKind::loss, 4.5}};
  factors.schemes = {
      {{.name = "none"}, Bytes{1000}, {}},
      {{.name = "half", .set = {{"layout.compression.density", "0.010"}}}, Bytes{10}, {}},
      {{.name = "mixed", .set = {{"layout.zero_stage", "3"}}, .warm_up = 5}, Bytes{500}, {}}};
  result.curves = {straight(0, 7, 0.01), straight(0, 8, 0.02), straight(1, 7, 0.005),
                   straight(1, 8, 0.01), straight(2, 7, 0.01), straight(2, 8, 0)};
  score_curves(factors, result.curves);
  return result;
}

}  // namespace sim::test
