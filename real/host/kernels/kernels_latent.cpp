#include "real/host/kernels/kernels_latent.hpp"

#include <cmath>
#include <vector>

#include "real/host/eigen_maps.hpp"
#include "real/host/operands.hpp"

namespace real::host {
namespace {

using kernels::LatentHeads;
using kernels::SplitRows;
using kernels::StreamHandle;

void split_rows(const SplitRows& shape, const void* whole, void* first, void* second,
                StreamHandle) {
  const std::int64_t width = shape.first + shape.second;
  const In from{shape.dtype, whole, shape.rows * width};
  const Out a{shape.dtype, first, shape.rows * shape.first};
  const Out b{shape.dtype, second, shape.rows * shape.second};
  const auto rows = matrix(std::span<const float>{from}, shape.rows, width);
  matrix(std::span<float>{a}, shape.rows, shape.first) = rows.leftCols(shape.first);
  matrix(std::span<float>{b}, shape.rows, shape.second) = rows.rightCols(shape.second);
}

void join_rows(const SplitRows& shape, const void* first, const void* second, void* whole,
               StreamHandle) {
  const std::int64_t width = shape.first + shape.second;
  const In a{shape.dtype, first, shape.rows * shape.first};
  const In b{shape.dtype, second, shape.rows * shape.second};
  const Out to{shape.dtype, whole, shape.rows * width};
  auto rows = matrix(std::span<float>{to}, shape.rows, width);
  rows.leftCols(shape.first) = matrix(std::span<const float>{a}, shape.rows, shape.first);
  rows.rightCols(shape.second) = matrix(std::span<const float>{b}, shape.rows, shape.second);
}

using LatentValues = Eigen::ArrayXf;
using ConstRow = Eigen::Map<const LatentValues>;
using Row = Eigen::Map<LatentValues>;

// The rotation of a token's position (rotary() of kernels_elementwise.hpp): halves of the part.
class Rotation {
 public:
  explicit Rotation(std::int64_t size) : half_{size / 2}, frequency_(half_) {
    for (std::int64_t i = 0; i < half_; ++i)
      frequency_[i] = static_cast<float>(std::pow(
          kernels::rotary_base, -2.0 * static_cast<double>(i) / static_cast<double>(size)));
  }
  void at(std::int64_t position, bool inverse) {
    const LatentValues angle = frequency_ * static_cast<float>(position);
    cosine_ = angle.cos();
    sine_ = inverse ? LatentValues{-angle.sin()} : LatentValues{angle.sin()};
  }
  void turn(float* part) {
    Row first{part, half_}, second{part + half_, half_};
    turned_ = first * cosine_ - second * sine_;
    second = second * cosine_ + first * sine_;
    first = turned_;
  }

 private:
  std::int64_t half_;
  LatentValues frequency_, cosine_, sine_, turned_;
};

void put_latent_heads(const LatentHeads& shape, const kernels::LatentInputs& inputs, void* qkv,
                      StreamHandle) {
  const std::int64_t tokens = shape.tokens.tokens, head = shape.head();
  const std::int64_t made_width = shape.plain + shape.value;
  const In queries{shape.dtype, inputs.queries, tokens * shape.heads * head};
  const In made{shape.dtype, inputs.made, tokens * shape.heads * made_width};
  const In keys{shape.dtype, inputs.rotary_keys, tokens * shape.rotary};
  const Out result{shape.dtype, qkv, tokens * shape.row()};
  const float* from_queries = std::span<const float>{queries}.data();
  const float* from_made = std::span<const float>{made}.data();
  const float* from_keys = std::span<const float>{keys}.data();
  float* to = std::span<float>{result}.data();
  Rotation rotation{shape.rotary};
  LatentValues key(shape.rotary);
  for (std::int64_t t = 0; t < tokens; ++t) {
    rotation.at(shape.tokens.position(t), false);
    key = ConstRow{from_keys + t * shape.rotary, shape.rotary};
    rotation.turn(key.data());
    float* row = to + t * shape.row();
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      float* query = row + h * head;
      float* own_key = row + (shape.heads + h) * head;
      const float* own = from_made + (t * shape.heads + h) * made_width;
      Row{query, head} = ConstRow{from_queries + (t * shape.heads + h) * head, head};
      rotation.turn(query + shape.plain);
      Row{own_key, shape.plain} = ConstRow{own, shape.plain};
      Row{own_key + shape.plain, shape.rotary} = key;
      Row{row + 2 * shape.heads * head + h * shape.value, shape.value} =
          ConstRow{own + shape.plain, shape.value};
    }
  }
}

// Rows of queries move to the front, each to where no row that is still to come begins.
void latent_gradients(const LatentHeads& shape, const kernels::LatentGradients& operands,
                      StreamHandle) {
  const std::int64_t tokens = shape.tokens.tokens, head = shape.head();
  const std::int64_t made_width = shape.plain + shape.value;
  const Out gradient{shape.dtype, operands.gradient, tokens * shape.row()};
  const Out made{shape.dtype, operands.made, tokens * shape.heads * made_width};
  const Out keys{shape.dtype, operands.rotary_keys, tokens * shape.rotary};
  float* from = std::span<float>{gradient}.data();
  float* to_made = std::span<float>{made}.data();
  float* to_keys = std::span<float>{keys}.data();
  Rotation rotation{shape.rotary};
  LatentValues queries(shape.heads * head);
  for (std::int64_t t = 0; t < tokens; ++t) {
    rotation.at(shape.tokens.position(t), true);
    float* row = from + t * shape.row();
    Row key{to_keys + t * shape.rotary, shape.rotary};
    key.setZero();
    queries = ConstRow{row, shape.heads * head};
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      rotation.turn(queries.data() + h * head + shape.plain);
      const float* own_key = row + (shape.heads + h) * head;
      float* own = to_made + (t * shape.heads + h) * made_width;
      Row{own, shape.plain} = ConstRow{own_key, shape.plain};
      key += ConstRow{own_key + shape.plain, shape.rotary};
      Row{own + shape.plain, shape.value} =
          ConstRow{row + 2 * shape.heads * head + h * shape.value, shape.value};
    }
    rotation.turn(key.data());
    Row{from + t * shape.heads * head, shape.heads* head} = queries;
  }
}

}  // namespace

const kernels::LatentTable& host_latent() {
  static constexpr kernels::LatentTable table{.split_rows = split_rows,
                                              .join_rows = join_rows,
                                              .put_latent_heads = put_latent_heads,
                                              .latent_gradients = latent_gradients};
  return table;
}

}  // namespace real::host
