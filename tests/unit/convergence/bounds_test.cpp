// Bounds of the theory, as text.
#include "sim/convergence/bounds.hpp"

#include <nlohmann/json.hpp>

#include "tests/catch.hpp"

namespace sim {

TEST_CASE("every bound says what is proved, under which assumption, and where") {
  CHECK(convergence_bounds().size() == 8);
  for (const ConvergenceBound& bound : convergence_bounds()) {
    INFO(bound.scheme);
    CHECK(bound.proved.ends_with("."));
    CHECK(bound.assumes.ends_with("."));
    CHECK(bound.source.find("arXiv:") != std::string_view::npos);
    CHECK(bounds_table().find(bound.scheme) != std::string::npos);
  }
  CHECK(bounds_table().find("No factor follows from them") != std::string::npos);
  CHECK(bounds_markdown().find("| scheme |") != std::string::npos);
  CHECK(nlohmann::json::parse(bounds_json()).size() == 8);
  CHECK(bounds_csv().starts_with("scheme,keys,proved,assumes,source\n"));
}

}  // namespace sim
