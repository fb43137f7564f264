// Normally distributed numbers by the million: what initial weights are made of.
#pragma once

#include <cstdint>
#include <span>

namespace real {

// Numbers [first, first + values.size()) of a stream of normal ones with mean 0: a pure function of
// (seed, stream, index). Box and Muller (1958) on the counter-based uniform numbers of
// sim/base/random.hpp: two of those make two neighbours. Logarithm, sine and cosine are polynomials
// in double that a compiler makes vector code of, the same numbers at every vector width.
void normal_values(std::uint64_t seed, std::uint64_t stream, std::int64_t first, double deviation,
                   std::span<float> values);

}  // namespace real
