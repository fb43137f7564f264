// Which operators a CUDA graph captures, where it does not capture the whole step.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/program/program.hpp"

namespace sim {

// Parts of a layer, as Megatron-LM names them (--cuda-graph-scope; core/transformer/
// transformer_layer.py, _should_call_local_cudagraph and _te_cuda_graph_capture):
//  attn            the norm, attention and the sum behind it
//  mlp             the same of an MLP, of layers without experts
//  moe             all of a layer's experts
//  moe_router      the norm, the router and the shared experts
//  moe_preprocess  what is counted before tokens are sent: kernels of the dispatch, which are
//                  modelled as one that no graph has
//  mamba           a layer of Mamba-2 (core/ssm/mamba_layer.py); of a gated delta net it is attn
enum class GraphModule : std::uint8_t { attn, mlp, moe, moe_router, moe_preprocess, mamba };
constexpr auto words_of(GraphModule) {
  return std::array{Word{GraphModule::attn, "attn"},
                    Word{GraphModule::mlp, "mlp"},
                    Word{GraphModule::moe, "moe"},
                    Word{GraphModule::moe_router, "moe_router"},
                    Word{GraphModule::moe_preprocess, "moe_preprocess"},
                    Word{GraphModule::mamba, "mamba"}};
}

// By operator: the graph that replays it, counted from 0 in issue order, or no_graph. A graph is a
// run of captured operators of a layer in one pass of a micro-batch.
inline constexpr std::uint32_t no_graph = UINT32_MAX;
std::vector<std::uint32_t> graphs_of(const Program& program,
                                     const std::vector<GraphModule>& captured);

}  // namespace sim
