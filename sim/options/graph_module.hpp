// The parts of a layer that a CUDA graph can capture.
#pragma once

#include <array>
#include <cstdint>

#include "sim/base/words.hpp"

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

}  // namespace sim
