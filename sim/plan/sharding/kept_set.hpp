// What a block keeps of its forward pass, and what of that pass runs again for its backward pass.
// Each way of recomputation (Layout::recompute) is a way to choose this set. Lowering replays what
// it says (block/rematerialisation.hpp), and hardware FLOPs are counted from it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"

namespace sim {

// When the pieces of a Replay run. again: forward, and once more in front of their backward pass;
// at_once: both ways in the backward pass; behind: forward, keeping what they keep as a whole.
enum class PieceOrder : std::uint8_t { again, at_once, behind };

// Replay is a part of a block's forward pass that runs again.
struct Replay {
  std::vector<std::uint32_t> ops{};  // that run again, in order
  std::uint32_t before = 0;          // it runs right before the backward pass of this operator
  bool is_block = false;             // of the block, from its input on
  // The output was freed after its last read. It is made again for the operators behind.
  bool hands_out_output = false;
  // One operator, which keeps the same as without recomputation and runs again from that. Else the
  // operators keep nothing, and the inputs that come from outside are kept.
  bool keeps_inside = false;
  // Slices of the tokens in which the operators run. Then they run again slice by slice, each in
  // front of its own backward pass (block/pieces.cpp).
  int pieces = 1;
  PieceOrder order = PieceOrder::again;
  bool makes_core = false;  // not the output: what attention keeps beside its input
  // The last operator is a linear whose adapter ends in front of its second product, for which all
  // that is kept is there (Hugging Face PEFT, tuners/lora/layer.py, Linear.forward: the linear,
  // then its adapter).
  bool ends_in_adapter = false;

  bool runs_again() const { return order == PieceOrder::again; }
  // Pieces of which each keeps tensors of its own between the passes.
  int kept_pieces() const { return order == PieceOrder::behind ? pieces : 0; }
  bool runs(std::size_t op) const { return std::binary_search(ops.begin(), ops.end(), op); }
};

// KeptOutput says what is kept of the output of an operator that would run again.
struct KeptOutput {
  double again = 1;                    // share of the forward pass that runs again
  std::vector<std::int64_t> products;  // output features of the products of that share
  bool as_tensor = false;              // all is kept, as a tensor of its own
  // All is kept, in the block's tensor of kept outputs: neither the operator nor what sums its
  // output over a group runs again.
  bool in_block() const { return again == 0 && !as_tensor; }
};

struct KeptSet {
  static constexpr int none = -1;
  std::vector<Replay> replays;
  // By operator; empty without replays. The replay for which the operator keeps nothing, or in
  // which it runs again, the innermost one; the replay that makes its input again.
  std::vector<int> replay_of, input_from;
  std::vector<KeptOutput> outputs;  // Recompute::operators, by operator; else empty

  // Whether operator i keeps nothing of its own in the forward pass; whether it is the first of
  // such, or the first behind one that is not.
  bool keeps_nothing(std::size_t i) const {
    return !replays.empty() && replay_of[i] != none && !of(i).keeps_inside;
  }
  bool starts(std::size_t i) const {
    return keeps_nothing(i) && (i == 0 || (replay_of[i - 1] != replay_of[i] && !of(i).runs(i - 1)));
  }
  // The replay of operator i, if it keeps nothing for that; else null.
  const Replay* replay_at(std::size_t i) const { return keeps_nothing(i) ? &of(i) : nullptr; }
  bool makes_input_again(std::size_t i) const { return !replays.empty() && input_from[i] != none; }
  bool makes_core_again(std::size_t i) const {
    return !replays.empty() && replay_of[i] != none && of(i).makes_core;
  }
  bool holds_output(std::size_t i) const { return !outputs.empty() && outputs[i].as_tensor; }
  bool has_output_in_block(std::size_t i) const {
    return !outputs.empty() && outputs[i].in_block();
  }
  bool keeps_input_alone() const { return !replays.empty() && replays.front().is_block; }
  // The share of operator i that runs again, where a replay runs it.
  double share_again(std::size_t i) const { return outputs.empty() ? 1.0 : outputs[i].again; }

 private:
  const Replay& of(std::size_t i) const { return replays[static_cast<std::size_t>(replay_of[i])]; }
};

// `block` is one of `model`'s. `recomputes`: false for a layer that recomputation leaves out.
KeptSet kept_set(const Block& block, const Model& model, const Layout& layout,
                 bool recomputes = true);

// Whether recomputation reaches the layer at `index` of its chunk.
inline bool recomputes(const Layout& layout, int index) {
  return layout.recompute != Recompute::full || layout.recomputes_layer(index);
}

// The ways to choose. The input of a block, Recompute::full and Recompute::operators: the first
// operators that run again. All of them, but for Execution::stops_recomputation, and where
// keeps_tensors(), if a last product keeps its input alone and what stands behind it nothing
// (torch/utils/checkpoint.py, `early_stop`: the input is packed before the product runs; compiled,
// no gradient needs what it makes, torch/_functorch/partitioners.py).
KeptSet keep_input(const Block& block, const Model& model, const Layout& layout);
// kept_outputs.cpp: Recompute::operators.
std::vector<KeptOutput> listed_outputs(const Block& layer, const Model& model, const Layout& layout,
                                       std::size_t end);
// kept_modules.cpp: Layout::recompute_modules.
KeptSet keep_modules_inputs(const Block& block, const Layout& layout);
// The same file: Layout::mlp_tiles, beside what else runs again.
void run_mlp_in_pieces(const Block& block, const Layout& layout, KeptSet& kept);
// chunked_loss.cpp: Layout::loss_chunks, of the block with the head.
void run_loss_in_chunks(const Block& block, const Model& model, const Layout& layout,
                        KeptSet& kept);
// Its operators; none: the block has none, or experts in its place.
std::vector<std::uint32_t> mlp_of(const Block& block);

// Whether recomputation by operators keeps outputs as tensors of their own.
bool keeps_tensors(const Execution& execution, const Layout& layout);
// True for the last matrix product of a layer.
bool ends_products(const Block& layer, std::size_t op);
// Whether a block has what `module` stands for.
bool has_module(const Block& block, RecomputeModule module);

}  // namespace sim
