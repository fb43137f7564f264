// The work that decides what operators cost: kernels by their shapes, collectives and messages by
// group and bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <tuple>

#include "sim/base/attention_kernel.hpp"
#include "sim/base/dtype.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"
#include "sim/program/operators.hpp"

namespace sim {

enum class AttentionPart : std::uint8_t { forward, backward };

// ProductScales: which part of an operand of a product in 8 bits has a scale of its own. Blocks:
// each 128 elements of a row of one operand, each 128 x 128 of the other. Rows: each 128 elements
// of a row of both. Micro: each 32 elements of a row of both (MX formats). Flash attention in 8
// bits has tensors or micro.
enum class ProductScales : std::uint8_t { tensors, blocks, rows, micro };

// Grouping: the products of experts as one kernel of tiles of one size, PyTorch's `_grouped_mm`, by
// the dimension of an expert's product that its tokens are. Rows: m, forward and for the gradient
// of the input. Depth: k, for that of the weights. None: a kernel for each expert, of tiles chosen
// for it.
enum class Grouping : std::uint8_t { none, rows, depth };

// A kernel by shape: all that its cost may depend on, besides the device.
//  gemm:      C[m,n] (+)= A[m,k] B[k,n], `batch` times; flops = 2 m n k batch. A linear layer is
//             m = tokens, n = out, k = in forward; m = tokens, n = in, k = out for the gradient of
//             its input; m = out, n = in, k = tokens for that of its weights, where `bytes` counts
//             the result twice: it is added to what is there
//  attention: batch sequences, `m` query tokens, `n` key tokens, `k` head dimension, heads
//  host_copy: `bytes` over the link to the host; beside, what the host reads of its disk for them
//  host_update: `bytes` of the host's memory, and its disk
//  server_exchange: `m` parameters, `bytes` to servers and back; it costs nothing by itself
//  scan: memory-bound, and what follows in a sequence follows one by one, `in_sequence`
//  otherwise: memory-bound, `bytes` read + written (generic: max of flops and bytes)
struct Kernel {
  OpKind kind = OpKind::elementwise;
  DType dtype = DType::bf16;
  // Attention, norms and products in 8 bits: backward ones give gradients.
  AttentionPart part = AttentionPart::forward;
  ProductScales scales = ProductScales::tensors;
  Grouping grouping = Grouping::none;  // gemm of experts
  bool causal = false;
  AttentionKernel attention = AttentionKernel::flash;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t values = 0;  // attention: width of a head's values and output; 0: k
  std::int64_t window = 0;  // flash attention: keys that a query of the causal mask sees; 0: all
  Flops flops{};            // executed floating-point operations
  Bytes bytes{};            // device memory read + written at least
  Bytes beside{};      // those of them that element-wise kernels around a softmax or a norm move
  Bytes strided{};     // those that kernels move which read a broadcast or a strided tensor
  Bytes transposed{};  // those that compiled kernels move which write a transposed tensor
  Duration
      in_sequence{};  // scan: its chunks, each of which waits for the one before, on any device
  Bytes disk_read{}, disk_written{};  // of states and weights that lie on NVMe
  int launches = 1;    // kernels the host issues for it (an unfused attention is several)
  int spared_sms = 0;  // gemm: SMs that it leaves to others
  int abreast = 1;     // gemm: kernels like it that run at a time, each on a stream of its own
  // gemm of experts with unequal rows: those of equal parts of the `batch`, the fullest first
  // (uneven_part()); 0: each has `m`.
  std::array<std::int64_t, 8> uneven{};
  std::optional<Duration> known{};  // its time on any device, where a trace tells it
  bool operator==(const Kernel&) const = default;
};

// The number of products in part `i` of a kernel with uneven rows; 0: there is no such part.
constexpr std::int64_t uneven_part(std::int64_t batch, std::size_t i) {
  const auto parts = std::min<std::int64_t>(batch, std::tuple_size_v<decltype(Kernel::uneven)>);
  const auto at = static_cast<std::int64_t>(i);
  return at < parts ? (at + 1) * batch / parts - at * batch / parts : 0;
}

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  all_to_all,
  ring_shift,  // every member sends `bytes` to the next one
  barrier,
};
constexpr auto words_of(CollectiveKind) {
  return std::array{Word{CollectiveKind::all_reduce, "all_reduce"},
                    Word{CollectiveKind::reduce_scatter, "reduce_scatter"},
                    Word{CollectiveKind::all_gather, "all_gather"},
                    Word{CollectiveKind::broadcast, "broadcast"},
                    Word{CollectiveKind::reduce, "reduce"},
                    Word{CollectiveKind::all_to_all, "all_to_all"},
                    Word{CollectiveKind::ring_shift, "ring_shift"},
                    Word{CollectiveKind::barrier, "barrier"}};
}

// The communicators of a rank, by role. A Program names roles; the Plan maps (rank, role) to the
// group, so that equal ranks share one Program.
enum class GroupRole : std::uint8_t {
  tensor,
  context,         // ranks that share the tokens of a sequence
  data,            // all ranks with the same parameters: data-parallel x context-parallel
  shard,           // hybrid sharding: ranks that hold the shards of one copy
  replicate,       // hybrid sharding: ranks that hold the same shard
  tied_embedding,  // first and last stage, when they share the embedding table
  world,
  maxima,            // all ranks of a stage: share the scales of 8-bit tensors
  expert,            // ranks that share the experts of a layer
  expert_tensor,     // ranks that share the features of each expert
  expert_data,       // ranks with the same experts
  local,             // all ranks that train together between two meetings (Layout::local_steps)
  expert_shard,      // hybrid sharding: of expert_data, those that hold the shards of one copy
  expert_replicate,  // hybrid sharding: of expert_data, those that hold the same shard
  context_heads,     // of context, those that exchange heads (ContextExchange::all_to_all_ring)
  context_ring,      // of context, those with the same heads
};
constexpr auto words_of(GroupRole) {
  return std::array{Word{GroupRole::tensor, "tensor"},
                    Word{GroupRole::context, "context"},
                    Word{GroupRole::data, "data"},
                    Word{GroupRole::shard, "shard"},
                    Word{GroupRole::replicate, "replicate"},
                    Word{GroupRole::tied_embedding, "tied_embedding"},
                    Word{GroupRole::world, "world"},
                    Word{GroupRole::maxima, "maxima"},
                    Word{GroupRole::expert, "expert"},
                    Word{GroupRole::expert_tensor, "expert_tensor"},
                    Word{GroupRole::expert_data, "expert_data"},
                    Word{GroupRole::local, "local"},
                    Word{GroupRole::expert_shard, "expert_shard"},
                    Word{GroupRole::expert_replicate, "expert_replicate"},
                    Word{GroupRole::context_heads, "context_heads"},
                    Word{GroupRole::context_ring, "context_ring"}};
}
inline constexpr int group_role_count = 16;
// All context-parallel ranks, or some of them.
constexpr bool is_of_context(GroupRole role) {
  return role == GroupRole::context || role == GroupRole::context_heads ||
         role == GroupRole::context_ring;
}
// Communication inside layers, of activations.
constexpr bool is_within_layers(GroupRole role) {
  return role == GroupRole::tensor || is_of_context(role) || role == GroupRole::expert ||
         role == GroupRole::expert_tensor;
}

// Who moves the bytes: NCCL's kernels; or, between buffers that the ranks of a node have registered
// with each other (Transformer Engine's user buffers), copy engines or kernels of so many blocks;
// or a fused exchange of tokens (DeepEP, HybridEP) of so many blocks, by Collective::routing.
enum class Carrier : std::uint8_t { nccl, copy_engines, user_buffers, deepep, hybridep };
constexpr bool is_fused_exchange(Carrier carrier) {
  return carrier == Carrier::deepep || carrier == Carrier::hybridep;
}

// Which experts a token chooses, evenly but for what the fullest rank gets. The experts lie on the
// ranks of the group in order.
inline constexpr std::size_t routed_blocks = 8;
struct ExpertRouting {
  std::int64_t experts = 0, per_token = 0;
  std::int64_t groups = 0, groups_per_token = 0;  // 0: all experts are one group
  bool consecutive = false;  // experts that follow each other, one token's behind the other's
  double imbalance = 1;      // tokens of the fullest rank, over the average
  // The imbalance of the fullest 1, 2, 4, ... ranks that follow each other; 0: as `imbalance`.
  std::array<double, routed_blocks> of_blocks{};
  bool operator==(const ExpertRouting&) const = default;
};

// `bytes` is the full buffer (NCCL's S): of an all-gather the gathered result, of a reduce-scatter
// the input, of a broadcast the message, of a fused exchange the tokens that a member holds.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  GroupRole group = GroupRole::tensor;
  DType dtype = DType::bf16;
  Bytes bytes{};
  Carrier carrier = Carrier::nccl;
  int blocks = 0;  // of Carrier::user_buffers and of a fused exchange
  ExpertRouting routing{};
  bool operator==(const Collective&) const = default;
};

// One side of a message between neighbouring pipeline ranks, matched in order per direction.
enum class Peer : std::uint8_t { next_stage, previous_stage };
struct Transfer {
  Peer peer = Peer::next_stage;
  DType dtype = DType::bf16;
  Bytes bytes{};
  bool operator==(const Transfer&) const = default;
};

}  // namespace sim
