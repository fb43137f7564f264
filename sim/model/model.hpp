// A model as the planner sees it: blocks of operators with full (unsharded) shapes.
//
// A model is a row of blocks: input blocks (embedding), `layers` identical or different layers, and
// output blocks (final norm, head, loss). Each block lists its forward operators in order. Sizes
// are per token (per sample for layer lists), so that the planner can shard and batch them; how an
// operator shards under tensor parallelism is its `split`.
//
// Sources: Vaswani et al. 2017; Shoeybi et al. 2019 (column/row splits); Korthikanti et al. 2022
// (saved activations, eq. 1-4); parameter counts as published by the authors of each model.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/dtype.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"

namespace sim {

enum class ModelOpKind : std::uint8_t {
  embedding,      // table lookup, weights [in_features = vocabulary rows, out_features]
  linear,         // Y[tokens, out] = X[tokens, in] W (+ bias)
  attention,      // softmax(Q K^T / sqrt(d)) V for all heads
  norm,           // LayerNorm or RMSNorm over `in_features`
  elementwise,    // activation, gating, residual add, dropout, rotary embedding: bytes only
  cross_entropy,  // loss over `in_features` = vocabulary
  generic,        // a layer of a layer list: FLOPs and bytes as given
};

// Where an operator stands under tensor parallelism of size t.
enum class TensorSplit : std::uint8_t {
  sequence,  // outside the split blocks: replicated, or split over tokens with sequence parallelism
  column,    // weights split by output features; needs the full input (all-gather or identity)
  row,       // weights split by input features; output is a partial sum (reduce-scatter/all-reduce)
  inner,     // between a column and a row split: features or heads divided by t
  vocabulary,  // embedding table or loss split over the vocabulary
};

struct ModelOp {
  std::string name;  // "qkv", "attention", "mlp_down": the same in traces, reports and the real engine
  ModelOpKind kind = ModelOpKind::elementwise;
  TensorSplit split = TensorSplit::sequence;
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  std::int64_t weights = 0;  // parameters of the matrix or table (0 for attention, element-wise)
  std::int64_t biases = 0;   // further parameters: bias, norm scale and shift
  bool tied_to_embedding = false;  // head that shares the table: `weights` is 0, FLOPs remain

  // Element-wise traffic per token in units of elements: reads + writes, forward and backward.
  double forward_elements = 0;
  double backward_elements = 0;
  // What must be kept for the backward pass, per token: elements of the activation dtype that lie
  // in the `split` region of this operator, and bytes that do not scale with the dtype (dropout
  // masks, fp32 statistics).
  double saved_elements = 0;
  double saved_fixed_bytes = 0;
  // For a column-split linear: its input is saved in the sequence region (and gathered again in the
  // backward pass with sequence parallelism); these elements are counted here, not above.
  double saved_input_elements = 0;

  // generic only, per sample.
  Flops forward_flops{};
  Flops backward_flops{};
};

struct Block {
  std::string name;  // "embedding", "layer", "head"
  std::vector<ModelOp> ops;
  std::int64_t parameters() const;  // weights + biases of all operators
};

struct AttentionShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  bool causal = true;
  bool dropout = false;  // dropout on the attention probabilities
};

struct Model {
  std::string name;
  std::string family;     // "gpt2", "llama", "bert", "vit", "layers", ...
  std::string source;     // where its figures come from
  bool is_layer_list = false;
  std::int64_t hidden = 0;
  std::int64_t vocabulary = 0;         // unpadded; 0 for ViT and layer lists
  std::int64_t max_sequence = 0;       // 0: unlimited (rotary embedding)
  std::int64_t fixed_sequence = 0;     // ViT: patches + class token; 0: the scenario says
  AttentionShape attention;
  std::int64_t feed_forward = 0;
  bool tied_embedding = false;
  Block input;                // embedding; may be empty
  std::vector<Block> layers;  // one entry per layer
  Block output;               // final norm, head, loss; may be empty
  std::int64_t parameters() const;  // tied weights counted once
};

// Reads a model: a YAML file of ours, or a Hugging Face config.json (recognised by `model_type` or
// `architectures`). Throws InputError; an unknown architecture, and mixture-of-experts, are refused
// by name.
Model load_model(const std::string& path);

}  // namespace sim
