// The published runs beside their forecasts: within validation/bounds.yaml, and what is shipped of
// them is today's.
#include <fstream>
#include <iterator>

#include "sim/scores/published.hpp"
#include "sim/scores/scatter.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

const std::string folder = test::source_dir() + "/validation";

using Problems = std::vector<std::string>;

#ifdef STEPCAST_ALL_SETS

std::string text_of(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

TEST_CASE("the published runs keep within their bounds, and what is shipped of them is today's",
          "[published]") {
  const std::vector<SetResult> results = validate_sets(load_sets(folder, {}), {}, {.traits = true});
  CHECK(beyond_bounds(results, folder) == Problems{});
  CHECK(has_memory_error_of(folder, results));
  CHECK(scatter_svg(results) == text_of(folder + "/predicted-measured.svg"));

  const TimeErrorFit fit = time_error_of(results);
  CHECK(has_time_error_of(folder, fit));
  CHECK(beyond_bounds(std::span<const Coverage>{fit.coverage}, folder) == Problems{});

  const std::vector<SetResult> unnamed =
      validate_sets(load_sets(folder, {}), {}, {.without = Mechanism::framework, .traits = true});
  const UnnamedErrorFit of_unnamed =
      fit_unnamed_error(unnamed_rows(unnamed), error_rows(results), fit);
  CHECK(has_unnamed_error_of(folder, of_unnamed));
  CHECK(beyond_bounds(of_unnamed, folder) == Problems{});

  const std::vector<AnchoredGroup> groups = anchored_groups(results, fit);
  CHECK(beyond_bounds(std::span<const AnchoredGroup>{groups}, folder) == Problems{});
}

#else

TEST_CASE("the smallest published sets keep within their bounds", "[published]") {
  const std::vector<MeasuredSet> sets =
      load_sets(folder, {"sc21_table1", "korthikanti_tab5", "korthikanti_tab4_layer"});
  CHECK(beyond_bounds(validate_sets(sets), folder) == Problems{});
}

#endif

}  // namespace
