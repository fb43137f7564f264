#include "real/cuda/gemm/gemm.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <span>
#include <stdexcept>

#include "real/cuda/device.hpp"
#include "real/cuda/gemm/gemm_tuner.hpp"
#include "sim/base/check.hpp"

namespace real {

namespace {

constexpr int candidates = 6;  // algorithms asked for

cudaDataType_t data_type(sim::DType dtype) {
  switch (dtype) {
    case sim::DType::fp32:
      return CUDA_R_32F;
    case sim::DType::bf16:
      return CUDA_R_16BF;
    default:
      SIM_CHECK(false, static_cast<int>(dtype));
  }
}

cudaDataType_t data_type(Float8 format) {
  return format == Float8::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

std::string_view word(Float8 format) {
  return format == Float8::e4m3 ? "e4m3" : "e5m2";
}

std::string operands_text(const GemmShape& shape) {
  if (!shape.coded.exist) return std::string{sim::word(shape.dtype)};
  return fmt::format("{} x {}", word(shape.coded.first), word(shape.coded.second));
}

std::string text(const GemmShape& shape) {
  const char* passes[] = {"forward", "input gradient", "weight gradient"};
  const std::string rows = shape.stride > 0 ? fmt::format(" of {}", shape.stride) : std::string{};
  return fmt::format("{} of a linear with {} tokens, {} inputs, {}{} outputs, {} to {}",
                     passes[static_cast<std::size_t>(shape.pass)], shape.tokens, shape.in,
                     shape.out, rows, operands_text(shape), sim::word(shape.output));
}

// A handle of the library that is destroyed with its owner.
template <class Handle, cublasStatus_t (*destroy)(Handle)>
struct Owned {
  Handle handle = nullptr;
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle != nullptr) (void)destroy(handle);
  }
};
using Descriptor = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Matrix = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class Value>
void set(const Descriptor& descriptor, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check(cublasLtMatmulDescSetAttribute(descriptor.handle, attribute, &value, sizeof value),
        "an attribute of a product");
}

void make(Matrix& matrix, cudaDataType_t type, std::int64_t rows, std::int64_t columns,
          std::int64_t leading) {
  check(cublasLtMatrixLayoutCreate(&matrix.handle, type, static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), leading),
        "the layout of a matrix");
}

void set_alignment(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
                   const void* operand) {
  const auto bytes = static_cast<std::uint32_t>(alignment_of(operand));
  check(cublasLtMatmulPreferenceSetAttribute(preference.handle, attribute, &bytes, sizeof bytes),
        "a preference");
}

// The machine, as far as a choice depends on it beside the product. Shares of a GPU have fewer SMs.
std::string machine_text() {
  int device = 0;
  int driver = 0;
  cudaDeviceProp properties{};
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return fmt::format("{}, {} SMs; driver {}; cuBLASLt {}", properties.name,
                     properties.multiProcessorCount, driver, cublasLtGetVersion());
}

}  // namespace

int alignment_of(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  int bytes = 256;
  while (address % static_cast<std::uintptr_t>(bytes) != 0)
    bytes /= 2;
  return bytes;
}

void fail(cublasStatus_t status, std::string_view what) {
  throw std::runtime_error(fmt::format("cuBLASLt: {}: {}", what, cublasLtGetStatusString(status)));
}

class Gemms::Plan {
 public:
  GemmShape shape;
  GemmCall call;
  Descriptor descriptor;
  Matrix a, b, result;
  cublasLtMatmulAlgo_t algorithm{};
};

// One descriptor serves all layers; the library reads it during the call.
void Gemms::set_pointers(const Plan& plan, const GemmOperands& operands) {
  if (plan.shape.bias) set(plan.descriptor, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  if (!plan.shape.coded.exist) return;
  set(plan.descriptor, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.second_scales);
  set(plan.descriptor, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.first_scales);
}

Gemms::Gemms(void* workspace, const std::string& choices)
    : choices_{choices}, machine_{machine_text()}, workspace_{workspace} {
  check(cublasLtCreate(&handle_), "cublasLtCreate");
}

Gemms::~Gemms() {
  plans_.clear();
  (void)cublasLtDestroy(handle_);
}

const Gemms::Plan& Gemms::prepare(const GemmShape& shape, const GemmOperands& operands,
                                  cudaStream_t stream) {
  const std::array alignments{alignment_of(operands.first), alignment_of(operands.second),
                              alignment_of(operands.result)};
  auto& place = plans_[{shape, alignments}];
  if (place) return *place;
  auto plan = std::make_unique<Plan>();
  plan->shape = shape;
  plan->call = gemm_call(shape);
  const GemmCall& call = plan->call;
  check(cublasLtMatmulDescCreate(&plan->descriptor.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "a product");
  set(plan->descriptor, CUBLASLT_MATMUL_DESC_TRANSA, call.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(plan->descriptor, CUBLASLT_MATMUL_DESC_TRANSB, call.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (shape.bias) {
    set(plan->descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(plan->descriptor, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type(shape.dtype));
  }
  const bool coded = shape.coded.exist;
  set_pointers(*plan, operands);
  make(plan->a, coded ? data_type(shape.coded.second) : data_type(shape.dtype), call.a_rows,
       call.a_columns, call.a_rows);
  make(plan->b, coded ? data_type(shape.coded.first) : data_type(shape.dtype), call.b_rows,
       call.b_columns, call.b_leading);
  make(plan->result, data_type(shape.output), call.m, call.n, call.result_leading);
  choose(*plan, alignments, operands, stream);
  place = std::move(plan);
  return *place;
}

std::vector<cublasLtMatmulAlgo_t> Gemms::candidates_of(const Plan& plan,
                                                       const GemmOperands& operands) const {
  Preference preference;
  check(cublasLtMatmulPreferenceCreate(&preference.handle), "a preference");
  const auto workspace = static_cast<std::size_t>(gemm_workspace);
  check(cublasLtMatmulPreferenceSetAttribute(preference.handle,
                                             CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                             sizeof workspace),
        "a preference");
  set_alignment(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, operands.second);
  set_alignment(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, operands.first);
  set_alignment(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, operands.result);
  set_alignment(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, operands.result);
  std::array<cublasLtMatmulHeuristicResult_t, candidates> found{};
  int count = 0;
  const cublasStatus_t asked = cublasLtMatmulAlgoGetHeuristic(
      handle_, plan.descriptor.handle, plan.a.handle, plan.b.handle, plan.result.handle,
      plan.result.handle, preference.handle, candidates, found.data(), &count);
  check(asked, "no algorithm for the " + text(plan.shape));
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (const cublasLtMatmulHeuristicResult_t& one :
       std::span{found}.first(static_cast<std::size_t>(count)))
    if (one.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(one.algo);
  if (algorithms.empty())
    throw std::runtime_error("cuBLASLt: no algorithm for the " + text(plan.shape));
  return algorithms;
}

ChosenAlgorithm Gemms::measured(const Plan& plan, const GemmOperands& operands,
                                cudaStream_t stream) const {
  const std::vector<cublasLtMatmulAlgo_t> algorithms = candidates_of(plan, operands);
  const auto run = [&](const cublasLtMatmulAlgo_t& algorithm) {
    multiply(plan, algorithm, operands, stream);
  };
  const FastestAlgorithm fastest = fastest_of(algorithms, run, stream);
  ChosenAlgorithm chosen{.microseconds = fastest.microseconds,
                         .description = description_of(algorithms[fastest.index])};
  static_assert(sizeof chosen.algorithm == sizeof(cublasLtMatmulAlgo_t));
  std::memcpy(chosen.algorithm.data(), &algorithms[fastest.index], sizeof chosen.algorithm);
  return chosen;
}

// An algorithm of the file may be none of this library's, or want more memory.
bool Gemms::takes(const Plan& plan, const ChosenAlgorithm& chosen) const {
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, chosen.algorithm.data(), sizeof algorithm);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t checked =
      cublasLtMatmulAlgoCheck(handle_, plan.descriptor.handle, plan.a.handle, plan.b.handle,
                              plan.result.handle, plan.result.handle, &algorithm, &result);
  return checked == CUBLAS_STATUS_SUCCESS && result.state == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<std::size_t>(gemm_workspace);
}

void Gemms::choose(Plan& plan, const std::array<int, 3>& alignments, const GemmOperands& operands,
                   cudaStream_t stream) {
  const std::string key =
      fmt::format("{}; {}{}{}; aligned to {} {} {}; workspace {}", machine_, text(plan.shape),
                  plan.shape.bias ? ", bias" : "", plan.shape.accumulate ? ", accumulated" : "",
                  alignments[0], alignments[1], alignments[2], gemm_workspace);
  const ChosenAlgorithm chosen = choices_.get(
      key, [&](const ChosenAlgorithm& known) { return takes(plan, known); },
      [&] { return measured(plan, operands, stream); });
  std::memcpy(&plan.algorithm, chosen.algorithm.data(), sizeof plan.algorithm);
  for (const std::string& note : choices_.take_notes())
    fmt::print(stderr, "{}\n", note);
}

void Gemms::multiply(const Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                     const GemmOperands& operands, cudaStream_t stream) const {
  const float beta = plan.shape.accumulate ? 1 : 0;
  const cublasStatus_t status = cublasLtMatmul(
      handle_, plan.descriptor.handle, &plan.shape.scale, operands.second, plan.a.handle,
      operands.first, plan.b.handle, &beta, operands.result, plan.result.handle, operands.result,
      plan.result.handle, &algorithm, workspace_, static_cast<std::size_t>(gemm_workspace), stream);
  if (status != CUBLAS_STATUS_SUCCESS) fail(status, text(plan.shape));
}

void Gemms::run(const Plan& plan, const GemmOperands& operands, cudaStream_t stream) const {
  set_pointers(plan, operands);
  multiply(plan, plan.algorithm, operands, stream);
}

}  // namespace real
