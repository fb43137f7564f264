// Two sequences put side by side: the cheapest way to pair their entries in order and to leave out
// the rest (Needleman and Wunsch 1970).
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace sim {

using SequencePairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// The most entries of one sequence times those of the other that match_sequences() takes.
inline constexpr std::size_t most_sequence_pairs = 4'000'000;

// match_sequences() gives pairs (i, j), ascending in both, of sequences of `n` and `m` entries. A
// pair costs cost(i, j), an entry that is left out `left_out`. REQUIRES: n m <=
// most_sequence_pairs.
SequencePairs match_sequences(std::uint32_t n, std::uint32_t m,
                              const std::function<double(std::uint32_t i, std::uint32_t j)>& cost,
                              double left_out);

}  // namespace sim
