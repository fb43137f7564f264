// The work of a framework's operator by the shapes of its inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/program/op_work.hpp"

namespace sim {

struct ShapedOperator {
  std::string name;                             // "aten::mm"
  std::vector<std::vector<std::int64_t>> dims;  // of its inputs; empty for what is no tensor
  std::vector<std::string> types;
};

// The elements of a tensor of these extents; 0: it is no tensor.
double elements_of(const std::vector<std::int64_t>& dims);

// Whether the work of operators of this name can be known.
bool has_known_work(std::string_view name);

// Whether operators of this name are matrix products.
bool is_product(std::string_view name);

// A matrix product whose shapes are known: C[m,n] = A[m,k] B[k,n], `batch` times. Of aten::mm,
// addmm, bmm, baddbmm and linear.
std::optional<Kernel> product_of(const ShapedOperator& op);

// The same, and memory-bound operators whose traffic follows from their shapes.
std::optional<Kernel> work_of(const ShapedOperator& op);

}  // namespace sim
