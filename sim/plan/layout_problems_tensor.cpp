// Checks of a layout: tensor parallelism, and products that are cut into parts beside it.
#include <fmt/format.h>

#include "sim/model/key_heads.hpp"
#include "sim/plan/layout_problem_list.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/plan/sharding/user_buffers.hpp"
#include "sim/schedule/schedule.hpp"

namespace sim {
namespace {

class TensorChecker {
 public:
  TensorChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list} {}

  void run() {
    tensor();
    cut_products();
  }

 private:
  void tensor() {
    const int t = layout_.tensor_parallel;
    if (t == 1) return;
    if (model_.is_layer_list) {
      list_.problem("tensor_parallel",
                    "tensor_parallel is {}, but {} is a list of layers, which has no tensor split; "
                    "allowed: 1",
                    t, model_.name);
      return;
    }
    const bool attends = !model_.is_hybrid() || model_.shape->hybrid.has(Mixer::attention);
    const std::int64_t heads = attends ? model_.attention.heads : 0;
    const std::int64_t keys = attends ? model_.attention.kv_heads : 0;
    const std::string allowed = LayoutProblemList::divisors_of({heads, keys, model_.feed_forward});
    const auto must_divide = [&](std::int64_t value, const char* what) {
      if (value % t != 0) {
        list_.problem("tensor_parallel",
                      "tensor_parallel is {}, which does not divide {} {}; allowed: {}", t, value,
                      what, allowed);
      }
    };
    must_divide(heads, "heads");
    if (attends && shares_key_heads(model_, t) && model_.execution.shares_key_heads)
      shared_key_heads();
    else
      must_divide(keys, "key/value heads");
    if (model_.is_hybrid())
      for (const LayerKind& kind : model_.shape->hybrid.kinds())
        must_divide(kind.kv_heads, "key/value heads of a layer");
    must_divide(model_.feed_forward, "feed-forward features");
    if (model_.shape && model_.shape->qk_norm_whole)
      list_.problem("tensor_parallel",
                    "tensor_parallel is {}, but {} norms all queries, and all keys, of a token "
                    "together, which tensor ranks would have to gather: that is not modelled; "
                    "allowed: 1",
                    t, model_.name);
    for (const Block* block : blocks_of_each_kind(model_))
      split_linears(*block);
  }

  // Megatron-LM core_v0.16.1, core/transformer/attention.py: each head on as many ranks as it
  // takes. Features that are not modelled beside it are refused.
  void shared_key_heads() {
    const int t = layout_.tensor_parallel;
    const std::int64_t heads = model_.attention.kv_heads;
    const auto refuse = [&](const std::string& why) {
      list_.problem("tensor_parallel", "tensor_parallel is {}, but {} has {} key/value heads: {}",
                    t, model_.name, heads, why);
    };
    if (t % heads != 0)
      refuse(fmt::format("each is on as many ranks; allowed: divisors and multiples of {}", heads));
    else if (!model_.shape || model_.has_latent_attention())
      refuse("only those of plain attention can be shared");
    else if (layout_.cuts_products() || layout_.recompute == Recompute::operators ||
             (layout_.context_parallel > 1 && layout_.head_ranks() > 1))
      refuse(
          "sharing them is not modelled with overlap.tensor_products, recompute operators or "
          "context_exchange all_to_all");
  }

  // Any other split of a linear layer must come out even too; the vocabulary is padded.
  void split_linears(const Block& block) {
    for (const ModelOp& op : block.ops) {
      if (op.kind != ModelOpKind::linear) continue;
      if (op.split == TensorSplit::sequence || op.split == TensorSplit::vocabulary) continue;
      if (op.experts > 0) continue;
      const bool row = op.split == TensorSplit::row;
      const std::int64_t features = row ? op.in_features : op.out_features;
      if (features % layout_.tensor_parallel == 0) continue;
      list_.problem("tensor_parallel",
                    "tensor_parallel is {}, which does not divide the {} features of {}",
                    layout_.tensor_parallel, features, op.name);
    }
  }

  // Transformer Engine's own modules, as Megatron-LM runs them: --tp-comm-overlap asserts sequence
  // parallelism (megatron/training/arguments.py), which with one tensor rank is off.
  void cut_products() {
    if (!layout_.cuts_products()) return;
    constexpr const char* key = "overlap";
    if (!layout_.sequence_parallel)
      list_.problem(key, "overlap.tensor_products needs sequence_parallel, which is false");
    if (splits_backward(layout_.schedule))
      list_.problem(
          key,
          "overlap.tensor_products, but schedule {} splits the backward pass; allowed: 1f1b, "
          "interleaved, gpipe",
          word(layout_.schedule));
    if (model_.execution.symmetric_memory) {
      micro_pipeline();
    } else {
      user_buffers();
    }
  }

  // If the products of a linear are equal kernels one after another, none is cut.
  void micro_pipeline() {
    const auto equal = [](const ModelOp& op) { return op.products > 1; };
    if (const ModelOp* op = find_in_layers(equal); op != nullptr)
      list_.problem(
          "overlap",
          "overlap.tensor_products cuts linears of one product, and {} has {} (joint_gate: "
          "false); torchtitan's own are apart by separate_products",
          op->name, op->products);
  }

  void user_buffers() {
    constexpr const char* key = "overlap";
    const Execution& runs = model_.execution;
    if (runs.keeps_gathered_inputs || runs.copies_tokens || runs.separate_products ||
        !is_transformer_engine(runs.eight_bit) ||
        runs.eight_bit == EightBit::transformer_engine_linear)
      list_.problem(
          key,
          "overlap.tensor_products is Transformer Engine's or AsyncTP; allowed with frameworks "
          "megatron and torchtitan");
    if (layout_.recompute == Recompute::operators)
      list_.problem(
          key,
          "overlap.tensor_products, but recompute is operators; allowed: none, selective, full");
    const auto uneven = [](const ModelOp& op) {
      return op.split == TensorSplit::row && op.out_features % reduced_blocks != 0;
    };
    if (const ModelOp* op = find_in_layers(uneven); op != nullptr)
      list_.problem(key,
                    "overlap.tensor_products sums the output of {} in {} blocks, which {} features "
                    "are no multiple of",
                    op->name, reduced_blocks, op->out_features);
  }

  template <class Predicate>
  const ModelOp* find_in_layers(Predicate matches) const {
    for (const Block& layer : model_.layers)
      for (const ModelOp& op : layer.ops)
        if (matches(op)) return &op;
    return nullptr;
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;
};

}  // namespace

void check_tensor(const Layout& layout, const Model& model, LayoutProblemList& list) {
  TensorChecker{layout, model, list}.run();
}

}  // namespace sim
