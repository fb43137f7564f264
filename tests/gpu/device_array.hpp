// Memory of the device as the kernel tests use it: of a GPU, or of the emulator (one of
// emulated_memory.cpp and cuda_memory.cpp is linked).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "real/engine/kernels.hpp"

namespace gpu_test {

std::shared_ptr<void> allocate(std::size_t bytes);
void upload(void* to, const void* from, std::size_t bytes);
void download(void* to, const void* from, std::size_t bytes);  // after all kernels
// The emulator runs warps and lanes in this order; a GPU in its own.
void run_in_descending_order(bool descending);

using Numbers = std::vector<double>;

// to_bf16() is what a number becomes in memory; from_bf16() reads it.
std::uint16_t to_bf16(double value);
double from_bf16(std::uint16_t bits);

// An array on the device, of bf16 or fp32; numbers are rounded when they are written.
class Array {
 public:
  Array(sim::DType dtype, const Numbers& numbers);
  Array(sim::DType dtype, std::size_t count) : Array{dtype, Numbers(count, NAN)} {}
  Numbers numbers() const;
  void* data() const { return memory_.get(); }
  float* floats() const { return static_cast<float*>(memory_.get()); }
  std::size_t size() const { return count_; }

 private:
  sim::DType dtype_;
  std::size_t count_ = 0;
  std::shared_ptr<void> memory_;
};

// Anything else: ids, ranges, scalars.
template <class T>
class Values {
 public:
  explicit Values(const std::vector<T>& values)
      : count_{values.size()}, memory_{allocate(values.size() * sizeof(T))} {
    upload(memory_.get(), values.data(), count_ * sizeof(T));
  }
  std::vector<T> values() const {
    std::vector<T> result(count_);
    download(result.data(), memory_.get(), count_ * sizeof(T));
    return result;
  }
  T* data() const { return static_cast<T*>(memory_.get()); }

 private:
  std::size_t count_;
  std::shared_ptr<void> memory_;
};

class Scratch {
 public:
  explicit Scratch(std::int64_t bytes)
      : bytes_{bytes}, memory_{allocate(static_cast<std::size_t>(bytes) + 1)} {}
  real::kernels::Workspace workspace() const { return {memory_.get(), bytes_}; }

 private:
  std::int64_t bytes_;
  std::shared_ptr<void> memory_;
};

// Uniform numbers in [-1, 1), as they are after a round trip through `dtype`.
Numbers random_numbers(unsigned seed, std::size_t count, sim::DType dtype);

// Largest difference, relative to the largest number expected; infinite where one is not a number.
double worst_error(const Numbers& got, const Numbers& expected);

// tolerance() is what rounding to the format costs, and as much again for the order of sums.
inline double tolerance(sim::DType dtype) {
  return dtype == sim::DType::bf16 ? 1.0 / 128 : 1e-5;
}

}  // namespace gpu_test
