// Recompute::operators: which operators of a layer run again for its backward pass, as torchtitan's
// selective activation checkpointing has it with selective_ac_option "op" (torchtitan,
// parallelisms/parallelize_llama.py, _save_list and _get_custom_policy): kept are the outputs of
// attention, of reduce-scatters, and of every matrix product but each second one of the layer.
//
// Products count as torchtitan runs them: queries, keys and values are three, a gate and what it
// gates two. The last one of a layer is neither kept nor run again: nothing reads its output but
// the next layer, whose input is kept.
//
// Where the framework multiplies queries, keys and values at once, and a gate with what it gates
// (keeps_tensors), these are one product each. Then every operator is kept or runs again as a
// whole: what is kept is its output, held from the forward pass on, and no operator stands for it.
// The last product runs again only where something that stands behind it keeps what it makes.
#include <numeric>

#include "sim/plan/sharding/kept_set.hpp"
#include "sim/plan/sharding/sharding.hpp"

namespace sim {
namespace {

class OutputChooser {
 public:
  OutputChooser(const Block& layer, const Model& model, const Layout& layout, std::size_t end)
      : layer_{layer}, model_{model}, layout_{layout}, end_{end} {}

  KeptOutput output(std::size_t i) {
    const ModelOp& op = layer_.ops[i];
    KeptOutput output;
    if (op.kind == ModelOpKind::attention) output.again = 0;
    if (op.kind == ModelOpKind::linear) {
      output.products = products_again(i);
      const auto again =
          std::accumulate(output.products.begin(), output.products.end(), std::int64_t{0});
      output.again = static_cast<double>(again) / static_cast<double>(op.out_features);
    }
    output.as_tensor = tensors_ && output.again == 0 && i < end_;
    return output;
  }

 private:
  std::vector<std::int64_t> products_again(std::size_t i) {
    const ModelOp& op = layer_.ops[i];
    // torch._grouped_mm is not among what is saved (torchtitan, distributed/
    // activation_checkpoint.py), nor counted as a product.
    if (op.experts > 0) return products_of(layer_, i, model_.attention);
    const bool scattered = op.split == TensorSplit::row && layout_.tensor_parallel > 1;
    const bool last = ends_products(layer_, i);
    std::vector<std::int64_t> again;
    if (tensors_) {
      const bool runs = last ? i < end_ : ++product_ % 2 == 0 && !scattered;
      if (runs) again.push_back(op.out_features);
      return again;
    }
    for (const std::int64_t width : products_of(layer_, i, model_.attention))
      if (++product_ % 2 == 0 && !scattered && !last) again.push_back(width);
    return again;
  }

  const Block& layer_;
  const Model& model_;
  const Layout& layout_;
  std::size_t end_;
  bool tensors_ = keeps_tensors(model_.execution, layout_);
  int product_ = 0;
};

}  // namespace

bool keeps_tensors(const Execution& execution, const Layout& layout) {
  return layout.recompute == Recompute::operators && !execution.separate_products &&
         !execution.keeps_gathered_inputs && !execution.copies_tokens &&
         !execution.copies_attention && !execution.keeps_unread_outputs &&
         !is_quantized(layout.compute_dtype);
}

bool ends_products(const Block& layer, std::size_t op) {
  return layer.ops[op].kind == ModelOpKind::linear &&
         std::none_of(layer.ops.begin() + static_cast<std::ptrdiff_t>(op) + 1, layer.ops.end(),
                      [](const ModelOp& later) { return later.kind == ModelOpKind::linear; });
}

std::vector<KeptOutput> listed_outputs(const Block& layer, const Model& model, const Layout& layout,
                                       std::size_t end) {
  OutputChooser chooser{layer, model, layout, end};
  std::vector<KeptOutput> outputs;
  for (std::size_t i = 0; i < layer.ops.size(); ++i)
    outputs.push_back(chooser.output(i));
  return outputs;
}

}  // namespace sim
