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
  const std::int64_t elements = shape.tokens.tokens * shape.width;
  const host::In values{shape.dtype, input, elements};
  const host::In added{shape.dtype, residual, elements};
  const host::Out result{shape.dtype, output, elements};
  const DropoutMask mask{shape.dropout};
  const auto of = [&](auto span, std::int64_t t) {
    return span.empty() ? span
                        : span.subspan(static_cast<std::size_t>(t * shape.width),
                                       static_cast<std::size_t>(shape.width));
  };
  for (std::int64_t t = 0; t < shape.tokens.tokens; ++t)
    drop(mask, static_cast<std::uint64_t>(shape.row(t) * shape.width),
         of(std::span<const float>{values}, t), of(std::span<const float>{added}, t),
         of(std::span<float>{result}, t));
}

}  // namespace

const kernels::DropoutTable& host_dropout() {
  static constexpr kernels::DropoutTable table{.drop = drop_rows};
  return table;
}

}  // namespace real
