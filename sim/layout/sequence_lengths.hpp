// Lengths of the sequences of a data set, and how they become batches (Layout::packing_lengths).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/words.hpp"

namespace sim {

// How sequences become the rows of a batch. The first four pack: several lie in a row, and
// attention stays within each.
//  first_fit_decreasing  each into the first row with room, the longest first (NeMo and
//                        Megatron-Bridge, data/packing/algorithms.py; axolotl's multipack)
//  first_fit_shuffle     the same, in an order of chance (the same file)
//  best_fit_decreasing   into the fullest row with room, the longest first (TRL, packing_strategy
//                        bfd)
//  concatenated          one behind the other, cut where a row ends: nothing is padded
//  pad_to_longest        a row each, padded to the longest of its micro-batch (Hugging Face's
//                        collators; Megatron-LM, --variable-seq-lengths)
//  pad_by_length         the same, where the sampler has put like lengths together (Hugging Face,
//                        group_by_length)
enum class Packing : std::uint8_t {
  first_fit_decreasing,
  first_fit_shuffle,
  best_fit_decreasing,
  concatenated,
  pad_to_longest,
  pad_by_length
};
constexpr auto words_of(Packing) {
  return std::array{Word{Packing::first_fit_decreasing, "first_fit_decreasing"},
                    Word{Packing::first_fit_shuffle, "first_fit_shuffle"},
                    Word{Packing::best_fit_decreasing, "best_fit_decreasing"},
                    Word{Packing::concatenated, "concatenated"},
                    Word{Packing::pad_to_longest, "pad_to_longest"},
                    Word{Packing::pad_by_length, "pad_by_length"}};
}
constexpr bool pads_rows(Packing method) {
  return method == Packing::pad_to_longest || method == Packing::pad_by_length;
}

// LengthCount is a length, and how many sequences of a data set have it.
struct LengthCount {
  std::int64_t length = 0, count = 0;
  bool operator==(const LengthCount&) const = default;
};

// Where lengths come from: "none", "lognormal", or the path of a file.
struct LengthSource {
  std::string name{"none"};
  // Lengths of a file, the shortest first. Layouts are copied by the thousand and share it.
  std::shared_ptr<const std::vector<LengthCount>> measured;

  bool exists() const { return name != "none"; }
  bool is_file() const { return exists() && name != "lognormal"; }
  bool operator==(const LengthSource& other) const {
    return name == other.name && !measured == !other.measured &&
           (!measured || *measured == *other.measured);
  }
};

// A length in each line, or a length and a count: "812", "812,30". A first line of words is a
// header, '#' begins a comment. Throws InputError with all that is wrong.
std::vector<LengthCount> read_lengths(const std::string& path);

}  // namespace sim
