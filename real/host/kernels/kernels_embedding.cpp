#include "real/host/kernels/kernels_embedding.hpp"

#include "real/host/eigen_maps.hpp"

namespace real {

void lookup(const TableSlice& slice, const kernels::TokenIds& ids, std::span<const float> table,
            std::span<float> out) {
  SIM_CHECK(static_cast<std::int64_t>(table.size()) == slice.rows * slice.width &&
                out.size() == static_cast<std::size_t>(ids.tokens * slice.width),
            table.size(), out.size(), ids.tokens);
  for (std::int64_t t = 0; t < ids.tokens; ++t) {
    const std::int64_t local = ids[t] - slice.first;
    auto to = array(row(out, t, slice.width));
    if (local < 0 || local >= slice.rows) {
      to.setZero();
    } else {
      to = array(row(table, local, slice.width));
    }
  }
}

void lookup_backward(const TableSlice& slice, const kernels::TokenIds& ids,
                     std::span<const float> dout, std::span<float> dtable, bool accumulate) {
  SIM_CHECK(static_cast<std::int64_t>(dtable.size()) == slice.rows * slice.width &&
                dout.size() == static_cast<std::size_t>(ids.tokens * slice.width),
            dtable.size(), dout.size(), ids.tokens);
  if (!accumulate) array(dtable).setZero();
  for (std::int64_t t = 0; t < ids.tokens; ++t) {
    const std::int64_t local = ids[t] - slice.first;
    if (local < 0 || local >= slice.rows) continue;
    array(row(dtable, local, slice.width)) += array(row(dout, t, slice.width));
  }
}

void add_positions(const PositionShape& shape, std::span<const float> x,
                   std::span<const float> table, std::span<float> out) {
  for (std::int64_t t = 0; t < shape.positions.tokens; ++t) {
    const std::int64_t position = shape.positions.position(t);
    array(row(out, t, shape.width)) =
        array(row(x, t, shape.width)) + array(row(table, position, shape.width));
  }
}

void add_positions_backward(const PositionShape& shape, std::span<const float> dout,
                            std::span<float> dtable, bool accumulate) {
  if (!accumulate) array(dtable).setZero();
  for (std::int64_t t = 0; t < shape.positions.tokens; ++t) {
    const std::int64_t position = shape.positions.position(t);
    array(row(dtable, position, shape.width)) += array(row(dout, t, shape.width));
  }
}

}  // namespace real
