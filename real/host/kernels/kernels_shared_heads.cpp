#include "real/host/kernels/kernels_shared_heads.hpp"

#include <algorithm>

#include "real/host/operands.hpp"
#include "sim/base/check.hpp"

namespace real::host {
namespace {

using kernels::SharedHeads;
using kernels::StreamHandle;

// visit(element of the rank's own tensor, element of what is gathered)
template <class Visit>
void for_each_shared(const SharedHeads& shape, Visit visit) {
  SIM_CHECK(shape.features % shape.ranks == 0, shape.features, shape.ranks);
  const std::int64_t width = shape.features / shape.ranks;
  for (std::int64_t token = 0; token < shape.tokens; ++token) {
    std::int64_t at = token * shape.row();
    for (const kernels::Range& range : shape.own)
      for (std::int64_t column = range.at; column < range.at + range.elements; ++column, ++at)
        visit(static_cast<std::size_t>(at),
              static_cast<std::size_t>((column / width * shape.tokens + token) * width +
                                       column % width));
  }
}

}  // namespace

void take_heads(const SharedHeads& shape, const void* gathered, void* own, StreamHandle) {
  const std::int64_t all = shape.tokens * shape.features;
  const In from{shape.dtype, gathered, all};
  const Out to{shape.dtype, own, all};
  const std::span<const float> parts = from;
  const std::span<float> rows = to;
  std::fill(rows.begin(), rows.end(), 0.0F);
  for_each_shared(shape, [&](std::size_t at, std::size_t part) { rows[at] = parts[part]; });
}

void spread_heads(const SharedHeads& shape, const void* own, void* gathered, StreamHandle) {
  const In from{shape.dtype, own, shape.tokens * shape.row()};
  const Out to{shape.dtype, gathered, shape.tokens * shape.features};
  const std::span<const float> rows = from;
  const std::span<float> parts = to;
  std::fill(parts.begin(), parts.end(), 0.0F);
  for_each_shared(shape, [&](std::size_t at, std::size_t part) { parts[part] = rows[at]; });
}

const kernels::SharedHeadsTable& host_shared_heads() {
#define STEPCAST_KERNEL(name) .name = host::name,
  static constexpr kernels::SharedHeadsTable table{STEPCAST_SHARED_HEADS_KERNELS(STEPCAST_KERNEL)};
#undef STEPCAST_KERNEL
  return table;
}

}  // namespace real::host
