// The parts of sharding.cpp: what its files share.
//   sharding.cpp        operators and blocks
//   shard_model.cpp     all blocks of a model
//   scans.cpp           scans over context-parallel ranks, sparse attention
//   attention.cpp       kernels of attention, also over context-parallel ranks
//   experts.cpp         routers, and the way of tokens to experts
//   kernel_scratch.cpp  tensors within eager kernels
//   user_buffers.cpp    products cut into parts (Layout::overlap_tensor_products)
//   micro_pipeline.cpp  the same as PyTorch does it
//   execution.cpp       what a framework does around operators (Execution), casts for 8-bit
//                       products, what a recomputation by operators keeps
#pragma once

#include "sim/plan/sharding/expert_shares.hpp"
#include "sim/plan/sharding/sharding.hpp"

namespace sim {

// Tokens and divisors of one micro-batch.
struct Region {
  const Model* model;
  const Layout* layout;
  std::int64_t tokens = 0;  // of the micro-batch that the rank holds (samples for layer lists)
  std::int64_t sequence_tokens = 0;  // held outside the split blocks
  int tensor = 1;
  int element = 2;           // bytes of an activation
  std::int64_t experts = 1;  // that a rank holds: matrices of one product
  // Shares of a mixture of experts; `share` is that of the rank that paces, or of the one that
  // holds most.
  const ExpertShares* shares = nullptr;
  const RankShare* share = nullptr;
  std::int64_t row = 0;  // tokens of a sequence of the micro-batch, of all context ranks
  double attended = 0;   // part of `row` in a token's own sequence; 0: as the layout says
  std::int64_t held() const { return row / layout->context_parallel; }
};

// Sequences of equal length whose attention costs what that of a micro-batch does: the sum of their
// squares is that of the real ones. Under a ramp of the kernel's rate with their length,
// l / (l + r), the time of n sequences is a sum of l^2 + r l, which such sequences have too.
struct AttendedSequences {
  std::int64_t count = 1, length = 0;
};
AttendedSequences attended_sequences(const Region& region);

// Attention as a rank runs it. The fused softmax works on four matrices of scores at a time; where
// a rank has another number of them, its kernels are eager (Megatron-LM,
// megatron/model/fused_softmax.py, attn_batch_size % 4).
AttentionShape rank_attention(const Region& region, const ModelOp& op);

// sharding.cpp
ShardedBlock shard_block(const Region& region, const Block& block);

Bytes bytes_from(double value);
std::int64_t tokens_of(const Region& region, const ModelOp& op);
// Elements held per feature in the region of a sequence-split tensor. The one token per sequence
// that a pooler reads is not split: every rank computes it.
std::int64_t sequence_tokens_of(const Region& region, const ModelOp& op);

Kernel memory_kernel(OpKind kind, const Region& region, const ModelOp& op, double bytes);
// Reads and writes of a tensor by element-wise kernels, `passes` in all.
Kernel elementwise_passes(const Region& region, const ModelOp& op, Bytes tensor, int passes);

// Convention: forward C[tokens, out] = X[tokens, in] W; input gradient [tokens, in] over k = out;
// weight gradient [out, in] over k = tokens, added to what earlier micro-batches left there.
struct Product {
  std::int64_t m = 0, n = 0, k = 0;
};
Kernel gemm(DType dtype, const Product& product, Bytes result, std::int64_t batch = 1);
Bytes operands_of(const Kernel& product);
// Bytes of a product's result: `result` as it was given.
Bytes result_of(const Kernel& product);
// A product that gives gradients.
Kernel gradient_gemm(DType dtype, const Product& product, Bytes result, std::int64_t batch = 1);

// sharding_execution.cpp
// The dimension of a product in which several others stand side by side: the output features of a
// forward product are its columns, those of its input gradient its depth, of its weight gradient
// its rows.
enum class Along : std::uint8_t { rows, columns, depth };
// Kernels of the products that share an input and stand as one in `whole`; `widths`: the output
// features of each, out of `all` in the model.
std::vector<Kernel> products_apart(const Kernel& whole, Along along,
                                   const std::vector<std::int64_t>& widths, std::int64_t all);

// sharding_attention.cpp
// Queries of m tokens with keys of n of each sequence.
struct ScoreBlock {
  std::int64_t m = 0, n = 0;
  bool causal = false;
  int shares = 1;  // of the heads of a tensor rank: context ranks that have one each
};
Kernel attention_kernel(const Region& region, const ModelOp& op, AttentionPart part,
                        const ScoreBlock& block);
// Transformer Engine, context_parallel.py, AttnFuncWithCPAndKVP2P: forward, each part is scaled by
// its log-sum-exp and added to the output, in fp32 registers, after the running log-sum-exp has
// been updated; backward, dQ and the slice's dK and dV are copied for the first slice and added for
// the others. With a causal mask, the ranks before a slice's owner have half of the queries to do
// and the ranks behind it all queries with half of the keys; the FLOPs are the same, and as the
// ring goes with the slowest, passes over queries count whole.
ContextAttention context_attention(const Region& region, const ModelOp& op);
// Transformer Engine, context_parallel.py, flash_attn_a2a_communicate: a tensor is copied before it
// is sent and behind. Before attention, from heads of a token side by side to those of one rank
// together (movedim, contiguous), then from the ranks' order of chunks to that of the sequence
// (index_select); behind it, the same backwards. Tokens come first ("sbhd", as Megatron-LM has
// them), so what else is called contiguous is so already. A read and a write each.
ContextAttention head_exchange(const Region& region, const ModelOp& op);
// Key heads that are exchanged, of all tensor ranks.
std::int64_t exchanged_key_heads(const Region& region, const AttentionShape& shape);

// context_tapes.cpp. REQUIRES: `to.context`, and kernels and bytes are what they stay.
void shard_context(const Region& region, ShardedOp& to);

// sharding_scans.cpp
// Operators that carry a state (ModelOp::scan): each context rank has all tokens of a share of
// their heads, whatever attention does (Megatron-LM, core/ssm/mamba_context_parallel.py).
// Gives a scan its kernels, with the time that its chunks take in a row.
void shard_scan(const Region& region, const ModelOp& op, ShardedOp& to);
// Attention of queries to the keys that they have chosen (ModelOp::top_keys), with the scores by
// which they choose.
Kernel sparse_attention_kernel(const Region& region, const ModelOp& op, AttentionPart part);
// The indexer, which is whole on every tensor rank.
void shard_indexer(const Region& region, ShardedOp& to);
// Messages of sparse attention from all context ranks.
ContextAttention sparse_context(const Region& region, const ModelOp& op);

// Heads and sequences become one dimension and part again (Scaling, core/nn/attention/attention.py,
// flash_attention and multi_head_attention): with one sequence the same memory, else two copies, of
// which the linear behind keeps the second.
bool copies_attention(const Region& region);
bool copies_attention_output(const Region& region);  // the kernel keeps its own, too

// sharding_experts.cpp
// The region of an expert's operators: the tokens that come to a rank.
Region region_of_experts(const Region& region, const ModelOp& op);
// Gives a product of all experts of a rank the rows that each of them has.
void spread_rows(const Region& region, Kernel& product);
// Kernels and messages follow the rank that paces, tensors the one that holds most: takes the sizes
// of tensors from `held`.
void hold(const ShardedOp& held, ShardedOp& to);
void shard_router(const Region& region, const ModelOp& op, ShardedOp& to);
void shard_exchange(const Region& region, const ModelOp& op, ShardedOp& to);
// token_ways.cpp. REQUIRES: `to.experts` and `to.messages` are what they stay.
void shard_ways(const Region& region, ShardedOp& to);

// sharding_scratch.cpp
void shard_scratch(const Region& region, const ModelOp& op, ShardedOp& to);

// sharding_execution.cpp
// The format of a product. Some operators are not multiplied in 8 bits beside others that are.
DType product_dtype(const Region& region, const ModelOp& op);
DType weight_gradient_dtype(const Region& region, const ModelOp& op);
// Adds the casts of the operands of a linear whose forward product is `forward`.
void shard_casts(const Region& region, const ModelOp& op, const ModelOp* before,
                 const Product& forward, ShardedOp& to);
// Execution::operation_fuser: casts that the activation of an MLP makes.
void fuse_activations(const Region& region, ShardedBlock& sharded);
// Execution::keeps_gate_inputs_in_fp8: the casts of SwiGLU, and what it keeps.
void keep_gate_input(const Region& region, ShardedOp& to);
// A linear whose input is made again in 16 bits: it casts that for its weight gradient, and would
// have kept it so.
void cast_input_again(const Region& region, ShardedOp& to);
// Sets the part of an operator that runs again, and how much of its output was kept
// (Recompute::operators). A kernel without work stands for an output that was kept whole.
void keep_outputs(const Region& region, const Block& block, ShardedBlock& sharded);
// Products that share their input are kernels apart, and each writes an input gradient. These are
// added up by the kernel behind, be it a norm or the copy of shard_reorders, which reads them all;
// by one of their own before a collective that needs no copy.
void separate_products(const Region& region, const Block& block, std::size_t i, ShardedOp& op);
// Scales of rows (eight_bit.hpp) by which no product multiplies: kernels behind those that give
// gradients do. That of input gradients is part of what reads them where that is a compiler's.
void rescale_gradients(const Region& region, const Block& block, std::size_t i, ShardedOp& op);

// sharding_user_buffers.cpp
// A slice of the rank's own tokens: read, and written where the others read it; `bytes` of each
// element in all.
Kernel place(const Region& region, const ModelOp& op, std::int64_t features, double bytes);
// The transposition of an output's gradient, gathered in 8 bits, for the weight gradient.
Kernel gathered_transpose(const Region& region, const ModelOp& op);
// The products of a linear in parts.
void split_products(const Region& region, const ModelOp& op, ShardedOp& to);
// The products of a layer in slices, sharding_micro_pipeline.cpp.
void slice_products(const Region& region, const Block& block, ShardedBlock& sharded);

// sharding_execution.cpp
// DTensor gathers and scatters along the first dimension, and tokens are the second: what is
// gathered is copied into the order of the sequence, what is to be scattered into that of the ranks
// (torch/distributed/_functional_collectives.py, all_gather_tensor and reduce_scatter_tensor, where
// the dimension is not 0).
void shard_reorders(const Region& region, ShardedOp& op);

}  // namespace sim
