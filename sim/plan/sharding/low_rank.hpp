// Low-rank adapters (Layout::lora_rank): the parameters of the model are frozen, and beside a
// linear x W stands (x A) B, of which A and B are trained.
//
// Sources: Hu et al. 2021, arXiv:2106.09685; NVIDIA Megatron-Bridge at 067f987d, peft/utils.py
// (ParallelLinearAdapter) and peft/lora_layers.py (LoRALinear): two products in 16 bits, the
// multiplication by alpha / rank and the sum are kernels of their own. Dettmers et al. 2023,
// arXiv:2305.14314 (QLoRA): frozen weights in 4 bits, which a kernel turns into 16 for each use.
#pragma once

#include <optional>

#include "sim/plan/sharding/parts.hpp"

namespace sim {

// The kind of linear in a layer that an operator is; none: another operator.
std::optional<LoraModule> lora_module(const Block& block, const ModelOp& op);
// Whether a linear has an adapter.
bool has_adapter(const Block& block, const ModelOp& op, const Layout& layout);

// Parameters of the adapter that a token passes at an operator, 0 where it has none; and of all
// adapters of a model, on all ranks of a replica.
std::int64_t adapter_parameters(const Model& model, const Block& block, const ModelOp& op,
                                const Layout& layout);
std::int64_t adapter_parameters(const Model& model, const Layout& layout);

// Freezes an operator: takes away what it then does without, and gives a linear its adapter.
// REQUIRES: Layout::trains_adapters().
void freeze(const Region& region, const Block& block, ShardedOp& to);

// Whether it is trained whole beside adapters (Layout::trains_embedding, trains_head).
bool trains_whole(const Block& block, const ModelOp& op, const Layout& layout);

// Bytes of a frozen weight of a linear in nf4: 4 bits, a scale of 8 bits for each 64, and one of 32
// bits for each 256 of these (QLoRA, section 3, double quantization).
constexpr double nf4_bytes = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
// The same in int8, of a matrix whose rows have so many elements: a scale in fp32 for each row
// (LLM.int8; bitsandbytes at 95f9af30, nn/modules.py, Int8Params: CB and SCB).
constexpr double int8_bytes(std::int64_t row) {
  return 1 + 4.0 / static_cast<double>(row);
}

}  // namespace sim
