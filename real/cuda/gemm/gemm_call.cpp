// Which product of column-major matrices computes one of row-major matrices (gemm.hpp).
#include "real/cuda/gemm/gemm.hpp"

namespace real {

namespace {

// Both operands with k innermost: D^T[columns, rows] = second first^T.
GemmCall coded_call(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  return {.m = columns,
          .n = rows,
          .k = depth,
          .transpose_a = true,
          .transpose_b = false,
          .a_rows = depth,
          .a_columns = columns,
          .b_rows = depth,
          .b_columns = rows,
          .b_leading = depth,
          .result_leading = columns};
}

GemmCall coded_call(const GemmShape& shape) {
  switch (shape.pass) {
    case GemmPass::forward:
      return coded_call(shape.tokens, shape.out, shape.in);
    case GemmPass::input_gradient:
      return coded_call(shape.tokens, shape.in, shape.out);
    case GemmPass::weight_gradient:
      return coded_call(shape.out, shape.in, shape.tokens);
  }
  return {};
}

}  // namespace

GemmCall gemm_call(const GemmShape& shape) {
  if (shape.coded.exist) return coded_call(shape);
  const std::int64_t tokens = shape.tokens;
  const std::int64_t in = shape.in;
  const std::int64_t out = shape.out;
  switch (shape.pass) {
    case GemmPass::forward:  // Y^T [out, tokens] = W X^T; memory holds W^T [in, out], X^T
      return {.m = out,
              .n = tokens,
              .k = in,
              .transpose_a = true,
              .transpose_b = false,
              .a_rows = in,
              .a_columns = out,
              .b_rows = in,
              .b_columns = tokens,
              .b_leading = in,
              .result_leading = shape.row()};
    case GemmPass::input_gradient:  // dX^T [in, tokens] = W^T dY^T
      return {.m = in,
              .n = tokens,
              .k = out,
              .transpose_a = false,
              .transpose_b = false,
              .a_rows = in,
              .a_columns = out,
              .b_rows = out,
              .b_columns = tokens,
              .b_leading = shape.row(),
              .result_leading = in};
    case GemmPass::weight_gradient:  // dW^T [in, out] = X^T dY
      return {.m = in,
              .n = out,
              .k = tokens,
              .transpose_a = false,
              .transpose_b = true,
              .a_rows = in,
              .a_columns = tokens,
              .b_rows = out,
              .b_columns = tokens,
              .b_leading = shape.row(),
              .result_leading = in};
  }
  return {};
}

}  // namespace real
