// The head and the loss of some tokens at a time, whose logits alone are there.
//
// Layout::loss_chunks: as many chunks, whose kernels follow each other (block/pieces.cpp). When
// each goes back, and what it keeps: Execution::loss_chunks. Sources: rules/loss-chunks.md.
//
// Execution::chunks_logits: one kernel's chunks (Liger at 00eba634,
// ops/fused_linear_cross_entropy.py, fused_linear_cross_entropy_forward): the tokens over the
// classes per hidden feature, up to a power of two, so that logits take about what the input does.
// Gradients of the weight are added up in memory, chunk after chunk. There the gradients of logits
// are multiplied in the forward pass; here in the backward pass, which follows at once.
#pragma once

#include "sim/plan/sharding/parts.hpp"

namespace sim {

// Tokens of a chunk.
std::int64_t tokens_of_chunk(std::int64_t tokens, std::int64_t hidden, std::int64_t classes);

// Execution::chunks_logits: of the block with the head.
void chunk_logits(const Region& region, ShardedBlock& sharded);

// The head, the loss at the end of the block and what stands between them. Empty: another loss is
// there, too, or something behind it.
std::vector<std::uint32_t> head_and_loss(const Block& block);

}  // namespace sim
