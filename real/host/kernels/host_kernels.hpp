// The kernel interface (real/engine/kernels.hpp) on a host: kernels_* on the operands' memory, done
// when the call returns. Streams are not looked at. The backend computes in fp32; bf16, which the
// interface has as well, is what the tests of the CUDA backend run on.
#pragma once

#include "real/engine/kernels.hpp"
#include "real/engine/kernels/attention.hpp"
#include "real/engine/kernels/products.hpp"
#include "real/host/operands.hpp"

namespace real {

const kernels::Table& host_kernels();
Attentions host_attentions();  // flash, unfused

class HostProducts : public Products {
 public:
  kernels::Launch prepare(const GemmShape& shape, const GemmOperands& operands,
                          kernels::StreamHandle stream) override;
};

}  // namespace real

namespace real::host {

// Functions of the same types as those of real::kernels.
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define STEPCAST_KERNEL(name) decltype(kernels::name) name;
STEPCAST_KERNELS(STEPCAST_KERNEL)
#undef STEPCAST_KERNEL

}  // namespace real::host
