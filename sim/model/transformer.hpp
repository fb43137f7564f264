// The one place where the shape of a transformer becomes operators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/model/model.hpp"
#include "sim/model/transformer_shape.hpp"

namespace sim {

// REQUIRES: positive sizes within transformer_limits, heads % kv_heads == 0.
Model build_transformer(const TransformerShape& shape);

// The lines of a model file (models/FORMAT.md) that read_transformer_shape() reads back as `shape`.
// REQUIRES: has_transformer_yaml(shape); a Hugging Face config may have biases that our file cannot
// say.
std::string transformer_yaml(const TransformerShape& shape, std::size_t indent);
bool has_transformer_yaml(const TransformerShape& shape);

inline double as_double(std::int64_t count) {
  return static_cast<double>(count);
}

// The parts of build_transformer().
Block input_block(const TransformerShape& shape);
Block transformer_layer(const TransformerShape& shape, const LayerKind& kind = {});
Block output_block(const TransformerShape& shape);
inline constexpr std::string_view note_of_vision =
    "vision encoder: timed as the kernels of a language model are; not validated: of the two "
    "measured runs that have one, the images are few (validation/BEYOND.md)";
// vision_blocks.cpp. REQUIRES: shape.vision.exists().
Model build_vision_encoder(const TransformerShape& shape);
// Puts the tokens of images, which the block is given, in the place of others.
ModelOp place_images_op(const TransformerShape& shape);
// A small table whose rows are added to the embedding: learned positions, token types.
ModelOp added_table_op(std::string name, Function function, std::int64_t rows,
                       std::int64_t hidden);
ModelOp norm_op(const TransformerShape& shape, std::string name);
ModelOp residual_op(const TransformerShape& shape, std::string name, double probability);
// Multiplies by a number: reads and writes, backward the same. Keeps nothing.
ModelOp scale_op(std::string name, TensorSplit split, std::int64_t width);
ModelOp activation_op(std::string name, Activation activation, TensorSplit split,
                      std::int64_t width);
ModelOp linear_op(std::string name, TensorSplit split, std::int64_t in, std::int64_t out,
                  bool bias);
// Queries, keys and values of latent attention, joined.
void append_latent_attention(Block& block, const TransformerShape& shape);
void append_attention(Block& block, const TransformerShape& shape);
void append_mlp(Block& block, const TransformerShape& shape);
// The mixers of hybrid models, from the hidden state to what is added to it.
void append_mamba2(Block& block, const TransformerShape& shape);
void append_gated_delta_net(Block& block, const TransformerShape& shape);
// The indexer of sparse attention, behind the queries, keys and values.
void append_indexer(Block& block, const TransformerShape& shape);
// Router, experts, and what every token passes besides.
void append_experts(Block& block, const TransformerShape& shape);

// Sets `first_layer` and `every` such that just the layers of `pattern` have experts; false if that
// is not possible. REQUIRES: experts.count > 0.
bool set_expert_layers(Experts& experts, const std::vector<bool>& pattern);
// The error in the layers of a hybrid model; empty: none.
std::string hybrid_problem(const TransformerShape& shape);
// The same of the layers of multi-token prediction.
std::string mtp_problem(const TransformerShape& shape);
// The error in the number or the sizes of a shape's experts; empty: none.
std::string experts_problem(const TransformerShape& shape);
// The same of the layers that choose the keys of sparse attention.
std::string indexers_problem(const TransformerShape& shape);
std::string expert_groups_problem(const Experts& experts);

// Largest sizes read: no product of them, summed over all layers, exceeds 2^63; of experts, where
// there are not too many of them.
namespace transformer_limits {
inline constexpr std::int64_t layers = 10'000;
inline constexpr std::int64_t hidden = 1'000'000;
inline constexpr std::int64_t heads = 16'384;
inline constexpr std::int64_t head_dim = 4'096;
inline constexpr std::int64_t feed_forward = 10'000'000;
inline constexpr std::int64_t experts = 65'536;
inline constexpr std::int64_t rank = 1'000'000;    // of latent attention
inline constexpr std::int64_t state = 16'384;      // of a scan
inline constexpr std::int64_t taps = 64;           // of a convolution
inline constexpr std::int64_t rows = 100'000'000;  // vocabulary, positions
inline constexpr std::int64_t pixels = 65'536;     // edge of an image
}  // namespace transformer_limits

}  // namespace sim
