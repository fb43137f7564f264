#include "real/cuda/prepare.hpp"

namespace real::kernels {

void copy(void* to, const void* from, std::int64_t bytes, StreamHandle stream) {
  copy_on_device(to, from, bytes, stream);
}

}  // namespace real::kernels

namespace real {

#define STEPCAST_KERNEL(name) .name = kernels::name,
const kernels::Table& cuda_kernels() {
  static constexpr kernels::Table table{STEPCAST_KERNELS(STEPCAST_KERNEL)};
  return table;
}

const kernels::ContextTable& cuda_context() {
  static constexpr kernels::ContextTable table{STEPCAST_CONTEXT_KERNELS(STEPCAST_KERNEL)};
  return table;
}

const kernels::SharedHeadsTable& cuda_shared_heads() {
  static constexpr kernels::SharedHeadsTable table{STEPCAST_SHARED_HEADS_KERNELS(STEPCAST_KERNEL)};
  return table;
}
#undef STEPCAST_KERNEL

const kernels::DropoutTable& cuda_dropout() {
  static constexpr kernels::DropoutTable table{.drop = kernels::drop};
  return table;
}

const kernels::LambTable& cuda_lamb() {
  static constexpr kernels::LambTable table{.lamb = kernels::lamb, .one_bit_lamb = nullptr};
  return table;
}

const kernels::LatentTable& cuda_latent() {
  static constexpr kernels::LatentTable table{.split_rows = kernels::split_rows,
                                              .join_rows = kernels::join_rows,
                                              .put_latent_heads = kernels::put_latent_heads,
                                              .latent_gradients = kernels::latent_gradients};
  return table;
}

}  // namespace real
