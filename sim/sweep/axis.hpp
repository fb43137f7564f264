// Axes of a sweep: keys of a scenario, as --set names them, each with its values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/layered.hpp"

namespace sim {

struct Axis {
  std::string key;                  // "cluster.nodes", "cluster.change.node.nics.bandwidth"
  std::vector<std::string> values;  // as --set takes them, in the order given; never empty
  bool operator==(const Axis&) const = default;
};

inline constexpr std::size_t most_values = 10'000;       // of an axis
inline constexpr std::uint64_t most_points = 1'000'000;  // of a sweep

// The values of "1,2,4", of "8..64*2" (each twice the one before) or of "100 Gbps..400 Gbps+50" (in
// steps of 50; 1 if the step is left out). Throws std::invalid_argument that says what is wrong.
std::vector<std::string> axis_values(std::string_view text);

// Numbers of GPUs from such values, ascending. Throws InputError at `where`.
std::vector<int> gpu_counts(const std::string& text, const std::string& where);

// "KEY=VALUES" of --over. Throws InputError.
Axis parse_axis(const std::string& option);

// The `over` section: keys with lists or ranges. Records its problems there.
std::vector<Axis> read_axes(const ObjectReader& over);

// point_count() is of the grid of all axes; the last one varies fastest. No axis: one point.
std::uint64_t point_count(const std::vector<Axis>& axes);
// "key=value" of every axis. REQUIRES: point < point_count(axes).
std::vector<std::string> assignments(const std::vector<Axis>& axes, std::uint64_t point);
// The same without keys, by axis.
std::vector<std::string> values_at(const std::vector<Axis>& axes, std::uint64_t point);

}  // namespace sim
