// cuBLASLt's matrix product as three loops, with the rules that the library has about layouts and
// promised alignments.
#include "tests/gpu/fakes/fake_cublaslt.hpp"

#include <mutex>
#include <utility>

#include "real/engine/kernels/float8.hpp"
#include "tests/gpu/fakes/bf16.hpp"
#include "tests/gpu/fakes/fake_device.hpp"
#include "tests/gpu/fakes/include/cublasLt.h"

struct FakeBlas {};
struct FakeProduct {
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  cudaDataType_t bias_type = CUDA_R_32F;
  const float* scale_a = nullptr;  // on the device
  const float* scale_b = nullptr;
};
struct FakeMatrix {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, leading = 0;
};
struct FakePreference {
  std::uint64_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
};

namespace fakes {
namespace {
std::mutex product_mutex;
std::function<std::int64_t(int)> product_time;
std::vector<int> product_log;
}  // namespace

void set_product_times(std::function<std::int64_t(int)> nanoseconds) {
  const std::lock_guard lock{product_mutex};
  product_time = std::move(nanoseconds);
  product_log.clear();
}

std::vector<int> products_run() {
  const std::lock_guard lock{product_mutex};
  return product_log;
}
}  // namespace fakes

namespace {

constexpr std::uint64_t mark = 0x616c676f;  // of algorithms of this library

// time_of() is how long the device is busy with the algorithm, besides the loops.
std::int64_t time_of(int algorithm) {
  const std::lock_guard lock{fakes::product_mutex};
  if (!fakes::product_time) return 0;
  fakes::product_log.push_back(algorithm);
  return fakes::product_time(algorithm);
}

bool is_coded(cudaDataType_t type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

struct Operand {
  const void* memory;
  FakeMatrix layout;
  bool transposed;
  std::int64_t rows() const { return transposed ? layout.columns : layout.rows; }
  std::int64_t columns() const { return transposed ? layout.rows : layout.columns; }
  float at(std::int64_t row, std::int64_t column) const {
    if (transposed) std::swap(row, column);
    const std::int64_t index = row + column * layout.leading;
    if (is_coded(layout.type))
      return real::from_float8(
          static_cast<const std::uint8_t*>(memory)[index],
          layout.type == CUDA_R_8F_E4M3 ? real::Float8::e4m3 : real::Float8::e5m2);
    return fakes::load(memory, layout.type == CUDA_R_16BF, index);
  }
};

// Tensor cores read 8 bits with k innermost, in lines of 16 bytes, and not two operands in E5M2; a
// bias has 16 bits then (cuBLAS, "cublasLtMatmul", table of kernels in 8 bits).
bool takes_codes(const FakeProduct& product, const FakeMatrix& a, const FakeMatrix& b,
                 const FakeMatrix& d) {
  if (!is_coded(a.type) && !is_coded(b.type)) return true;
  const auto lines = [](const FakeMatrix& matrix) {
    return matrix.rows % 16 == 0 && matrix.columns % 16 == 0;
  };
  const bool biased = product.epilogue == CUBLASLT_EPILOGUE_BIAS;
  return is_coded(a.type) && is_coded(b.type) &&
         (a.type == CUDA_R_8F_E4M3 || b.type == CUDA_R_8F_E4M3) &&
         product.transpose_a == CUBLAS_OP_T && product.transpose_b == CUBLAS_OP_N && lines(a) &&
         lines(b) && lines(d) && product.scale_a != nullptr && product.scale_b != nullptr &&
         (!biased || product.bias_type == CUDA_R_16BF);
}

bool aligned(const void* memory, std::uint64_t bytes) {
  return bytes != 0 && reinterpret_cast<std::uintptr_t>(memory) % bytes == 0;
}

void multiply(const FakeProduct& product, const Operand& a, const Operand& b, float alpha,
              float beta, void* d, const FakeMatrix& layout) {
  const bool bf16 = layout.type == CUDA_R_16BF;
  if (is_coded(a.layout.type)) alpha *= *product.scale_a * *product.scale_b;
  for (std::int64_t column = 0; column < layout.columns; ++column) {
    for (std::int64_t row = 0; row < layout.rows; ++row) {
      float sum = 0;
      for (std::int64_t k = 0; k < a.columns(); ++k)
        sum += a.at(row, k) * b.at(k, column);
      const std::int64_t at = row + column * layout.leading;
      float value = alpha * sum;
      if (beta != 0) value += beta * fakes::load(d, bf16, at);
      if (product.epilogue == CUBLASLT_EPILOGUE_BIAS) {
        value += fakes::load(product.bias, product.bias_type == CUDA_R_16BF, row);
      }
      fakes::store(d, bf16, at, value);
    }
  }
}

}  // namespace

std::size_t cublasLtGetVersion() {
  return 130000;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "no error" : "an error of the fake cuBLASLt";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new FakeBlas;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t,
                                        cudaDataType_t) {
  *product = new FakeProduct;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete product;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      product->transpose_a = *static_cast<const cublasOperation_t*>(value);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      product->transpose_b = *static_cast<const cublasOperation_t*>(value);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      product->epilogue = *static_cast<const cublasLtEpilogue_t*>(value);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      if (bytes != sizeof(void*)) return CUBLAS_STATUS_INVALID_VALUE;
      product->bias = *static_cast<const void* const*>(value);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      product->bias_type = *static_cast<const cudaDataType_t*>(value);
      break;
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      if (bytes != sizeof(void*)) return CUBLAS_STATUS_INVALID_VALUE;
      (attribute == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER ? product->scale_a : product->scale_b) =
          *static_cast<const float* const*>(value);
      break;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* matrix, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  if (leading < static_cast<std::int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *matrix = new FakeMatrix{.type = type,
                           .rows = static_cast<std::int64_t>(rows),
                           .columns = static_cast<std::int64_t>(columns),
                           .leading = leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matrix) {
  delete matrix;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new FakePreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    if (bytes != sizeof(std::uint64_t)) return CUBLAS_STATUS_INVALID_VALUE;
    preference->workspace = *static_cast<const std::uint64_t*>(value);
    return CUBLAS_STATUS_SUCCESS;
  }
  if (bytes != sizeof(std::uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] =
      *static_cast<const std::uint32_t*>(value);
  return CUBLAS_STATUS_SUCCESS;
}

// An algorithm remembers what alignment it was promised.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  const Operand left{nullptr, *a, product->transpose_a == CUBLAS_OP_T};
  const Operand right{nullptr, *b, product->transpose_b == CUBLAS_OP_T};
  if (left.rows() != d->rows || right.columns() != d->columns || left.columns() != right.rows()) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!takes_codes(*product, *a, *b, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *count = wanted < 3 ? wanted : 3;
  for (int i = 0; i < *count; ++i) {
    found[i] = {};
    found[i].state = CUBLAS_STATUS_SUCCESS;
    for (int j = 0; j < 4; ++j)
      found[i].algo.data[j] = preference->alignment[j];
    found[i].algo.data[4] = preference->workspace;
    found[i].algo.data[6] = static_cast<std::uint64_t>(i);
    found[i].algo.data[7] = mark;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  *result = {};
  result->algo = *algorithm;
  result->workspaceSize = algorithm->data[4];
  return algorithm->data[7] == mark ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, std::size_t bytes, std::size_t*) {
  if (bytes != sizeof(std::int32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  const auto id = static_cast<std::int32_t>(algorithm->data[6]);
  *static_cast<std::int32_t*>(value) = attribute == CUBLASLT_ALGO_CONFIG_ID ? id : 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const bool kept = aligned(a, algorithm->data[0]) && aligned(b, algorithm->data[1]) &&
                    aligned(c, algorithm->data[2]) && aligned(d, algorithm->data[3]);
  if (!takes_codes(*product, *a_layout, *b_layout, *d_layout) || !kept || c != d ||
      c_layout != d_layout || !aligned(workspace, 16) || workspace_bytes < algorithm->data[4]) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (product->epilogue == CUBLASLT_EPILOGUE_BIAS && !aligned(product->bias, 16)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  stream->device.load(
      {algorithm->data[0], algorithm->data[1], algorithm->data[2], algorithm->data[3],
       algorithm->data[5], static_cast<std::uint64_t>(product->transpose_a),
       static_cast<std::uint64_t>(product->transpose_b),
       static_cast<std::uint64_t>(product->epilogue), static_cast<std::uint64_t>(a_layout->type),
       static_cast<std::uint64_t>(d_layout->type)});
  const Operand left{a, *a_layout, product->transpose_a == CUBLAS_OP_T};
  const Operand right{b, *b_layout, product->transpose_b == CUBLAS_OP_T};
  fakes::enqueue_call(
      stream, [=, description = *product, layout = *d_layout,
               scale = *static_cast<const float*>(alpha), keep = *static_cast<const float*>(beta),
               id = static_cast<int>(algorithm->data[6]), device = &stream->device] {
        device->pass(time_of(id));
        multiply(description, left, right, scale, keep, d, layout);
      });
  return CUBLAS_STATUS_SUCCESS;
}
