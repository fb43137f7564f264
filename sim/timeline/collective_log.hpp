// Every collective of a rank in a step: when what it sends was ready, when it was launched and
// done, and which part of it kernels hid. For a step that ran and for one that was simulated alike.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"

namespace sim {

struct CollectiveEntry {
  OpId op;
  std::string name;  // of the operator
  CollectiveKind kind = CollectiveKind::all_reduce;
  GroupRole group = GroupRole::data;
  std::optional<std::uint32_t> bucket{};  // of parameters, where it acts on one
  Bytes bytes{};                          // Collective::bytes
  int ranks = 1;
  // ready: all operators of the step that make what it sends are done (0: none does).
  // launched: the rank begins it. active: all partners have. done: the rank has its result.
  TimePoint ready{}, launched{}, active{}, done{};
  Duration hidden{};  // of launched..done: the rank runs kernels
  Duration exposed() const { return done - launched - hidden; }
  bool operator==(const CollectiveEntry&) const = default;
};

// In order of launch. REQUIRES: `track` is of a rank of `plan`, one span per operator.
std::vector<CollectiveEntry> log_collectives(const Plan& plan, const RankTrack& track);

// Hockney's model (1994) of a message of m bytes: alpha + m / beta. A collective of n bytes on p
// ranks counts as a ring: an all-reduce as 2 (p - 1) messages of n / p bytes one after another, an
// all-gather or a reduce-scatter as p - 1.
struct AlphaBeta {
  Duration alpha{};
  Bandwidth beta{};
  std::size_t collectives = 0;  // that it was fitted to
  bool operator==(const AlphaBeta&) const = default;
};
// Least squares of relative errors, to active..done of the collectives that no kernel runs beside;
// alpha is not below 0. Empty where those are not of two sizes, or do not take longer the larger
// they are. What is neither all-reduce, all-gather nor reduce-scatter takes no part.
std::optional<AlphaBeta> fit_alpha_beta(std::span<const CollectiveEntry> entries);
// Empty for a collective that the model does not know.
std::optional<Duration> time_of(const AlphaBeta& model, const CollectiveEntry& entry);

// A line for each collective, and the sums. `fit` may be empty; `alone`: what a forecast gives each
// collective by itself, or nothing.
std::string collective_log_text(std::span<const CollectiveEntry> entries,
                                const std::optional<AlphaBeta>& fit,
                                std::span<const Duration> alone = {});

}  // namespace sim
