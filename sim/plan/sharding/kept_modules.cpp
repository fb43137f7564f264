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
#include <optional>
#include <string_view>

#include "sim/plan/sharding/kept_set.hpp"

namespace sim {
namespace {

using Ops = std::vector<std::uint32_t>;

std::optional<std::uint32_t> index_of(const Block& block, std::string_view name) {
  for (std::uint32_t i = 0; i < block.ops.size(); ++i)
    if (block.ops[i].name == name) return i;
  return std::nullopt;
}

// From the first operator of a name to the last one of another, both of them there.
Ops range(const Block& block, std::string_view first, std::string_view last) {
  Ops ops;
  const auto from = index_of(block, first), to = index_of(block, last);
  if (!from || !to) return ops;
  for (std::uint32_t i = *from; i <= *to; ++i)
    ops.push_back(i);
  return ops;
}

Ops named(const Block& block, std::initializer_list<std::string_view> names) {
  Ops ops;
  for (const std::string_view name : names)
    if (const auto found = index_of(block, name)) ops.push_back(*found);
  return ops;
}

bool has_shared_experts(const Block& block) {
  return index_of(block, "shared_expert_up").has_value();
}

Ops ops_of_experts(const Block& block) {
  return range(block, "router", has_shared_experts(block) ? "shared_expert_sum" : "expert_combine");
}

// The operator whose output operator i reads; -1: what the block receives.
int producer(const Block& block, int i) {
  const ModelOp& op = block.ops[static_cast<std::size_t>(i)];
  const int before = op.starts_from >= 0 ? producer(block, op.starts_from) : i - 1;
  const bool hands_on =
      before >= 0 && block.ops[static_cast<std::size_t>(before)].kind == ModelOpKind::router;
  return hands_on ? producer(block, before) : before;
}

// Whether the backward pass of an operator reads its input.
bool keeps_input(const ModelOp& op) {
  return op.kind == ModelOpKind::linear || op.kind == ModelOpKind::router ||
         op.kind == ModelOpKind::attention;
}

class ModuleFinder {
 public:
  ModuleFinder(const Block& block, const Layout& layout) : block_{block}, layout_{layout} {
    found_.replay_of.assign(block.ops.size(), KeptSet::none);
    found_.input_from = found_.replay_of;
  }

  KeptSet find() {
    checkpoint(RecomputeModule::core_attn, named(block_, {"attention"}));
    checkpoint(RecomputeModule::mlp, mlp_of(block_));
    checkpoint(RecomputeModule::moe, ops_of_experts(block_));
    checkpoint(RecomputeModule::shared_experts,
               range(block_, "shared_expert_up", "shared_expert_down"));
    if (has_module(block_, RecomputeModule::mla_up_proj))
      discard(RecomputeModule::mla_up_proj,
              named(block_, {"query", "query_up", "key_value_up", "rotary"}), "attention", false);
    discard(RecomputeModule::moe_act, named(block_, {"expert_activation"}), "expert_down", true);
    norms();
    std::stable_sort(found_.replays.begin(), found_.replays.end(),
                     [](const auto& a, const auto& b) { return a.ops.front() < b.ops.front(); });
    for (std::size_t at = 0; at < found_.replays.size(); ++at)
      enter(static_cast<int>(at));
    return std::move(found_);
  }

 private:
  void checkpoint(RecomputeModule module, Ops ops) {
    if (ops.empty() || !layout_.recomputes(module)) return;
    const std::uint32_t last = ops.back();
    found_.replays.push_back({.ops = std::move(ops), .before = last});
  }

  void discard(RecomputeModule module, Ops ops, std::string_view before, bool keeps_inside) {
    const auto reader = index_of(block_, before);
    if (ops.empty() || !reader || !layout_.recomputes(module)) return;
    found_.replays.push_back({.ops = std::move(ops),
                              .before = *reader,
                              .hands_out_output = true,
                              .keeps_inside = keeps_inside});
  }

  // Hooks stand at the output of the attention, and at that of the MLP; in merged passes at what
  // the experts send back (core/models/gpt/fine_grained_callables.py, submodule_moe_forward).
  void norms() {
    if (has_module(block_, RecomputeModule::mla_up_proj))
      discard(RecomputeModule::layernorm, named(block_, {"input_norm"}), "attention_projection",
              true);
    if (has_module(block_, RecomputeModule::moe))
      discard(RecomputeModule::layernorm, named(block_, {"post_attention_norm"}),
              layout_.overlap_expert_exchange ? "expert_down"
                                              : block_.ops[ops_of_experts(block_).back()].name,
              true);
  }

  void enter(int at) {
    const Replay& replay = found_.replays[static_cast<std::size_t>(at)];
    for (const std::uint32_t op : replay.ops)
      found_.replay_of[op] = at;
    if (!replay.hands_out_output) return;
    const auto made = static_cast<int>(replay.ops.back());
    for (int i = made + 1; i < static_cast<int>(block_.ops.size()); ++i)
      if (keeps_input(block_.ops[static_cast<std::size_t>(i)]) && producer(block_, i) == made)
        found_.input_from[static_cast<std::size_t>(i)] = at;
  }

  const Block& block_;
  const Layout& layout_;
  KeptSet found_;
};

}  // namespace

bool has_module(const Block& block, RecomputeModule module) {
  switch (module) {
    case RecomputeModule::core_attn:
      return index_of(block, "attention").has_value();
    case RecomputeModule::mla_up_proj:
      return index_of(block, "key_value_up").has_value();
    case RecomputeModule::mlp:
      return index_of(block, "mlp_up").has_value();
    case RecomputeModule::moe:
    case RecomputeModule::moe_act:
      return index_of(block, "router").has_value();
    case RecomputeModule::shared_experts:
      return has_shared_experts(block);
    case RecomputeModule::layernorm:
      return index_of(block, "input_norm").has_value();
  }
  return false;
}

// Bekman et al. 2025, arXiv:2506.13996 (Arctic Long Sequence Training), section 3.1.3; DeepSpeed at
// 016d2f70, runtime/sequence_parallel/ulysses_sp.py, TiledMLP: "the forward occurs twice each
// iteration. And if you're using activation checkpointing it then occurs" three times.
void run_mlp_in_pieces(const Block& block, const Layout& layout, KeptSet& kept) {
  std::vector<std::uint32_t> ops = mlp_of(block);
  if (ops.empty()) return;
  kept.replay_of.resize(block.ops.size(), KeptSet::none);
  kept.input_from.resize(block.ops.size(), KeptSet::none);
  for (const std::uint32_t op : ops)
    kept.replay_of[op] = static_cast<int>(kept.replays.size());
  const std::uint32_t last = ops.back();
  kept.replays.push_back({.ops = std::move(ops), .before = last, .pieces = layout.mlp_tiles});
}

std::vector<std::uint32_t> mlp_of(const Block& block) {
  return range(block, "mlp_up", "mlp_down");
}

KeptSet keep_modules_inputs(const Block& block, const Layout& layout) {
  return ModuleFinder{block, layout}.find();
}

}  // namespace sim
