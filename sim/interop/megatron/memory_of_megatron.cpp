// Memory of a job of Megatron-LM beside the tensors of its model: placeholders of gradients,
// workspaces of libraries, and the copy of what FlashAttention gives.
//
// Sources: NVIDIA/Megatron-LM at d98e8a64, core/tensor_parallel/layers.py and
// core/models/backends.py; NVIDIA/TransformerEngine at d0067d0d, pytorch/cpp_extensions/gemm.py
// (get_cublas_workspace), pytorch/attention/dot_product_attention (utils.py,
// get_attention_backend; backends.py, FlashAttention) and common/fused_attn/fused_attn.cpp.
#include <algorithm>

#include "sim/interop/megatron/megatron_config.hpp"

namespace sim {
namespace {

constexpr Bytes mebibyte{std::int64_t{1} << 20};
constexpr int grouped_streams = 4;  // nvte_get_num_compute_streams
constexpr int buffer_streams = 3;   // _NUM_MAX_UB_STREAMS
constexpr int cublas_handles = 2;   // one for the default and one for the backward thread

bool is_before_hopper(Generation generation) {
  return generation == Generation::volta || generation == Generation::ampere ||
         generation == Generation::ada;
}

bool is_local(const MegatronConfig& config) {
  return config.transformer_impl.value_or("transformer_engine") == "local";
}

// 32 MiB for each product that may run at once from Hopper on, else 4 MiB.
Bytes transformer_engine_workspaces(const MegatronConfig& config, Generation generation,
                                    const Imported& result) {
  if (is_local(config)) return {};
  const Bytes each = is_before_hopper(generation) ? mebibyte * 4 : mebibyte * 32 + Bytes{1024};
  const bool grouped = result.shape.experts.count > 0 && config.grouped_products.value_or(false);
  return each * (1 + (grouped ? grouped_streams : 0) +
                 (result.layout.overlap_tensor_products ? buffer_streams : 0));
}

// Deterministic mode needs CUBLAS_WORKSPACE_CONFIG=:4096:8, 32 MiB for each handle
// (training/arguments.py, validate_args; PyTorch, aten/src/ATen/cuda/CublasHandlePool.cpp).
Bytes deterministic_workspaces(const MegatronConfig& config, Bytes usual) {
  if (!config.deterministic.value_or(false)) return {};
  return std::max(Bytes{}, mebibyte * (32 * cublas_handles) - usual);
}

// Before Hopper FlashAttention goes before cuDNN. On Blackwell cuDNN has no deterministic kernel
// with dropout.
bool takes_flash_attention(const MegatronConfig& config, Generation generation,
                           const Imported& result) {
  const std::string backend = config.attention_backend.value_or("auto");
  if (is_local(config) || result.shape.latent.exists() || result.layout.context_parallel > 1)
    return false;
  if (backend == "flash") return true;
  const bool lacks_cudnn = config.deterministic.value_or(false) &&
                           generation == Generation::blackwell &&
                           result.shape.attention_dropout > 0;
  return backend == "auto" && (is_before_hopper(generation) || lacks_cudnn);
}

}  // namespace

void read_memory_of_libraries(const MegatronConfig& config, const ImportRequest& request,
                              Imported& result) {
  if (!request.generation || is_cdna(*request.generation)) return;
  Execution& runs = result.framework.execution;
  runs.gradient_placeholders = config.gradient_accumulation_fusion.value_or(true)
                                   ? Placeholders::all_kept
                                   : Placeholders::none;
  runs.copies_flash_output = takes_flash_attention(config, *request.generation, result);
  runs.workspaces = transformer_engine_workspaces(config, *request.generation, result) +
                    deterministic_workspaces(config, request.workspaces);
}

}  // namespace sim
