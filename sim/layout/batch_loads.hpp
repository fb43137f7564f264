// Loads of a step that follow from the sequences of a data set: how full rows are, and the work of
// the replica for which all others wait.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/layout/layout.hpp"

namespace sim {

// A micro-batch: its rows are equally long.
struct MicroBatchLoad {
  std::int64_t tokens = 0;  // of a row, padding included
  double attended = 0;      // the length that a token's sequence has in the mean, padding included
  bool operator==(const MicroBatchLoad&) const = default;
};

struct BatchLoads {
  // The micro-batches of one replica in one step, in their order: a mean over many steps of the
  // slowest replica, for which the others wait.
  std::vector<MicroBatchLoad> waited_for;
  std::int64_t longest_row = 0;  // of the data, for memory: what it is padded to
  double tokens = 0;             // of a row in the mean, padding included
  double real_tokens = 0;        // of a row in the mean, without padding
  double attended = 0;           // as above, of all rows
  double real_attended = 0;      // without padding
  double sequences = 0;          // of a row
  double cut = 0;                // share of the sequences that lost their end
  // Work of the replica that is waited for, over the mean one: all its FLOPs, and those of
  // attention.
  double imbalance = 1, attention_imbalance = 1;
  // A replica of a group that goes layer by layer together waits in each micro-batch.
  int together = 1;

  double real_share() const { return real_tokens / tokens; }
};

// `attention_weight`: FLOPs of attention that a token has for each token of its sequence, over its
// other FLOPs.
// REQUIRES: layout.has_lengths(), layout_problems() finds nothing.
BatchLoads batch_loads(const Layout& layout, double attention_weight);

}  // namespace sim
