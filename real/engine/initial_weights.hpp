// The weights that a run starts from: a pure function of the seed, the parameter's name and the
// place in it, so that every layout starts from the same model.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "real/engine/backend.hpp"
#include "real/engine/parameters.hpp"

namespace real {

// Elements [first, first + values.size()) of a parameter, row by row.
void initial_values(const Parameter& parameter, std::uint64_t seed, std::int64_t first,
                    std::span<float> values);

// Writes weights and masters into the arena of a new backend, which is zero: so are the moments.
// `threads` make the numbers.
void write_initial_state(const BoundProgram& bound, const std::vector<Parameter>& parameters,
                         std::uint64_t seed, int threads, Backend& backend);

}  // namespace real
