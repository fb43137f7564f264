// Checks of a layout: MLPs (Layout::mlp_tiles) and the loss (Layout::loss_chunks,
// LossForm::chunked) in pieces of the tokens.
#include "sim/plan/layout_problem_list.hpp"
#include "sim/plan/sharding/chunked_loss.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/kept_set.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/schedule/schedule.hpp"

namespace sim {
namespace {

// Pieces of a GPU's tokens, `count` of them by the key `key`.
class PieceChecker {
 protected:
  PieceChecker(const char* key, int count, const Layout& layout, const Model& model,
               LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list}, key_{key}, count_{count} {}

  void refuse(const std::string& why) {
    list_.problem(key_, "{} is {}: {}; allowed: 1", key_, count_, why);
  }

  // A piece's gradients of weights follow those of its input at once.
  void weight_gradients() {
    if (splits_backward(layout_.schedule) || layout_.delay_weight_gradients)
      refuse(fmt::format(
          "its weight gradients cannot be put off, as {} does",
          layout_.delay_weight_gradients ? "overlap.delay_wgrad" : word(layout_.schedule)));
  }

  void tokens() {
    const bool split = layout_.sequence_parallel;
    const std::int64_t held =
        layout_.sequence_length / layout_.context_parallel / (split ? layout_.tensor_parallel : 1);
    if (held % count_ != 0)
      list_.problem(key_,
                    "{} is {}, which does not divide the {} tokens of a sequence that a GPU has "
                    "(sequence_length / context_parallel{}); allowed: {}",
                    key_, count_, held, split ? " / tensor_parallel" : "",
                    LayoutProblemList::divisors_of({held}));
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;

 private:
  const char* key_;
  int count_;
};

class TileChecker : PieceChecker {
 public:
  TileChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : PieceChecker{"mlp_tiles", layout.mlp_tiles, layout, model, list} {}

  void run() {
    if (layout_.mlp_tiles == 1) return;
    const auto has_mlp = [](const Block& layer) { return !mlp_of(layer).empty(); };
    if (model_.is_layer_list || std::none_of(model_.layers.begin(), model_.layers.end(), has_mlp))
      return refuse(fmt::format("{} has no MLP", model_.name));
    if (model_.has_experts()) refuse("it is not modelled for mixtures of experts");
    if (layout_.tensor_parallel > 1) refuse("its pieces are not modelled with tensor_parallel > 1");
    if (layout_.has_lengths()) refuse("it is not modelled with packing.lengths");
    if (is_quantized(layout_.compute_dtype))
      refuse(fmt::format("it is not modelled with compute_dtype {}", word(layout_.compute_dtype)));
    recomputation();
    weight_gradients();
    tokens();
  }

 private:
  // All of the MLP runs again, whichever way the rest of the layer does.
  void recomputation() {
    if (layout_.recomputes(RecomputeModule::mlp))
      refuse("its pieces run again by themselves, without recompute_modules: mlp");
    if (layout_.recompute == Recompute::operators)
      refuse("it is not modelled with recompute operators");
  }
};

class LossChunkChecker : PieceChecker {
 public:
  LossChunkChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : PieceChecker{"loss_chunks", layout.loss_chunks, layout, model, list} {}

  void run() {
    if (layout_.loss_chunks == 1) return;
    const std::vector<std::uint32_t> ops = head_and_loss(model_.output);
    if (ops.empty()) return refuse(model_.name + " does not end with a head and its loss");
    if (is_quantized(model_.output.ops[ops.front()], layout_))
      refuse("it is not modelled with a head that multiplies in 8 bits");
    framework();
    weight_gradients();
    tokens();
  }

 private:
  void framework() {
    const Execution& runs = model_.execution;
    if (runs.chunks_logits) refuse("framework.loss chunked has chunks of its own");
    if (layout_.tensor_parallel > 1 &&
        (runs.gathers_logits || layout_.cuts_products() || runs.loss_chunks == LossChunks::again))
      refuse(
          "with tensor_parallel > 1 it is not modelled with overlap.tensor_products, "
          "framework.parallel_output false or loss_chunks_backward again");
    if (runs.recomputes_head && layout_.recompute == Recompute::full)
      refuse("the framework runs the head again (framework.recomputes_head)");
    if (runs.held_logits > 1 || runs.loss_metrics > 0)
      refuse(
          "the framework reads all logits behind the loss (framework.held_logits, loss_metrics)");
    if (holds_units(model_, layout_) && runs.loss_chunks == LossChunks::at_once_fp32)
      refuse(
          "the framework adds up whole gradients of FSDP's units, for which it is not modelled "
          "with framework.loss_chunks_backward at_once_fp32");
  }
};

}  // namespace

void check_pieces(const Layout& layout, const Model& model, LayoutProblemList& list) {
  TileChecker{layout, model, list}.run();
  if (model.execution.chunks_logits && layout.tensor_parallel > 1)
    list.problem("tensor_parallel",
                 "tensor_parallel is {} with framework.loss chunked, which takes all classes of a "
                 "token; allowed: 1",
                 layout.tensor_parallel);
  LossChunkChecker{layout, model, list}.run();
}

}  // namespace sim
