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
#pragma once

#include <cstdint>
#include <vector>

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"

namespace sim {

// Output features of the products that torchtitan runs for a linear: one, or several.
std::vector<std::int64_t> products_of(const Block& layer, std::size_t linear,
                                      const AttentionShape& attention);

// Whether recomputation by operators keeps outputs as tensors of their own.
bool keeps_tensors(const Execution& execution, const Layout& layout);

// For each operator of `layer`: output features of the products that run again.
std::vector<std::vector<std::int64_t>> products_run_again(const Block& layer, const Model& model,
                                                          const Layout& layout);

// For each operator of `layer`: the share of its forward pass that runs again.
std::vector<double> shares_run_again(const Block& layer, const Model& model, const Layout& layout);

// Recomputation of a layer: the operators, from the first on, that run again. All of them, but for
// Execution::stops_recomputation, and where keeps_tensors(), if a last product keeps its input
// alone and what stands behind it nothing (torch/utils/checkpoint.py, `early_stop`: the input is
// packed before the product runs; compiled, no gradient needs what it makes,
// torch/_functorch/partitioners.py).
std::size_t operators_run_again(const Block& layer, const Execution& execution,
                                const Layout& layout);

// Whether the last of these is a linear whose adapter ends in front of its second product, for
// which all that is kept is there (Hugging Face PEFT, tuners/lora/layer.py, Linear.forward: the
// linear, then its adapter).
bool ends_in_adapter(const Block& layer, std::size_t end, const Execution& execution,
                     const Layout& layout);

// True for the last matrix product of a layer.
bool ends_products(const Block& layer, std::size_t op);

}  // namespace sim
