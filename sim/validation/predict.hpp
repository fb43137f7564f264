// Simulates a row of published measurements.
#pragma once

#include <optional>
#include <string>

#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"
#include "sim/validation/measured.hpp"

namespace sim {

struct Prediction {
  Duration time{};      // of what the set's `quantity` names
  Bytes peak_memory{};  // of the worst rank, with what the device reserves
  Bytes plan_memory{};  // without it
  // Of the activations at their peak, where the row has such a share.
  double activation_share = 0;
  bool fits = false;
};

struct RowResult {
  MeasuredRow row;
  std::optional<Prediction> prediction;
  std::string skipped;  // why there is no prediction

  bool scored() const { return prediction && row.use == RowUse::score && row.has_time(); }
  bool memory_scored() const { return prediction && row.use == RowUse::score && row.has_memory(); }
  // (predicted - measured) / measured. REQUIRES: a prediction, and a row with a time.
  double error() const;
  // The same of its memory, or of its share of activations. REQUIRES: row.has_memory().
  double memory_error() const;
};

// A scenario that cannot be read or simulated is a result too: `skipped` says why.
RowResult predict(const MeasuredSet& set, const MeasuredRow& row);

// Time that the first recorded rank with layer `layer` spends on it: from the start of the first
// to the end of the last of its forward operators, and the same of recomputation and backward.
// Zero if no recorded rank has it. REQUIRES: one micro-batch.
Duration layer_time(const Plan& plan, const Timeline& timeline, int layer);

}  // namespace sim
