// Every operator of a BoundProgram as a launch on CUDA's streams: kernels and products by
// real/engine/launch/kernel_launches, communication by NCCL. All decisions are taken here, once; a
// step only calls.
#pragma once

#include <cuda_runtime_api.h>

#include <span>
#include <vector>

#include "real/cuda/gemm/gemm.hpp"
#include "real/cuda/nccl/nccl.hpp"
#include "real/engine/launch/kernel_launches.hpp"

namespace real {

using kernels::Launch;

// The kernels of real/cuda/kernels.
const kernels::Table& cuda_kernels();
// Tables of features that not every backend has.
const kernels::ContextTable& cuda_context();
const kernels::SharedHeadsTable& cuda_shared_heads();
const kernels::DropoutTable& cuda_dropout();
const kernels::LambTable& cuda_lamb();
const kernels::LatentTable& cuda_latent();
// The fastest first: another one (cuDNN's) is a class of real/engine/kernels/attention.hpp, before
// our own.
Attentions cuda_attentions();

// Products by cuBLASLt. A bias that the library does not take as it lies is added by a kernel.
class CudaProducts : public Products {
 public:
  explicit CudaProducts(Gemms& gemms) : gemms_{gemms} {}
  Launch prepare(const GemmShape& shape, const GemmOperands& operands,
                 kernels::StreamHandle stream) override;

 private:
  Gemms& gemms_;
};

class Preparation {
 public:
  struct Parts {
    const BoundProgram& program;
    const sim::Training& training;
    std::byte* arena = nullptr;
    std::byte* frozen = nullptr;  // weights behind the arena
    const StepMemory& memory;
    Gemms& gemms;
    NcclWorld& nccl;
    cudaStream_t stream = nullptr;  // products are measured on it
  };
  // `parts` outlives the launches.
  explicit Preparation(const Parts& parts)
      : parts_{parts},
        products_{parts.gemms},
        kernels_{{.program = parts.program,
                  .training = parts.training,
                  .arena = parts.arena,
                  .host = parts.frozen,
                  .memory = parts.memory,
                  .kernels = cuda_kernels(),
                  .attentions = cuda_attentions(),
                  .products = products_,
                  .stream = parts.stream,
                  .dropout = &cuda_dropout(),
                  .lamb = &cuda_lamb(),
                  .latent = &cuda_latent(),
                  .context = &cuda_context(),
                  .shared_heads = &cuda_shared_heads()}} {}
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  Launch launch_of(const BoundOp& op) {
    const bool communicates = op.collective != nullptr || op.transfer != nullptr;
    return communicates ? communication(op) : kernels_.launch_of(op);
  }
  // Scans what an operator writes for numbers that are not finite.
  Launch scan_of(const BoundOp& op, std::int32_t index) { return kernels_.scan_of(op, index); }
  // The kernels that communications launch themselves: columns into messages, and back.
  std::span<const Launch> packing() const { return packing_; }

 private:
  Launch communication(const BoundOp& op);
  Launch message(const BoundOp& op);
  Launch tensor_gradients(const BoundOp& op, Launch all_reduce, std::byte* packed);
  Launch collective(const BoundOp& op, const NcclWorld::Call& call);
  std::size_t communicator_of(const BoundOp& op) const;
  // prepare_context.cpp
  Launch exchange_of_keys(const BoundOp& op);
  Launch packing_of(Launch copy);
  NcclWorld::Call call_of(const BoundOp& op);
  std::byte* at(const Operand& operand) const {
    return operand.exists() ? parts_.arena + operand.offset : nullptr;
  }

  Parts parts_;
  CudaProducts products_;
  KernelLaunches kernels_;
  std::vector<Launch> packing_;
};

// An asynchronous copy on the device; nothing where both are one place.
void copy_on_device(void* to, const void* from, std::int64_t bytes, cudaStream_t stream);

}  // namespace real
