// Layout::recompute_modules: which operators of a layer run again in its backward pass, and what is
// not kept for it, as Megatron-LM has it (at d98e8a64):
//
//  checkpoint      core_attn (core/transformer/attention.py, _checkpointed_attention_forward), mlp
//                  (transformer_layer.py, _forward_mlp), moe and shared_experts (moe/moe_layer.py):
//                  the module keeps its input, and all of it runs again before its backward pass.
//  without output  layernorm (transformer_layer.py, input_layernorm and pre_mlp_layernorm), moe_act
//                  (moe/experts.py, TEGroupedMLP) and mla_up_proj (multi_latent_attention.py,
//                  qkv_up_proj_and_rope_apply): CheckpointWithoutOutput (tensor_parallel/random.py)
//                  keeps the inputs. The output is freed when it has been read, and made again when
//                  the gradient of a later tensor is there, the one that its hook stands at.
//
// Norms are kernels of their own, for layernorm, where Transformer Engine has not put them into the
// linear behind: in layers with latent attention, and before experts (core/models/gpt/
// gpt_layer_specs.py, get_gpt_layer_with_transformer_engine_submodules). Others are not run again.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"

namespace sim {

struct RecomputedModule {
  RecomputeModule module{};
  std::vector<std::uint32_t> ops;  // that run again, in order
  std::uint32_t before = 0;        // its backward pass is the first behind them
  bool discards_output = false;
  // Its operators keep the same as without recomputation, so that they run again from it. Else they
  // keep nothing, and the module keeps the inputs that come from outside.
  bool keeps_inside = false;
};

struct RecomputedModules {
  static constexpr int none = -1;
  std::vector<RecomputedModule> modules;
  // For each operator: the module that it runs again in, and the one that makes its input again.
  std::vector<int> runs_in, input_from;
  bool exist() const { return !modules.empty(); }
  // Operator i keeps nothing of its own, as it runs again; it is the first that does, or the first
  // behind one that does not.
  bool keeps_nothing(std::size_t i) const {
    return exist() && runs_in[i] != none &&
           !modules[static_cast<std::size_t>(runs_in[i])].keeps_inside;
  }
  bool starts(std::size_t i) const {
    return keeps_nothing(i) && (i == 0 || runs_in[i - 1] != runs_in[i]);
  }
};

RecomputedModules recomputed_modules(const Block& block, const Layout& layout);

// Whether a block has what `module` stands for.
bool has_module(const Block& block, RecomputeModule module);

}  // namespace sim
