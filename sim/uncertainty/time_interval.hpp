// TimeInterval tells how sure a report is of its time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/base/words.hpp"

namespace sim {

// Where errors come from: docs/how-sure.md.
enum class ErrorSource : std::uint8_t {
  machine,         // a cluster under a framework: all of its jobs are off alike
  job,             // a model in a format on it, at any scale and layout
  layout,          // a layout of it, at any scale
  scale,           // the same per three doublings of the GPUs
  memory_kernels,  // the others: of the share of the step that is made of it
  host,
  tensor,
  data,
  pipeline
};
constexpr auto words_of(ErrorSource) {
  return std::array{Word{ErrorSource::machine, "machine"},
                    Word{ErrorSource::job, "job"},
                    Word{ErrorSource::layout, "layout"},
                    Word{ErrorSource::scale, "scale"},
                    Word{ErrorSource::memory_kernels, "memory_kernels"},
                    Word{ErrorSource::host, "host"},
                    Word{ErrorSource::tensor, "tensor"},
                    Word{ErrorSource::data, "data"},
                    Word{ErrorSource::pipeline, "pipeline"}};
}
inline constexpr std::size_t error_source_count = words_of(ErrorSource{}).size();

// unnamed_text says what a forecast is of whose job does not name its framework.
inline constexpr std::string_view unnamed_text =
    "framework.name is not set: the forecast has the kernels of Megatron-LM, the interval is that "
    "of "
    "frameworks which no preset knows";

struct TimeInterval {
  double low = 1, high = 1;         // of the forecast's time
  double level = 0;                 // share of such runs that are expected within
  int rows = 0, sets = 0;           // that it rests on
  int own_runs = 0;                 // of an anchor
  bool named = true;                // the job names its framework
  std::vector<std::string> unlike;  // traits of the job that no measured row has, "schedule gpipe"
  // Whether neither the job nor a run of one's own says how its framework runs.
  bool of_unknown_framework() const { return !named && own_runs == 0; }
  Duration shortest(Duration forecast) const { return scaled(forecast, low); }
  Duration longest(Duration forecast) const { return scaled(forecast, high); }

 private:
  static Duration scaled(Duration time, double factor) {
    return duration_from_seconds(to_seconds(time) * factor);
  }
};

}  // namespace sim
