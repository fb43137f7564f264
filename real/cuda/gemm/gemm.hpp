// Matrix products of linear layers by cuBLASLt.
//
// cuBLASLt is told column-major matrices. A row-major matrix [r, c] is the column-major matrix
// [c, r] of the same memory, so a row-major product C[m, n] = op(A) op(B) is asked for as
// C^T[n, m] = op(B)^T op(A)^T: operands swapped, each transposed where the row-major one is.
// gemm_call() is that rule as plain numbers.
//
// fp32 is computed in fp32 (CUBLAS_COMPUTE_32F, never TF32); bf16 is accumulated in fp32. Operands
// in 8 bits lie with k innermost both, as tensor cores read them: both are as the first two of a
// product of row-major matrices A B^T.
#pragma once

#include <cublasLt.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "real/cuda/gemm/algorithm_file.hpp"
#include "real/engine/kernels/products.hpp"

namespace real {

// GemmCall is a call of cuBLASLt: D[m, n] = op(A) op(B), column-major. Its A is the second of the
// operands, its B the first.
struct GemmCall {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  std::int64_t a_rows = 0, a_columns = 0;  // as stored
  std::int64_t b_rows = 0, b_columns = 0;
  std::int64_t b_leading = 0, result_leading = 0;  // elements from a column to the next; A: a_rows
};
GemmCall gemm_call(const GemmShape& shape);

[[noreturn]] void fail(cublasStatus_t status, std::string_view what);
inline void check(cublasStatus_t status, std::string_view what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(status, what);
}

// Bytes that an address is a multiple of, 256 at most: what the library may assume of an operand.
int alignment_of(const void* memory);
// The library wants a bias to be aligned so; another one is added by a kernel of its own.
inline constexpr int bias_alignment = 16;

// 32 MiB on Hopper, as cuBLAS' own default workspace (cuBLAS library, section "Workspace").
inline constexpr std::int64_t gemm_workspace = 32LL << 20;

class Gemms {
 public:
  // `workspace`: gemm_workspace bytes; one stream uses it. `choices`: the file of
  // algorithm_file.hpp; empty: none.
  explicit Gemms(void* workspace, const std::string& choices = {});
  ~Gemms();
  Gemms(const Gemms&) = delete;
  Gemms& operator=(const Gemms&) = delete;

  // A prepared shape; lives as long as this. Its algorithm is what the file of choices says for
  // this GPU, driver, version of the library, shape, formats and alignment; else the first few that
  // the library's heuristics propose are measured (gemm_tuner.hpp) on `operands`, whose result they
  // overwrite, and the fastest is written there.
  class Plan;
  const Plan& prepare(const GemmShape& shape, const GemmOperands& operands, cudaStream_t stream);
  void run(const Plan& plan, const GemmOperands& operands, cudaStream_t stream) const;

 private:
  static void set_pointers(const Plan& plan, const GemmOperands& operands);
  void multiply(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                const GemmOperands& operands, cudaStream_t stream) const;
  std::vector<cublasLtMatmulAlgo_t> candidates_of(const Plan& plan,
                                                  const GemmOperands& operands) const;
  void choose(Plan& plan, const std::array<int, 3>& alignments, const GemmOperands& operands,
              cudaStream_t stream);
  ChosenAlgorithm measured(const Plan& plan, const GemmOperands& operands,
                           cudaStream_t stream) const;
  bool takes(const Plan& plan, const ChosenAlgorithm& chosen) const;

  cublasLtHandle_t handle_ = nullptr;
  AlgorithmFile choices_;
  std::string machine_;  // of the keys of choices
  void* workspace_ = nullptr;
  // By shape and the alignment of first, second, result: parameters lie anywhere in their bucket.
  std::map<std::pair<GemmShape, std::array<int, 3>>, std::unique_ptr<Plan>> plans_;
};

}  // namespace real
