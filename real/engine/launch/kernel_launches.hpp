// Turns every operator of a BoundProgram that is no communication into a launch: a function that
// puts its kernels or its matrix product on a stream. All decisions are taken here, once, for every
// backend; a step only calls.
//
// A launch reads from the host nothing that changes from step to step, so a step may be captured in
// a CUDA graph: token ids, the learning rate and Adam's corrections lie in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "real/engine/bound_program.hpp"
#include "real/engine/kernels.hpp"
#include "real/engine/kernels/compression.hpp"
#include "real/engine/kernels/context.hpp"
#include "real/engine/kernels/dropout.hpp"
#include "real/engine/kernels/lamb.hpp"
#include "real/engine/kernels/latent.hpp"
#include "real/engine/kernels/local_steps.hpp"
#include "real/engine/kernels/products.hpp"
#include "real/engine/kernels/routed.hpp"
#include "real/engine/kernels/routing_table.hpp"
#include "real/engine/launch/coded_casts.hpp"
#include "real/engine/op_shapes.hpp"
#include "real/engine/scratch.hpp"
#include "sim/layout/training.hpp"

namespace real {

// Numbers that are kept in fp32 whatever the format of activations.
inline float* floats(std::byte* memory) {
  return reinterpret_cast<float*>(memory);
}

// Layout::offload_delay: what a step does.
struct DelayedUpdate {
  bool pending = false;      // gradients of the step before wait on the host
  bool delays = false;       // those of this one will, else the update follows them
  bool has_weights = false;  // an update has made some since they were copied
  kernels::AdamStep adam{};  // of the step that waits
};

class KernelLaunches {
 public:
  using Launch = kernels::Launch;
  struct Parts {
    const BoundProgram& program;
    const sim::Training& training;
    std::byte* arena = nullptr;
    std::byte* host = nullptr;  // memory of offloaded tensors; null: there are none
    const StepMemory& memory;
    const kernels::Table& kernels;
    Attentions attentions;
    Products& products;
    kernels::StreamHandle stream = nullptr;                   // products are measured on it
    const kernels::CompressionTable* compression = nullptr;   // null: the backend has none
    const kernels::OuterTable* outer = nullptr;               // the same
    const kernels::DropoutTable* dropout = nullptr;           // the same
    const kernels::LambTable* lamb = nullptr;                 // the same
    const kernels::LatentTable* latent = nullptr;             // the same
    const kernels::ContextTable* context = nullptr;           // the same
    const kernels::SharedHeadsTable* shared_heads = nullptr;  // the same
    const DelayedUpdate* turns = nullptr;                     // of Layout::offload_delay
    // For routers that choose by their scores; null: they choose evenly.
    RoutingTables* routing = nullptr;
    const kernels::RoutedTable* routed = nullptr;
  };
  // `parts` outlives the launches.
  explicit KernelLaunches(const Parts& parts)
      : parts_{parts},
        kernels_{parts.kernels},
        shapes_{parts.program},
        coded_{parts.program, parts.arena, parts.memory.coded, parts.kernels} {}

  Launch launch_of(const BoundOp& op);
  // Scans what an operator writes for numbers that are not finite.
  Launch scan_of(const BoundOp& op, std::int32_t index);

 private:
  // launch_model.cpp
  Launch model_op(const BoundOp& op);
  Launch forward(const BoundOp& op);
  Launch backward(const BoundOp& op);
  Launch linear_forward(const BoundOp& op);
  Launch product_of_several(const BoundOp& op, GemmShape shape, GemmOperands operands);
  Launch add_weight_gradient(const BoundOp& op);
  Launch linear_gradient(const BoundOp& op);
  Launch bias_gradient(const BoundOp& op);
  Launch norm_forward(const BoundOp& op);
  Launch norm_backward(const BoundOp& op);
  Launch rotary(const BoundOp& op, bool backward);
  Launch shared_heads(const BoundOp& op);
  struct KeptAttention {
    std::byte* heads = nullptr;  // null: kept as the input
    std::int64_t heads_bytes = 0;
    float* sums = nullptr;
  };
  KeptAttention kept_attention(const BoundOp& op, const kernels::AttentionShape& shape) const;
  Launch attention_forward(const BoundOp& op);
  Launch attention_backward(const BoundOp& op);
  Launch activation_forward(const BoundOp& op);
  Launch activation_backward(const BoundOp& op);
  Launch add(const BoundOp& op, sim::Role first, sim::Role second, sim::Role to);
  Launch product(const BoundOp& op, const GemmShape& shape, const GemmOperands& operands);
  static sim::Role kept_of(const BoundOp& op);
  // launch_dropout.cpp
  Launch residual_forward(const BoundOp& op);
  Launch residual_backward(const BoundOp& op);
  Launch drop(const BoundOp& op, sim::Role input, sim::Role residual, sim::Role output);
  kernels::Dropout dropout_of(const BoundOp& op) const;
  kernels::ScoreRules score_rules(const BoundOp& op) const;
  // launch_adapters.cpp
  Launch adapter(const BoundOp& op);
  Launch adapter_backward(const BoundOp& op);
  Launch dequantize(const BoundOp& op);
  std::byte* matrix_of(const BoundOp& op) const {
    return op.operand(sim::Role::encoded_weight).exists() ? at(op, sim::Role::encoded_weight)
                                                          : at(op, sim::Role::weight);
  }
  Launch adapter_input(const BoundOp& op);
  Launch adapter_product(const BoundOp& op, GemmPass pass, sim::Role from, sim::Role to);
  // launch_eight_bit.cpp
  Launch encode(const BoundOp& op);
  Launch coded_product(const BoundOp& op, const GemmShape& shape, GemmOperands operands);
  Launch maxima(const BoundOp& op);
  // launch_latent.cpp
  Launch latent_heads(const BoundOp& op);
  Launch latent_norm_forward(const BoundOp& op);
  Launch latent_norm_backward(const BoundOp& op, Launch norm);
  std::byte* gradient_of(const BoundOp& op) const;
  // launch_context.cpp
  bool attends_over_ranks() const;
  Launch context_op(const BoundOp& op);
  Launch attend_slice(const BoundOp& op);
  Launch attend_slice_backward(const BoundOp& op);
  kernels::SliceShape slices(const BoundOp& op) const;
  float* sums_behind(const BoundOp& op, sim::Role role, const kernels::SliceShape& shape) const;
  kernels::HeadExchange head_exchange(const BoundOp& op) const;
  // launch_first_tokens.cpp
  Launch first_tokens_forward(const BoundOp& op);
  Launch first_tokens_gradient(const BoundOp& op);
  // launch_experts.cpp
  Launch choose(const BoundOp& op, bool backward);
  Launch move_tokens(const BoundOp& op);
  Launch sort_tokens(const BoundOp& op);
  Launch weighed_forward(const BoundOp& op);
  Launch weighed_backward(const BoundOp& op);
  // launch_routed.cpp
  bool is_routed(const BoundOp& op) const { return parts_.routing != nullptr && is_of_experts(op); }
  Launch routed_op(const BoundOp& op);
  Launch routed_choice(const BoundOp& op);
  Launch routed_rows(const BoundOp& op);
  Launch routed_activation(const BoundOp& op);
  Launch routed_product(const BoundOp& op, const GemmShape& shape, const GemmOperands& operands);
  // launch_ends.cpp
  Launch table_forward(const BoundOp& op);
  Launch table_backward(const BoundOp& op);
  Launch loss_maximum(const BoundOp& op);
  Launch loss_exponentials(const BoundOp& op);
  Launch loss_forward(const BoundOp& op);
  Launch loss_backward(const BoundOp& op);
  Launch exponentials(const BoundOp& op, const float* maximum);
  kernels::TokenIds targets_of(const BoundOp& op) const;
  // launch_host.cpp
  Launch host_op(const BoundOp& op);
  Launch copy_owned(const BoundOp& op, sim::DType dtype);
  Launch weights_from_host(const BoundOp& op);
  Launch gradients_to_host(const BoundOp& op);
  enum class Turn : std::uint8_t { own, of_last_step };
  Launch update_on_host(std::uint32_t index, Turn turn);
  // launch_compression.cpp
  Launch compression_op(const BoundOp& op);
  kernels::CompressedBucket compressed(const BoundOp& op) const;
  // launch_local_steps.cpp
  Launch outer_op(const BoundOp& op);
  Launch outer_gradient(const BoundOp& op);
  Launch apply_outer(const BoundOp& op);
  // launch_state.cpp
  Launch state_op(const BoundOp& op);
  Launch cast(const BoundOp& op);
  Launch accumulate(const BoundOp& op);
  Launch cast_gradients(const BoundOp& op, const kernels::Cast& how);
  Launch prepare_gradients(const BoundOp& op);
  Launch copy_weights(const BoundOp& op);
  Launch zero_gradients();
  Launch gradient_norm(const BoundOp& op);
  struct AdamPiece {
    kernels::AdamState state;
    std::int64_t elements = 0;
    kernels::DecayRanges decay;
  };
  AdamPiece adam_piece(std::size_t bucket) const;
  kernels::Adam adam_settings() const;
  Launch adam();
  Launch lamb(const BoundOp& op);
  Launch finish_norm();
  float* lamb_numbers(const BoundBucket& bucket) const;
  static std::int64_t owned_real(const BoundBucket& bucket);
  std::byte* owned_part(const BoundBucket& bucket, const Operand& operand, sim::DType dtype) const;

  std::byte* at(const Operand& operand) const {
    if (!operand.exists()) return nullptr;
    const std::int64_t behind = operand.offset - parts_.program.arena_bytes;
    return behind >= 0 ? parts_.host + behind : parts_.arena + operand.offset;
  }
  std::byte* at(const BoundOp& op, sim::Role role) const { return at(op.operand(role)); }
  kernels::Workspace workspace(const BoundOp& op) const {
    return parts_.memory.workspaces[static_cast<std::size_t>(op.stream)];
  }
  // Copies the input to `saved` where that is asked for; the input lives on by itself else.
  Launch keep_input(const BoundOp& op, Launch then_after);

  Parts parts_;
  const kernels::Table& kernels_;
  OpShapes shapes_;
  CodedCasts coded_;
};

// Gradients that are summed over the tensor group (sim::Site::summed) and held here, `size` bytes
// each element: one after another in the message.
std::vector<Operand> summed_pieces(const BoundProgram& program, std::int64_t size);

}  // namespace real
