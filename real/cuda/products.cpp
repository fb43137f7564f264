#include "real/cuda/device.hpp"
#include "real/cuda/prepare.hpp"

namespace real {

Launch CudaProducts::prepare(const GemmShape& shape, const GemmOperands& operands,
                             kernels::StreamHandle stream) {
  GemmShape asked = shape;
  asked.bias = shape.bias && alignment_of(operands.bias) >= bias_alignment;
  const Gemms::Plan* plan = &gemms_.prepare(asked, operands, stream);
  Gemms* gemms = &gemms_;
  if (shape.bias == asked.bias) return [=](cudaStream_t on) { gemms->run(*plan, operands, on); };
  return [=, add_bias = cuda_kernels().add_bias](cudaStream_t on) {
    gemms->run(*plan, operands, on);
    add_bias(shape.dtype, shape.tokens, shape.out, operands.bias, operands.result, on);
  };
}

void copy_on_device(void* to, const void* from, std::int64_t bytes, cudaStream_t stream) {
  if (to == from || bytes == 0) return;
  check(
      cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
      "a copy on the device");
}

}  // namespace real
