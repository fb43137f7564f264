// Checks of a layout: packed sequences and the lengths of a data set's sequences.
#include <algorithm>

#include "sim/layout/row_packing.hpp"
#include "sim/plan/layout_problem_list.hpp"

namespace sim {
namespace {

constexpr std::int64_t most_rows = 1 << 20;  // of a step, which are drawn one by one

class PackingChecker {
 public:
  PackingChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list} {}

  void run() {
    if (!layout_.has_lengths() && is_described()) return unused();
    if (layout_.packed_length == 0 && !layout_.has_lengths()) return;
    if (layout_.has_lengths()) lengths();
    if (layout_.packed_length > layout_.sequence_length)
      list_.problem("packed_length", "packed_length is {}, longer than sequence_length {}",
                    layout_.packed_length, layout_.sequence_length);
    attention();
    context();
  }

 private:
  const char* key() const { return layout_.has_lengths() ? "packing" : "packed_length"; }

  bool is_described() const {
    const Layout defaults;
    return layout_.packing_mean != 0 || layout_.packing_sigma != 0 ||
           layout_.packing != defaults.packing || layout_.packing_multiple != 0 ||
           layout_.packing_seed != defaults.packing_seed;
  }
  void unused() {
    list_.problem("packing",
                  "a key of packing is set, but packing.lengths is none; allowed: lognormal, or a "
                  "file");
  }

  void lengths() {
    if (layout_.packed_length > 0)
      list_.problem("packed_length", "packed_length is {} and packing.lengths {}: give one of them",
                    layout_.packed_length, layout_.packing_lengths.name);
    source();
    rows();
    neighbours();
  }

  void source() {
    const LengthSource& from = layout_.packing_lengths;
    if (from.is_file()) {
      if (!from.measured)
        list_.problem("packing", "packing.lengths is {}, which was not read", from.name);
      if (layout_.packing_mean != 0 || layout_.packing_sigma != 0)
        list_.problem("packing",
                      "packing.mean or packing.sigma is set, but the lengths are those of {}; "
                      "allowed with packing.lengths: lognormal",
                      from.name);
    } else if (layout_.packing_mean < 1) {
      list_.problem("packing",
                    "packing.mean is {}, the mean of lognormal lengths; allowed: 1 token or more",
                    layout_.packing_mean);
    }
  }

  void rows() {
    if (layout_.global_batch > most_rows)
      list_.problem("global_batch",
                    "global_batch is {} rows, which packing.lengths draws one by one; allowed: up "
                    "to {}",
                    layout_.global_batch, most_rows);
    Layout derived = layout_;
    derived.packing_multiple = 0;
    const std::int64_t needed = length_multiple(derived), asked = length_multiple(layout_);
    if (asked % needed != 0)
      list_.problem("packing",
                    "packing.multiple is {}, but context_parallel and sequence_parallel split "
                    "sequences of a multiple of {}; allowed: multiples of {}, or 0",
                    asked, needed, needed);
    if (asked > layout_.sequence_length || layout_.sequence_length % asked != 0)
      list_.problem("packing",
                    "sequences are padded to a multiple of {} (packing.multiple), which "
                    "sequence_length {} is not",
                    asked, layout_.sequence_length);
    // cu_seqlens is that of one row (Megatron-LM at d98e8a64, pretrain_gpt.py; Megatron-Bridge,
    // docs/training/packed-sequences.md: "offline packed SFT requires micro_batch_size == 1").
    if (!layout_.pads_rows() && layout_.micro_batch > 1 && runs_as_megatron(model_.execution))
      list_.problem(
          "micro_batch",
          "micro_batch is {}, but Megatron-LM packs one row to a micro-batch; allowed: 1, "
          "or packing.method {}, {}",
          layout_.micro_batch, word(Packing::pad_to_longest), word(Packing::pad_by_length));
  }

  // Other choices that take every micro-batch for as long as any.
  void neighbours() {
    const auto refuse = [&](const char* name, std::string_view what, std::string_view allowed) {
      list_.problem(name, "{} with packing.lengths, which is not modelled; allowed: {}", what,
                    allowed);
    };
    if (layout_.trains_apart()) refuse("local_steps", "local_steps.every is above 1", "1");
    if (layout_.has_servers()) refuse("servers", "servers.mode is given", "none");
    if (!layout_.pads_rows()) return;
    if (layout_.cuts_products())
      refuse("overlap", "overlap.tensor_products is true and rows are padded", "false");
    if (layout_.offloads_activations())
      refuse("offload", "offload.activations is given and rows are padded", "none");
    if (layout_.recompute == Recompute::operators)
      refuse("recompute", "recompute is operators and rows are padded", "none, selective, full");
  }

  void attention() {
    if (!is_flash(layout_.attention) && !layout_.pads_rows())
      list_.problem("attention",
                    "attention is unfused with {}, which needs a kernel of sequences of any "
                    "length; allowed: flash, flash-2",
                    key());
    if (model_.is_layer_list || !model_.attention.causal)
      list_.problem(key(), "{} needs causal attention, which {} has not", key(), model_.name);
    for (const Block* block : blocks_of_each_kind(model_))
      if (std::any_of(block->ops.begin(), block->ops.end(),
                      [](const ModelOp& op) { return op.top_keys > 0; }))
        return list_.problem(key(), "{} is not modelled with the sparse attention of {}", key(),
                             model_.name);
  }

  // Transformer Engine at d0067d0d, context_parallel.py: rings, gathers and all-to-all take packed
  // sequences (qkv_format "thd"), each padded to twice the ranks.
  void context() {
    const int c = layout_.context_parallel;
    if (c == 1) return;
    if (layout_.packed_length > 0 && layout_.packed_length < 2 * c)
      list_.problem("packed_length",
                    "packed_length is {}, but context_parallel {} cuts each sequence into {} "
                    "chunks; allowed: {} or more",
                    layout_.packed_length, c, 2 * c, 2 * c);
    if (model_.execution.context != ContextForm::transformer_engine)
      list_.problem(
          key(),
          "{} with context_parallel {}: PyTorch's context_parallel takes sequences of one "
          "length; allowed: context_parallel 1, or framework megatron",
          key(), c);
    if (layout_.has_lengths() && layout_.packing == Packing::concatenated)
      list_.problem("packing",
                    "packing.method is concatenated with context_parallel {}, for which each "
                    "sequence is padded; allowed: {}, {}, {}",
                    c, word(Packing::first_fit_decreasing), word(Packing::first_fit_shuffle),
                    word(Packing::best_fit_decreasing));
    if (model_.has_scan())
      list_.problem(key(),
                    "{} with context_parallel {} is not modelled with the scans of {}; allowed: 1",
                    key(), c, model_.name);
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;
};

}  // namespace

void check_packing(const Layout& layout, const Model& model, LayoutProblemList& list) {
  PackingChecker{layout, model, list}.run();
}

}  // namespace sim
