// cuBLASLt (541 MB in CUDA 13.0) as a library that is opened at first use.
#include <cublasLt.h>

#include <string>

#include "real/cuda/forward.hpp"

namespace {

real::SharedLibrary& library() {
  // The ABI changes with the toolkit's major version, and so does the name.
  static real::SharedLibrary cublaslt{"libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)};
  return cublaslt;
}

}  // namespace

STEPCAST_FORWARD(size_t, cublasLtGetVersion, (), ())
STEPCAST_FORWARD(const char*, cublasLtGetStatusString, (cublasStatus_t status), (status))
STEPCAST_FORWARD(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle), (handle))
STEPCAST_FORWARD(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle), (handle))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatrixLayoutCreate,
                 (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows,
                  uint64_t columns, int64_t stride),
                 (layout, type, rows, columns, stride))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout),
                 (layout))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatmulDescCreate,
                 (cublasLtMatmulDesc_t * product, cublasComputeType_t compute,
                  cudaDataType_t scale),
                 (product, compute, scale))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t product),
                 (product))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatmulDescSetAttribute,
                 (cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute,
                  const void* value, size_t bytes),
                 (product, attribute, value, bytes))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatmulPreferenceCreate,
                 (cublasLtMatmulPreference_t * preference), (preference))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatmulPreferenceDestroy,
                 (cublasLtMatmulPreference_t preference), (preference))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,
                 (cublasLtMatmulPreference_t preference,
                  cublasLtMatmulPreferenceAttributes_t attribute, const void* value, size_t bytes),
                 (preference, attribute, value, bytes))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,
                 (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                  cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                  cublasLtMatmulPreference_t preference, int wanted,
                  cublasLtMatmulHeuristicResult_t* results, int* found),
                 (handle, product, a, b, c, d, preference, wanted, results, found))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatmulAlgoGetIds,
                 (cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType_t scale,
                  cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cudaDataType_t d,
                  int wanted, int* ids, int* found),
                 (handle, compute, scale, a, b, c, d, wanted, ids, found))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatmulAlgoInit,
                 (cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType_t scale,
                  cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cudaDataType_t d, int id,
                  cublasLtMatmulAlgo_t* algorithm),
                 (handle, compute, scale, a, b, c, d, id, algorithm))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatmulAlgoCheck,
                 (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                  cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                  const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result),
                 (handle, product, a, b, c, d, algorithm, result))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatmulAlgoConfigSetAttribute,
                 (cublasLtMatmulAlgo_t * algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute,
                  const void* value, size_t bytes),
                 (algorithm, attribute, value, bytes))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatmulAlgoConfigGetAttribute,
                 (const cublasLtMatmulAlgo_t* algorithm,
                  cublasLtMatmulAlgoConfigAttributes_t attribute, void* value, size_t bytes,
                  size_t* written),
                 (algorithm, attribute, value, bytes, written))
STEPCAST_FORWARD(cublasStatus_t, cublasLtMatmul,
                 (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void* alpha,
                  const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                  cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                  cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                  const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                  cudaStream_t stream),
                 (handle, product, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
                  algorithm, workspace, bytes, stream))
