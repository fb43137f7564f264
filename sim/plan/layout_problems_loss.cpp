// Checks of a layout: the loss in chunks of the tokens (Layout::loss_chunks, LossForm::chunked).
#include "sim/plan/layout_problem_list.hpp"
#include "sim/plan/sharding/chunked_loss.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/schedule/schedule.hpp"

namespace sim {
namespace {

class LossChunkChecker {
 public:
  LossChunkChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list} {}

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
  void refuse(const std::string& why) {
    list_.problem("loss_chunks", "loss_chunks is {}: {}; allowed: 1", layout_.loss_chunks, why);
  }

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

  // A chunk's gradients of weights follow those of its input at once.
  void weight_gradients() {
    if (splits_backward(layout_.schedule) || layout_.delay_weight_gradients)
      refuse(fmt::format("its weight gradients cannot be put off, as {} does",
                         layout_.delay_weight_gradients ? "overlap.delay_weight_gradients"
                                                        : word(layout_.schedule)));
  }

  void tokens() {
    const bool split = layout_.sequence_parallel;
    const std::int64_t held =
        layout_.sequence_length / layout_.context_parallel / (split ? layout_.tensor_parallel : 1);
    if (held % layout_.loss_chunks != 0)
      list_.problem("loss_chunks",
                    "loss_chunks is {}, which does not divide the {} tokens of a sequence that a "
                    "GPU has (sequence_length / context_parallel{}); allowed: {}",
                    layout_.loss_chunks, held, split ? " / tensor_parallel" : "",
                    LayoutProblemList::divisors_of({held}));
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;
};

}  // namespace

void check_loss(const Layout& layout, const Model& model, LayoutProblemList& list) {
  if (model.execution.chunks_logits && layout.tensor_parallel > 1)
    list.problem("tensor_parallel",
                 "tensor_parallel is {} with framework.loss chunked, which takes all classes of a "
                 "token; allowed: 1",
                 layout.tensor_parallel);
  LossChunkChecker{layout, model, list}.run();
}

}  // namespace sim
