#include <array>

#include "real/cuda/device.hpp"
#include "real/cuda/prepare.hpp"

namespace real {

Launch CudaProducts::prepare(const GemmShape& shape, const GemmOperands& operands,
                             kernels::StreamHandle stream) {
  GemmShape asked = shape;
  // The library adds a bias to products of codes in 16 bits only.
  const bool adds = !shape.coded.exist || shape.dtype == sim::DType::bf16;
  asked.bias = shape.bias && adds && alignment_of(operands.bias) >= bias_alignment;
  const Gemms::Plan* plan = &gemms_.prepare(asked, operands, stream);
  Gemms* gemms = &gemms_;
  if (shape.bias == asked.bias) return [=](cudaStream_t on) { gemms->run(*plan, operands, on); };
  return [=, add_bias = cuda_kernels().add_bias](cudaStream_t on) {
    gemms->run(*plan, operands, on);
    add_bias(shape.dtype, shape.tokens, shape.out, operands.bias, operands.result, on);
  };
}

Attentions cuda_attentions() {
  static const kernels::Table& table = cuda_kernels();
  static const KernelAttention own{
      "flash",
      {[](const kernels::AttentionShape& shape) {
         const auto fits = [](std::int64_t size) { return size % 16 == 0 && size <= 256; };
         return shape.fused && fits(shape.heads.head_dim) && fits(shape.heads.values());
       },
       table.attention_forward, table.attention_backward, table.attention_backward_workspace}};
  static const std::array<const Attention*, 1> all{&own};
  return all;
}

void copy_on_device(void* to, const void* from, std::int64_t bytes, cudaStream_t stream) {
  if (to == from || bytes == 0) return;
  check(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
      "a copy on the device");
}

}  // namespace real
