#include "sim/cost/measured_kinds.hpp"

#include <algorithm>
#include <array>

namespace sim {
namespace {

constexpr MeasuredKind product(std::string_view name, DType dtype) {
  return {name, OpKind::gemm, dtype, AttentionPart::forward, false};
}
constexpr MeasuredKind attention(std::string_view name, AttentionKernel kernel, AttentionPart part,
                                 bool fits = true) {
  return {.name = name,
          .kind = OpKind::attention,
          .dtype = DType::bf16,
          .part = part,
          .eager = false,
          .attention = kernel,
          .fits = fits};
}
constexpr MeasuredKind streaming(std::string_view name, OpKind kind, bool fits,
                                 AttentionPart part = AttentionPart::forward) {
  return {
      .name = name, .kind = kind, .dtype = DType::bf16, .part = part, .eager = false, .fits = fits};
}

constexpr std::array<MeasuredKind, 72> kinds{{
    {"gemm_bf16_tn", OpKind::gemm, DType::bf16, AttentionPart::forward, false},
    {"gemm_bf16_dgrad_nn", OpKind::gemm, DType::bf16, AttentionPart::forward, false},
    {"gemm_bf16_wgrad_nt", OpKind::gemm, DType::bf16, AttentionPart::forward, false},
    {"gemm_fp32", OpKind::gemm, DType::fp32, AttentionPart::forward, false},
    {"gemm_tf32", OpKind::gemm, DType::tf32, AttentionPart::forward, false},
    {"gemm_fp8", OpKind::gemm, DType::fp8, AttentionPart::forward, false},
    {"gemm_fp8_soaked", OpKind::gemm, DType::fp8, AttentionPart::forward, false,
     ProductScales::tensors, Load::step},
    {"gemm_fp8_promoted", OpKind::gemm, DType::fp8, AttentionPart::backward, false,
     ProductScales::tensors, Load::step},
    {"gemm_fp8_blocks", OpKind::gemm, DType::fp8, AttentionPart::forward, false,
     ProductScales::blocks, Load::step},
    {"gemm_fp8_rows", OpKind::gemm, DType::fp8, AttentionPart::forward, false, ProductScales::rows,
     Load::step},
    {"gemm_bf16_soaked", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step},
    {"gemm_fp8_cast", OpKind::gemm, DType::fp8, AttentionPart::forward, false,
     ProductScales::tensors, Load::loop, Grouping::none, 2 + 1},
    {"gemm_fp8_micro_cast", OpKind::gemm, DType::fp8, AttentionPart::forward, false,
     ProductScales::micro, Load::loop, Grouping::none, 2 + 1 + 4.0 / 128},
    {"gemm_nvfp4_cast", OpKind::gemm, DType::nvfp4, AttentionPart::forward, false,
     ProductScales::tensors, Load::loop, Grouping::none, 2 + 0.5 + 1.0 / 16},
    {"gemm_fp8_cast_soaked", OpKind::gemm, DType::fp8, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::none, 2 + 1},
    {"gemm_nvfp4_cast_soaked", OpKind::gemm, DType::nvfp4, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::none, 2 + 0.5 + 1.0 / 16},
    {"gemm_fp8_micro", OpKind::gemm, DType::fp8, AttentionPart::forward, false,
     ProductScales::micro},
    {"grouped_bf16_tn_even", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::rows},
    {"grouped_bf16_dgrad_nn_even", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::rows},
    {"grouped_bf16_wgrad_nt_even", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::depth},
    {"grouped_bf16_tn_cut", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::rows},
    {"grouped_bf16_dgrad_nn_cut", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::rows},
    {"grouped_bf16_wgrad_nt_cut", OpKind::gemm, DType::bf16, AttentionPart::forward, false,
     ProductScales::tensors, Load::step, Grouping::depth},
    {"mamba2_scan_fwd", OpKind::scan, DType::bf16, AttentionPart::forward, false},
    {"mamba2_scan_bwd", OpKind::scan, DType::bf16, AttentionPart::backward, false},
    {"flash_fwd", OpKind::attention, DType::bf16, AttentionPart::forward, true},
    {"flash_bwd", OpKind::attention, DType::bf16, AttentionPart::backward, true},
    {"add_bf16", OpKind::elementwise, DType::bf16, AttentionPart::forward, false},
    {"gelu_fwd", OpKind::elementwise, DType::bf16, AttentionPart::forward, true},
    {"layernorm_fwd", OpKind::norm, DType::bf16, AttentionPart::forward, true},
    {"layernorm_bwd", OpKind::norm, DType::bf16, AttentionPart::backward, true},
    {"adamw_fused_fp32", OpKind::optimizer, DType::fp32, AttentionPart::forward, true},
    product("gemm_fp16_tn", DType::fp16),
    product("gemm_fp16_dgrad_nn", DType::fp16),
    product("gemm_fp16_wgrad_nt", DType::fp16),
    product("gemm_tf32_tn", DType::tf32),
    product("gemm_tf32_dgrad_nn", DType::tf32),
    product("gemm_tf32_wgrad_nt", DType::tf32),
    product("gemm_fp32_tn", DType::fp32),
    product("gemm_fp32_dgrad_nn", DType::fp32),
    product("gemm_fp32_wgrad_nt", DType::fp32),
    {"gemm_fp8_row_scales", OpKind::gemm, DType::fp8, AttentionPart::forward, false,
     ProductScales::tensors, Load::step},
    {"gemm_fp8_row_scales_promoted", OpKind::gemm, DType::fp8, AttentionPart::backward, false,
     ProductScales::tensors, Load::step},
    attention("sdpa_flash_fwd", AttentionKernel::flash_2, AttentionPart::forward),
    attention("sdpa_flash_bwd", AttentionKernel::flash_2, AttentionPart::backward),
    attention("sdpa_cudnn_fwd", AttentionKernel::flash, AttentionPart::forward),
    attention("sdpa_cudnn_bwd", AttentionKernel::flash, AttentionPart::backward),
    attention("flex_fwd", AttentionKernel::flash_2, AttentionPart::forward, false),
    attention("flex_bwd", AttentionKernel::flash_2, AttentionPart::backward, false),
    streaming("add_eager", OpKind::elementwise, true),
    streaming("gelu_eager", OpKind::elementwise, true),
    streaming("swiglu_eager_fwd", OpKind::elementwise, true),
    streaming("swiglu_compiled_fwd", OpKind::elementwise, false),
    streaming("swiglu_compiled_bwd", OpKind::elementwise, false),
    streaming("layer_norm_eager_fwd", OpKind::norm, true),
    streaming("layer_norm_eager_bwd", OpKind::norm, true, AttentionPart::backward),
    streaming("layer_norm_compiled_fwd", OpKind::norm, false),
    streaming("layer_norm_compiled_bwd", OpKind::norm, false, AttentionPart::backward),
    streaming("rms_norm_eager_fwd", OpKind::norm, false),
    streaming("rms_norm_eager_bwd", OpKind::norm, false, AttentionPart::backward),
    streaming("rms_norm_compiled_fwd", OpKind::norm, false),
    streaming("rms_norm_compiled_bwd", OpKind::norm, false, AttentionPart::backward),
    streaming("rotary_eager_fwd", OpKind::elementwise, false),
    streaming("rotary_compiled_fwd", OpKind::elementwise, false),
    streaming("cross_entropy_eager_fwd", OpKind::cross_entropy, false),
    streaming("cross_entropy_eager_bwd", OpKind::cross_entropy, false, AttentionPart::backward),
    streaming("cross_entropy_compiled_fwd", OpKind::cross_entropy, false),
    streaming("cross_entropy_compiled_bwd", OpKind::cross_entropy, false, AttentionPart::backward),
    streaming("adamw_foreach_fp32", OpKind::optimizer, false),
    streaming("gather_rows", OpKind::elementwise, false),
    streaming("scatter_rows", OpKind::elementwise, false),
    streaming("nf4_dequantise_compiled", OpKind::elementwise, false),
}};

}  // namespace

const MeasuredKind* find_measured_kind(std::string_view name) {
  const auto found =
      std::ranges::find_if(kinds, [&](const MeasuredKind& kind) { return kind.name == name; });
  return found == kinds.end() ? nullptr : &*found;
}

}  // namespace sim
