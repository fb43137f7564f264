// Tables whose rows are looked up by token or by position.
#pragma once

#include <cstdint>
#include <span>

#include "real/engine/kernels.hpp"

namespace real {

// Rows first .. first + rows of a table are here; other tokens give zeros, so that the sum over the
// ranks that share the table is the whole lookup.
struct TableSlice {
  std::int64_t first = 0, rows = 0, width = 0;
};
void lookup(const TableSlice& slice, const kernels::TokenIds& ids, std::span<const float> table,
            std::span<float> out);
// dtable[id] += dout, token by token
void lookup_backward(const TableSlice& slice, const kernels::TokenIds& ids,
                     std::span<const float> dout, std::span<float> dtable, bool accumulate);

// Rows of `width` elements by position.
struct PositionShape {
  kernels::Positions positions;
  std::int64_t width = 0;
};
void add_positions(const PositionShape& shape, std::span<const float> x,
                   std::span<const float> table, std::span<float> out);
void add_positions_backward(const PositionShape& shape, std::span<const float> dout,
                            std::span<float> dtable, bool accumulate);

}  // namespace real
