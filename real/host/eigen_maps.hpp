// Views of plain spans for Eigen. Included by the kernels' .cpp files only.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>

#include "sim/base/check.hpp"

namespace real {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::OuterStride<>;  // elements from a row to the next

inline Eigen::Map<const Matrix> matrix(std::span<const float> data, std::int64_t rows,
                                       std::int64_t columns) {
  SIM_CHECK(static_cast<std::int64_t>(data.size()) == rows * columns, data.size(), rows, columns);
  return {data.data(), rows, columns};
}
inline Eigen::Map<Matrix> matrix(std::span<float> data, std::int64_t rows, std::int64_t columns) {
  SIM_CHECK(static_cast<std::int64_t>(data.size()) == rows * columns, data.size(), rows, columns);
  return {data.data(), rows, columns};
}

// The same with rows that lie `stride` apart; the span ends with the last one.
inline std::int64_t strided_size(std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  return rows > 0 ? (rows - 1) * stride + columns : 0;
}
inline Eigen::Map<const Matrix, 0, Rows> strided(std::span<const float> data, std::int64_t rows,
                                                 std::int64_t columns, std::int64_t stride) {
  SIM_CHECK(static_cast<std::int64_t>(data.size()) == strided_size(rows, columns, stride));
  return {data.data(), rows, columns, Rows{stride}};
}
inline Eigen::Map<Matrix, 0, Rows> strided(std::span<float> data, std::int64_t rows,
                                           std::int64_t columns, std::int64_t stride) {
  SIM_CHECK(static_cast<std::int64_t>(data.size()) == strided_size(rows, columns, stride));
  return {data.data(), rows, columns, Rows{stride}};
}

inline Eigen::Map<const Eigen::ArrayXf> array(std::span<const float> data) {
  return {data.data(), static_cast<Eigen::Index>(data.size())};
}
inline Eigen::Map<Eigen::ArrayXf> array(std::span<float> data) {
  return {data.data(), static_cast<Eigen::Index>(data.size())};
}

// Row `index` of a row-major [.., width].
template <class T>
std::span<T> row(std::span<T> data, std::int64_t index, std::int64_t width) {
  return data.subspan(static_cast<std::size_t>(index * width), static_cast<std::size_t>(width));
}

}  // namespace real
