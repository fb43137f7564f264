#include "real/host/kernels/kernels_eight_bit.hpp"

#include <cmath>

#include "real/host/eigen_maps.hpp"
#include "real/host/kernels/host_kernels.hpp"

namespace real::host {

using kernels::CodedShape;
using kernels::Encoded;
using kernels::StreamHandle;

namespace {

// A magnitude as an integer: NaN is the largest, so it is seen.
std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
}

float larger(float a, float b) {
  return std::bit_cast<float>(std::max(magnitude(a), magnitude(b)));
}

// Rows and columns of a block, in the order in which a tensor lies.
struct Block {
  std::int64_t rows = 1, columns = 1;
};
Block block_shape(Scaling scaling, bool turned) {
  const std::int64_t size = block_of(scaling);
  if (scaling == Scaling::squares_of_128) return {size, size};
  return turned ? Block{size, 1} : Block{1, size};
}

// Codes of blocks with their scales behind, [rows, columns] or turned.
class BlockEncoder {
 public:
  BlockEncoder(const CodedShape& shape, std::span<const float> values, bool turned,
               std::uint8_t* codes)
      : shape_{shape},
        values_{values},
        turned_{turned},
        block_{block_shape(shape.scaling, turned)},
        codes_{codes},
        scales_{codes + shape.rows * shape.columns} {
    SIM_CHECK(shape.rows % block_.rows == 0 && shape.columns % block_.columns == 0, shape.rows,
              shape.columns);
  }

  void run() {
    for (std::int64_t row = 0; row < shape_.rows; row += block_.rows)
      for (std::int64_t column = 0; column < shape_.columns; column += block_.columns)
        encode_block(row, column);
  }

 private:
  template <class Visit>
  void for_each(std::int64_t row, std::int64_t column, Visit visit) const {
    for (std::int64_t r = row; r < row + block_.rows; ++r)
      for (std::int64_t c = column; c < column + block_.columns; ++c)
        visit(r, c, values_[static_cast<std::size_t>(r * shape_.columns + c)]);
  }

  void encode_block(std::int64_t row, std::int64_t column) {
    float most = 0;
    for_each(row, column,
             [&](std::int64_t, std::int64_t, float value) { most = larger(most, value); });
    const float factor = keep_scale(place(row, column), most);
    for_each(row, column, [&](std::int64_t r, std::int64_t c, float value) {
      codes_[turned_ ? c * shape_.rows + r : r * shape_.columns + c] =
          to_float8(value * factor, shape_.format);
    });
  }

  std::int64_t place(std::int64_t row, std::int64_t column) const {
    const std::int64_t r = row / block_.rows, c = column / block_.columns;
    return turned_ ? c * (shape_.rows / block_.rows) + r
                   : r * (shape_.columns / block_.columns) + c;
  }

  // What the block is multiplied by.
  float keep_scale(std::int64_t at, float most) {
    if (shape_.scaling == Scaling::blocks_of_32) {
      scales_[at] = block_exponent(most, shape_.format);
      return exponent_inverse(scales_[at]);
    }
    const float scale = power_scale_for(most, shape_.format);
    reinterpret_cast<float*>(scales_)[at] = 1 / scale;
    return scale;
  }

  const CodedShape& shape_;
  std::span<const float> values_;
  bool turned_;
  Block block_;
  std::uint8_t* codes_;
  std::uint8_t* scales_;
};

void encode_tensor(const CodedShape& shape, const Encoded& operands,
                   std::span<const float> values) {
  const kernels::TensorScale scale = *operands.scale;
  if (operands.kept != nullptr) *operands.kept = scale;
  for (std::int64_t row = 0; row < shape.rows; ++row)
    for (std::int64_t column = 0; column < shape.columns; ++column) {
      const std::int64_t at = row * shape.columns + column;
      const float value = values[static_cast<std::size_t>(at)];
      const std::uint8_t code = to_float8(value * scale.scale, shape.format);
      if (operands.maximum != nullptr) *operands.maximum = larger(*operands.maximum, value);
      if (operands.rows != nullptr) operands.rows[at] = code;
      if (operands.turned != nullptr) operands.turned[column * shape.rows + row] = code;
    }
}

}  // namespace

void encode(const CodedShape& shape, const Encoded& operands, StreamHandle) {
  const In values{shape.dtype, operands.values, shape.rows * shape.columns};
  if (shape.scaling == Scaling::tensor) return encode_tensor(shape, operands, values);
  if (operands.rows != nullptr) BlockEncoder{shape, values, false, operands.rows}.run();
  if (operands.turned != nullptr) BlockEncoder{shape, values, true, operands.turned}.run();
}

void turn_codes(std::int64_t rows, std::int64_t columns, const std::uint8_t* codes,
                std::uint8_t* turned, StreamHandle) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      turned[column * rows + row] = codes[row * columns + column];
}

void find_maximum(sim::DType dtype, std::int64_t elements, const void* values, float* maximum,
                  StreamHandle) {
  const In all{dtype, values, elements};
  for (const float value : std::span<const float>{all})
    *maximum = larger(*maximum, value);
}

void make_scale(Float8 format, float* maximum, kernels::TensorScale* scale, StreamHandle) {
  scale->scale = scale_for(*maximum, format, 1);
  scale->inverse = 1 / scale->scale;
  *maximum = 0;
}

void collect_maxima(const kernels::DelayedScales& state, float* all, StreamHandle) {
  for (std::int64_t i = 0; i < state.tensors; ++i)
    all[i] = std::exchange(state.maxima[i], 0.0F);
}

void update_scales(const kernels::DelayedScales& state, const float* all, StreamHandle) {
  for (std::int64_t i = 0; i < state.tensors; ++i) {
    float* history = state.history + i * kernels::scale_history;
    history[state.updates[i]++ % kernels::scale_history] = all[i];
    float most = 0;
    for (std::int64_t at = 0; at < kernels::scale_history; ++at)
      most = larger(most, history[at]);
    kernels::TensorScale& scale = state.scales[i];
    scale.scale = scale_for(most, state.format, scale.scale);
    scale.inverse = 1 / scale.scale;
  }
}

std::vector<float> decoded(const CodedOperands& coded, bool first, std::int64_t rows,
                           std::int64_t columns, const void* codes, const void* scales) {
  const Scaling scaling = first ? coded.first_scaling : coded.second_scaling;
  const Float8 format = first ? coded.first : coded.second;
  const std::int64_t size = block_of(scaling), across = columns / size;
  const auto scale_at = [&](std::int64_t row, std::int64_t column) {
    switch (scaling) {
      case Scaling::blocks_of_32:
        return exponent_value(
            static_cast<const std::uint8_t*>(scales)[row * across + column / size]);
      case Scaling::blocks_of_128:
        return static_cast<const float*>(scales)[row * across + column / size];
      case Scaling::squares_of_128:
        return static_cast<const float*>(scales)[row / size * across + column / size];
      default:
        return 1.0F;
    }
  };
  const auto* from = static_cast<const std::uint8_t*>(codes);
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::int64_t i = 0; i < rows * columns; ++i)
    values[static_cast<std::size_t>(i)] =
        from_float8(from[i], format) * scale_at(i / columns, i % columns);
  return values;
}

void coded_product(const GemmShape& shape, const GemmOperands& operands) {
  const bool forward = shape.pass == GemmPass::forward;
  const bool of_weights = shape.pass == GemmPass::weight_gradient;
  const std::int64_t rows = of_weights ? shape.out : shape.tokens;
  const std::int64_t columns = forward ? shape.out : shape.in;
  const std::int64_t depth = of_weights ? shape.tokens : forward ? shape.in : shape.out;
  const auto first = decoded(shape.coded, true, rows, depth, operands.first, operands.first_scales);
  const auto second =
      decoded(shape.coded, false, columns, depth, operands.second, operands.second_scales);
  float scale = shape.scale;
  if (shape.coded.first_scaling == Scaling::tensor)
    scale *= *static_cast<const float*>(operands.first_scales);
  if (shape.coded.second_scaling == Scaling::tensor)
    scale *= *static_cast<const float*>(operands.second_scales);
  const std::span result{static_cast<float*>(operands.result),
                         static_cast<std::size_t>(rows * columns)};
  auto to = matrix(result, rows, columns);
  if (!shape.accumulate) to.setZero();
  to.noalias() += scale * matrix(std::span<const float>{first}, rows, depth) *
                  matrix(std::span<const float>{second}, columns, depth).transpose();
  if (!shape.bias) return;
  const std::span bias{static_cast<const float*>(operands.bias), static_cast<std::size_t>(columns)};
  to.rowwise() += matrix(bias, 1, columns).row(0);
}

}  // namespace real::host
