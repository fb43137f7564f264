// Turns every operator of a BoundProgram into a launch: a function that puts its kernels, its
// matrix product or its communication on a stream. All decisions are taken here, once; a step only
// calls.
//
// A launch reads from the host nothing that changes from step to step, so a step may be captured in
// a CUDA graph: token ids, the learning rate and Adam's corrections lie in device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "real/cuda/gemm.hpp"
#include "real/cuda/kernels/kernels.hpp"
#include "real/cuda/nccl.hpp"
#include "real/engine/bound_program.hpp"
#include "sim/plan/training.hpp"

namespace real {

using Launch = std::function<void(cudaStream_t)>;

// Device memory outside the arena (scratch.hpp says how much of it there is).
struct StepMemory {
  std::int32_t* ids = nullptr;  // as StepInput::tokens
  double* loss = nullptr;
  float* square_sum = nullptr;
  float* norm = nullptr;
  float* clip_scale = nullptr;
  kernels::AdamStep* adam = nullptr;
  std::int32_t* first_not_finite = nullptr;
  float* rotary_table = nullptr;            // cosines and sines
  std::vector<kernels::DecayRanges> decay;  // per parameter bucket
  std::array<kernels::Workspace, sim::stream_count> workspaces{};
};

// Shapes of operators as the kernels take them.
class OpShapes {
 public:
  explicit OpShapes(const BoundProgram& program);

  kernels::NormShape norm(const BoundOp& op) const;
  bool is_head_norm(const BoundOp& op) const;
  kernels::HeadsShape heads(std::int64_t bytes) const;  // of [q|k|v] rows in so many bytes
  kernels::AttentionShape attention(const BoundOp& op) const;
  kernels::ActivationShape activation(const BoundOp& op) const;
  kernels::ChoiceShape choice(const BoundOp& op) const;
  kernels::CopyShape copies(const BoundOp& op) const;
  kernels::SortShape sorted(const BoundOp& op) const;
  kernels::WeighedShape weighed(const BoundOp& op) const;
  kernels::ColumnSum bias_sum(const BoundOp& op) const;
  kernels::TableShape table(const BoundOp& op, const Operand& parameters,
                            sim::DType parameter_dtype) const;
  kernels::Positions positions(const BoundOp& op, std::int64_t bytes) const;
  kernels::LossShape loss(const BoundOp& op) const;
  GemmShape gemm(const BoundOp& op) const;
  kernels::TokenIds ids(const BoundOp& op, const std::int32_t* all, std::int64_t shift) const;
  std::int64_t tokens() const { return tokens_; }      // of a micro-batch
  std::int64_t workspace_of(const BoundOp& op) const;  // bytes

  sim::DType activations() const { return layout_.activation_dtype; }
  sim::DType gradients() const { return layout_.gradient_dtype; }
  const sim::Layout& layout() const { return layout_; }

 private:
  std::int64_t split(const BoundOp& op) const;  // of its features: tensor ranks or 1

  const BoundProgram& program_;
  const sim::Model& model_;
  const sim::Layout& layout_;
  std::int64_t tensor_ = 1, tensor_rank_ = 0;
  std::int64_t tokens_ = 0;
};

class Preparation {
 public:
  struct Parts {
    const BoundProgram& program;
    const sim::Training& training;
    std::byte* arena = nullptr;
    const StepMemory& memory;
    Gemms& gemms;
    NcclWorld& nccl;
    cudaStream_t stream = nullptr;  // products are measured on it
  };
  // `parts` outlives the launches.
  explicit Preparation(const Parts& parts) : parts_{parts}, shapes_{parts.program} {}

  Launch launch_of(const BoundOp& op);
  // Scans what an operator writes for numbers that are not finite.
  Launch scan_of(const BoundOp& op, std::int32_t index);

 private:
  // prepare_model.cpp
  Launch model_op(const BoundOp& op);
  Launch forward(const BoundOp& op);
  Launch backward(const BoundOp& op);
  Launch linear_forward(const BoundOp& op);
  Launch linear_gradient(const BoundOp& op);
  Launch bias_gradient(const BoundOp& op);
  Launch norm_forward(const BoundOp& op);
  Launch norm_backward(const BoundOp& op);
  Launch rotary(const BoundOp& op, bool backward);
  Launch attention_forward(const BoundOp& op);
  Launch attention_backward(const BoundOp& op);
  Launch activation_forward(const BoundOp& op);
  Launch activation_backward(const BoundOp& op);
  Launch add(const BoundOp& op, sim::Role first, sim::Role second, sim::Role to);
  Launch products(const BoundOp& op, const GemmShape& shape, const GemmOperands& operands);
  static sim::Role kept_of(const BoundOp& op);
  // prepare_experts.cpp
  Launch choose(const BoundOp& op, bool backward);
  Launch move_tokens(const BoundOp& op);
  Launch sort_tokens(const BoundOp& op);
  Launch weighed_forward(const BoundOp& op);
  Launch weighed_backward(const BoundOp& op);
  // prepare_ends.cpp
  Launch table_forward(const BoundOp& op);
  Launch table_backward(const BoundOp& op);
  Launch loss_maximum(const BoundOp& op);
  Launch loss_exponentials(const BoundOp& op);
  Launch loss_forward(const BoundOp& op);
  Launch loss_backward(const BoundOp& op);
  Launch exponentials(const BoundOp& op, const float* maximum);
  // prepare_communication.cpp
  Launch communication(const BoundOp& op);
  Launch message(const BoundOp& op);
  Launch tensor_gradients(const BoundOp& op, Launch all_reduce, std::byte* packed);
  Launch collective(const BoundOp& op, const NcclWorld::Call& call);
  NcclWorld::Call call_of(const BoundOp& op);
  // prepare_state.cpp
  Launch state_op(const BoundOp& op);
  Launch cast(const BoundOp& op);
  Launch accumulate(const BoundOp& op);
  Launch cast_gradients(const BoundOp& op, const kernels::Cast& how);
  Launch zero_gradients();
  Launch gradient_norm(const BoundOp& op);
  Launch adam();
  std::byte* owned_part(const BoundBucket& bucket, const Operand& operand, sim::DType dtype) const;

  std::byte* at(const Operand& operand) const {
    return operand.exists() ? parts_.arena + operand.offset : nullptr;
  }
  std::byte* at(const BoundOp& op, sim::Role role) const { return at(op.operand(role)); }
  kernels::Workspace workspace(const BoundOp& op) const {
    return parts_.memory.workspaces[static_cast<std::size_t>(op.stream)];
  }
  // Copies the input to `saved` where that is asked for; the input lives on by itself else.
  Launch keep_input(const BoundOp& op, Launch then_after);

  Parts parts_;
  OpShapes shapes_;
};

// An asynchronous copy on the device; nothing where both are one place.
void copy_on_device(void* to, const void* from, std::int64_t bytes, cudaStream_t stream);

}  // namespace real
