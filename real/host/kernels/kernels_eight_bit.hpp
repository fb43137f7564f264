// Casts to 8 bits and products of codes on the host.
#pragma once

#include <span>
#include <vector>

#include "real/engine/kernels.hpp"
#include "real/engine/kernels/products.hpp"

namespace real::host {

// The numbers that codes [rows, columns] stand for: without the scale where it is that of a tensor,
// which multiplies a sum.
std::vector<float> decoded(const CodedOperands& coded, bool first, std::int64_t rows,
                           std::int64_t columns, const void* codes, const void* scales);

// A product of codes, accumulated in fp32. result (+)= scale first second^T + bias.
void coded_product(const GemmShape& shape, const GemmOperands& operands);

}  // namespace real::host
