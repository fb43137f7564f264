// Layouts drawn at random, for properties that all of them must have.
#pragma once

#include <cstdint>
#include <string>

#include "sim/layout/layout.hpp"

namespace sim::test {

// Often not a legal one: ask layout_problems().
Layout random_layout(std::uint64_t seed);
std::string to_text(const Layout& layout);

}  // namespace sim::test
