// Tables of collective curves: the first line that is "--" divides the curves from their index. Any
// text is an InputError or curves, each of which is predicted or skipped with a reason.
#include "sim/scores/curves.hpp"

#include <cstdint>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "tests/fuzz/support/require.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using fuzz::require;

// Large clusters are for the unit tests: they would take all the fuzzer's time.
void check_curve(const sim::Curve& curve) {
  constexpr int most_gpus = 64;
  if (curve.gpus > most_gpus) return;
  const sim::CurveResult result = sim::predict_curve(curve, sim::test::source_dir());
  if (!result.skipped.empty()) return;
  for (const sim::CurvePoint& point : result.curve.points)
    require(point.predicted >= sim::Duration{});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const std::size_t divide = text.find("\n--\n");
  if (divide == std::string_view::npos) return 0;
  try {
    for (const sim::Curve& curve :
         sim::read_curves(sim::CsvTable::parse(text.substr(0, divide), "curves"),
                          sim::CsvTable::parse(text.substr(divide + 4), "index")))
      check_curve(curve);
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
