#include "real/host/kernels/kernels_dropout.hpp"

#include "real/host/operands.hpp"
#include "sim/base/check.hpp"

namespace real {

void drop(DropoutMask mask, std::uint64_t first, std::span<const float> values,
          std::span<const float> added, std::span<float> output) {
  SIM_CHECK(values.size() == output.size() && (added.empty() || added.size() == output.size()),
            values.size(), added.size(), output.size());
  for (std::size_t i = 0; i < output.size(); ++i) {
    const float kept = values[i] * mask.factor(first + i);
    output[i] = added.empty() ? kept : kept + added[i];
  }
}

namespace {

void drop_rows(const kernels::DropoutShape& shape, const void* input, const void* residual,
               void* output, kernels::StreamHandle) {
  const std::int64_t elements = shape.rows * shape.width;
  drop(DropoutMask{shape.dropout}, static_cast<std::uint64_t>(shape.first_row * shape.width),
       host::In{shape.dtype, input, elements}, host::In{shape.dtype, residual, elements},
       host::Out{shape.dtype, output, elements});
}

}  // namespace

const kernels::DropoutTable& host_dropout() {
  static constexpr kernels::DropoutTable table{.drop = drop_rows};
  return table;
}

}  // namespace real
