// Tensors of any format as floats, for kernels that are loops.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/dtype.hpp"
#include "tests/gpu/fakes/bf16.hpp"

namespace fakes {

inline std::vector<float> take(sim::DType dtype, const void* memory, std::int64_t elements) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  if (memory == nullptr) return values;
  for (std::int64_t i = 0; i < elements; ++i) {
    values[static_cast<std::size_t>(i)] = load(memory, dtype == sim::DType::bf16, i);
  }
  return values;
}
inline void put(sim::DType dtype, void* memory, const std::vector<float>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    store(memory, dtype == sim::DType::bf16, static_cast<std::int64_t>(i), values[i]);
  }
}
// A parameter's gradient: added to what is there, or not.
inline void put_gradient(sim::DType dtype, bool accumulate, void* memory,
                         std::vector<float> values) {
  if (accumulate) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += load(memory, dtype == sim::DType::bf16, static_cast<std::int64_t>(i));
    }
  }
  put(dtype, memory, values);
}

}  // namespace fakes
