#include "real/cuda/prepare.hpp"

namespace real::kernels {

void copy(void* to, const void* from, std::int64_t bytes, StreamHandle stream) {
  copy_on_device(to, from, bytes, stream);
}

}  // namespace real::kernels

namespace real {

const kernels::Table& cuda_kernels() {
#define STEPCAST_KERNEL(name) .name = kernels::name,
  static constexpr kernels::Table table{STEPCAST_KERNELS(STEPCAST_KERNEL)};
#undef STEPCAST_KERNEL
  return table;
}

}  // namespace real
