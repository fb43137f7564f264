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

}  // namespace real
