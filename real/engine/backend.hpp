// One rank's device: runs a BoundProgram step by step. `host` and `cuda` implement it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "real/engine/bound_program.hpp"
#include "real/engine/kernels/routing_table.hpp"
#include "sim/layout/training.hpp"
#include "sim/timeline/timeline.hpp"

namespace real {

struct StepInput {
  std::int64_t step = 0;  // from 0
  // Token ids of this rank: the rows (token_rows()) of all samples of its micro-batches. Of a row
  // all but the last are inputs, all but the first targets.
  std::span<const std::int32_t> tokens;
  bool record = false;  // fill StepOutcome::spans
};

struct StepOutcome {
  // Sum over this rank's micro-batches of the mean loss per token; 0 on ranks without the head.
  double loss = 0;
  double gradient_norm = 0;      // before clipping
  std::vector<sim::Span> spans;  // one per operator, from the start of the step
  sim::Duration time{};          // of the step on this rank
  // First operator of the program that made a number that is not finite, or none.
  std::int64_t first_not_finite = -1;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual StepOutcome step(const StepInput& input) = 0;
  // The arena: initial weights, checkpoints, tests. Between steps only. Zero until it is written.
  virtual void read(std::int64_t offset, std::span<std::byte> to) = 0;
  virtual void write(std::int64_t offset, std::span<const std::byte> from) = 0;
  // Most bytes of arena ever in use and what the device holds besides (context, libraries).
  virtual std::int64_t arena_bytes() const = 0;
  virtual std::int64_t device_bytes_in_use() const = 0;
  // The experts that the tokens of this rank have chosen in the last step, by layer. Empty where
  // they choose evenly.
  virtual std::vector<LayerLoad> expert_loads() const { return {}; }
};

}  // namespace real
