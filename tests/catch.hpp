// Catch2 in either generation: 2.13 (Debian 12) or 3.x (Ubuntu 24.04). Tests stay within what both
// know: REQUIRE_THROWS_WITH(e, "text"), WithinRel, GENERATE, SECTION.
#pragma once

#include <string>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;
inline auto contains_text(const std::string& part) {
  return Catch::Matchers::ContainsSubstring(part);
}
#else
#include <catch2/catch.hpp>
using Catch::WithinAbs;
using Catch::WithinRel;
inline auto contains_text(const std::string& part) {
  return Catch::Contains(part);
}
#endif
