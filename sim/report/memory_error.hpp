// The error of the memory forecast: how much more than `stepcast memory` says measured runs needed.
// The figures are data, validation/memory-error.yaml, which `stepcast validate memory-error`
// makes of the measured rows.
// validation/MEMORY.md, "The margin", defines them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/framework/framework.hpp"
#include "sim/layout/layout.hpp"

namespace sim {

struct MemoryError {
  // fraction: a share of the forecast, 0 or more. With that much above it, nine in ten runs
  // found room.
  double fraction = 0;
  int rows = 0;  // that it rests on
  // measured: runs among `rows` whose memory was measured; of the others it is known whether they
  // ran.
  int measured = 0;
  std::string of;  // whose: "megatron 1f1b", "megatron", "all frameworks"
  // How much more than forecast such runs needed, of the forecast, by share of them: as many as
  // `excess_shares`, ascending; or none.
  std::vector<double> excess{};
  // unlike: properties of the job that no run has whose memory was measured, "parameters on the
  // host": then the other figures are the widest of all groups.
  std::vector<std::string> unlike{};
};

inline constexpr std::array excess_shares{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99};

// The share of such runs that fit where the device has `room` beyond the forecast, of the forecast:
// linear between two known shares, and not outside of the first and the last. REQUIRES: `excess`.
double chance_to_fit(const MemoryError& error, double room);

struct MemoryRange {
  Bytes low, high;
};
// The range of a forecast, from the 5% to the 95% quantile. REQUIRES: `excess`.
MemoryRange range_of(const MemoryError& error, Bytes forecast);

// The most that a forecast may say for nine in ten such runs to fit into `capacity`.
Bytes most_within(double fraction, Bytes capacity);

class MemoryErrors {
 public:
  // Throws InputError.
  static MemoryErrors load(const std::string& path);

  // of() is the error of the schedule under that framework, else of the framework, else of all.
  const MemoryError& of(FrameworkName framework, Schedule schedule) const;
  // The same of a job of these kinds (memory_kinds.hpp). One that no measured run has may be as far
  // off as the group of runs that is forecast worst: each quantile is the outermost of all groups.
  MemoryError of(FrameworkName framework, Schedule schedule,
                 const std::vector<std::string>& kinds) const;
  // The same from rows that are not of `set`: for forecasts of that set.
  const MemoryError& without(const std::string& set, FrameworkName framework,
                             Schedule schedule) const;

 private:
  struct Entry {
    std::string without;  // the set that is left out; empty: none is
    std::optional<FrameworkName> framework;
    std::optional<Schedule> schedule;
    MemoryError error;
  };
  const MemoryError* find(const std::string& without, FrameworkName framework,
                          Schedule schedule) const;
  std::vector<Entry> entries_;
  std::optional<std::vector<std::string>>
      kinds_;  // with a measured run; nothing: the file has none
};

// The shipped figures; nothing where the data folder has none.
std::optional<MemoryErrors> shipped_memory_errors();

}  // namespace sim
