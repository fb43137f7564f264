// Mistakes in a text, as editors, transfers and strangers make them, drawn by seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fuzz {

// mutated is a pure function: `text` with one to four mistakes in bytes, lines or values.
std::string mutated(std::string_view text, std::uint64_t seed);

// Draws are asked for by hand: STEPCAST_MUTATIONS=20 for twenty times as many as in CI,
// STEPCAST_MUTATIONS_SEED=7 for others.
struct Draws {
  std::uint64_t count = 0;
  std::uint64_t seed = 1;
};
Draws draws(std::uint64_t count_in_ci);

}  // namespace fuzz
