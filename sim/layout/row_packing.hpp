// Sequences of a data set as the rows of its batches: packed several to a row, or one each.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/layout/layout.hpp"

namespace sim {

// A row, as a kernel of attention sees it. Lengths are at most Layout::sequence_length.
struct PackedRow {
  std::int64_t real = 0;       // tokens of the data set
  std::int64_t filled = 0;     // with what each sequence is padded to by itself
  std::int64_t sequences = 0;  // 0: of padding alone
  // Sums of squares of lengths: of what is real, and of what is computed.
  double real_squares = 0, squares = 0;
};

struct PackedRows {
  std::vector<PackedRow> rows;
  std::int64_t sequences = 0, cut = 0;  // those that were longer than a row, and lost their end
};

// Lengths to which each sequence of a row is padded are multiples of this
// (Layout::packing_multiple; 0 there: what the split over context and tensor ranks asks for, as
// Megatron-Bridge at 067f987d derives pad_seq_to_mult: training/config.py,
// collate_padding_multiple).
std::int64_t length_multiple(const Layout& layout);

// Rows of a sample of the data set, in the order of a data set that was shuffled. Behind the last
// sequence, the rest of a row is one more sequence of padding (Megatron-Bridge,
// data/packing/gpt_sft.py: cu_seqlens ends at the length of the row).
// REQUIRES: layout.has_lengths().
PackedRows packed_rows(const Layout& layout);

}  // namespace sim
