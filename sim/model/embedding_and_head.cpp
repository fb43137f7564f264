// Blocks before the first and behind the last layer: embeddings, final norm, heads, loss.
#include <fmt/format.h>

#include "sim/base/check.hpp"
#include "sim/model/transformer.hpp"

namespace sim {

// Forward: reads a row and the sum so far, writes the sum. Backward: reads the gradient, adds it to the
// row's gradient (a read and a write). Nothing is saved: the indices are the input of the step.
ModelOp added_table_op(std::string name, Function function, std::int64_t rows,
                       std::int64_t hidden) {
  return {.name = std::move(name),
          .kind = ModelOpKind::elementwise,
          .split = TensorSplit::sequence,
          .function = function,
          .in_features = hidden,
          .out_features = hidden,
          .weights = rows * hidden,
          .forward_elements = 3 * as_double(hidden),
          .backward_elements = 3 * as_double(hidden)};
}

namespace {

// Forward: reads a row of the table, writes it. Backward: reads the gradient and adds it to the
// row's gradient (a read and a write).
ModelOp word_embedding_op(const TransformerShape& shape) {
  return {.name = "embedding",
          .kind = ModelOpKind::embedding,
          .split = TensorSplit::vocabulary,
          .function = Function::lookup,
          .in_features = shape.vocabulary,
          .out_features = shape.hidden,
          .weights = shape.vocabulary * shape.hidden,
          .forward_elements = 2 * as_double(shape.hidden),
          .backward_elements = 3 * as_double(shape.hidden)};
}

// ViT (Dosovitskiy et al. 2021): a convolution whose stride is its kernel, hence a linear over the
// pixels of a patch. The class token counts as one patch more: one token in 197 for ViT-B/16.
// It saves the pixels; there is no gradient below it, but the linear's backward pass is counted
// like any other (its input gradient is 0.2% of the FLOPs of ViT-B/16).
void append_patch_embedding(Block& block, const TransformerShape& shape) {
  const ImageInput& image = shape.image;
  ModelOp patches = linear_op("patch_embedding", TensorSplit::sequence,
                              image.channels * image.patch * image.patch, shape.hidden, true);
  patches.function = Function::none;  // of pixels
  block.ops.push_back(patches);
  ModelOp positions = added_table_op("positions", Function::none, image.tokens(), shape.hidden);
  positions.weights += shape.hidden;  // the class token itself
  block.ops.push_back(positions);
}

// Dropout alone: forward reads, writes and writes the mask; backward the same with the mask read.
// Korthikanti 2022, section 4.3: the mask of the embedding's dropout is kept, a byte per element.
// As a function it is a residual sum, whose dropout it is, without a second term.
ModelOp embedding_dropout_op(const TransformerShape& shape) {
  const double h = as_double(shape.hidden);
  return {.name = "embedding_dropout",
          .kind = ModelOpKind::elementwise,
          .split = TensorSplit::sequence,
          .function = Function::add_residual,
          .in_features = shape.hidden,
          .out_features = shape.hidden,
          .forward_elements = 2.5 * h,
          .backward_elements = 2.5 * h,
          .saved_fixed_bytes = h};
}

// The head over the vocabulary; its saved input is the 2 h bytes of Korthikanti's section 4.3.
ModelOp vocabulary_head_op(const TransformerShape& shape) {
  ModelOp op =
      linear_op("head", TensorSplit::vocabulary, shape.hidden, shape.vocabulary, shape.head_bias);
  if (shape.tied_head) {
    op.tied_to_embedding = true;
    op.weights = 0;
    // Its bias and the table lie in different places: a site has one.
    if (shape.head_bias) op.function = Function::none;
  }
  return op;
}

// c tanh(logits / c), an operation at a time, as transformers (models/gemma2/modular_gemma2.py) and
// Megatron-Bridge run it. Forward: quotient 1 + 1, tanh 1 + 1, product 1 + 1. Backward: of the
// product 1 + 1, of tanh from its output 2 + 1, of the quotient 1 + 1. Kept: the output of tanh.
ModelOp softcap_op(std::string name, TensorSplit split, std::int64_t width) {
  ModelOp op = scale_op(std::move(name), split, width);
  op.forward_elements = 6 * as_double(width);
  op.backward_elements = 7 * as_double(width);
  op.forward_launches = op.backward_launches = 3;
  op.saved_elements = as_double(width);
  return op;
}

// Loss from 16-bit logits, kept as fp32 (Korthikanti 2022, section 4.3: 4 v bytes). Traffic of
// Megatron-LM's fused_cross_entropy.py in 16-bit elements per class. Forward: cast to fp32 with the
// maximum 1 + 2, exponential in place 2 + 2, its sum 2, division in place 2 + 2. Backward: scaling
// in place 2 + 2, cast back 2 + 1. Compiled, it takes a second fp32 tensor on the way, where the
// same operation by operation takes none: 5.0 for 3.1 GB of 8,192 tokens and 62,080 words
// (github.com/NovaSky-AI/SkyRL pull request 1841; the same by linkedin/Liger-Kernel pull request
// 1260). It is counted in the backward pass.
ModelOp cross_entropy_op(TensorSplit split, std::int64_t classes) {
  return {.name = "cross_entropy",
          .kind = ModelOpKind::cross_entropy,
          .split = split,
          .function = Function::cross_entropy,
          .in_features = classes,
          .out_features = 1,
          .forward_elements = 13 * as_double(classes),
          .backward_elements = 7 * as_double(classes),
          .saved_fixed_bytes = 4 * as_double(classes),
          .backward_scratch_bytes = 4 * as_double(classes)};
}

// The head, what becomes of its logits, and the loss.
void append_language_model(Block& block, const TransformerShape& shape) {
  block.ops.push_back(vocabulary_head_op(shape));
  if (shape.logit_scale)
    block.ops.push_back(scale_op("logit_scale", TensorSplit::vocabulary, shape.vocabulary));
  if (shape.logit_softcap)
    block.ops.push_back(softcap_op("logit_softcap", TensorSplit::vocabulary, shape.vocabulary));
  block.ops.push_back(cross_entropy_op(TensorSplit::vocabulary, shape.vocabulary));
}

// A layer with the window, the positions and the experts of its number.
Block numbered_layer(const TransformerShape& shape, std::int64_t layer) {
  TransformerShape own = shape;
  own.window = shape.window_of(layer);
  if (shape.without_positions.has(layer)) {
    own.rotary_share = 0;
    if (!shape.qk_norm_scales) own.qk_norm = false;
  }
  own.sparse.reuses_choice = !shape.sparse.chooses(layer);
  return transformer_layer(own, shape.kind_of(layer));
}

// The embedding of the next token, from the table that the first stage has, too; its norm; and that
// beside the norm of the hidden state, in one tensor.
// The first depth works on what the final norm reads, each other on what the head before it reads
// (MultiTokenPredictionBlock).
void append_mtp_input(Block& block, const TransformerShape& shape, const std::string& prefix) {
  const double h = as_double(shape.hidden);
  ModelOp hidden = norm_op(shape, prefix + "hidden_norm");
  const bool first = block.ops.back().name == "cross_entropy";
  hidden.starts_from = first ? 0 : static_cast<int>(block.ops.size()) - 2;
  block.ops.push_back(hidden);
  block.ops.push_back({.name = prefix + "embedding",
                       .kind = ModelOpKind::elementwise,
                       .split = TensorSplit::sequence,
                       .in_features = shape.hidden,
                       .out_features = shape.hidden,
                       .forward_elements = 2 * h,
                       .backward_elements = 3 * h});
  block.ops.push_back(norm_op(shape, prefix + "embedding_norm"));
  block.ops.push_back({.name = prefix + "concatenation",
                       .kind = ModelOpKind::elementwise,
                       .split = TensorSplit::sequence,
                       .in_features = shape.hidden,
                       .out_features = 2 * shape.hidden,
                       .forward_elements = 4 * h,
                       .backward_elements = 4 * h});
  block.ops.push_back(linear_op(prefix + "projection", TensorSplit::sequence, 2 * shape.hidden,
                                shape.hidden, false));
}

void append_layer(Block& block, Block layer, const std::string& prefix) {
  const auto first = static_cast<int>(block.ops.size());
  for (ModelOp& op : layer.ops) {
    op.name = prefix + op.name;
    if (op.residual_of >= 0) op.residual_of += first;
    if (op.starts_from >= 0) op.starts_from += first;
    block.ops.push_back(std::move(op));
  }
}

// Has the parameters of another operator of the block. The engine does not execute such ones.
void share(ModelOp& op, std::size_t with) {
  if (op.weights + op.biases == 0) return;
  op.weights = op.biases = 0;
  op.shares_with = static_cast<int>(with);
  op.function = Function::none;
}

// A depth of multi-token prediction (Megatron-LM, core/transformer/multi_token_prediction.py,
// MultiTokenPredictionLayer): a layer of the kind of the last one, or those of a pattern
// (HybridStack), a norm, the head's product once more, a loss. With mtp_use_repeated_layer the same
// one at every depth. Its head has no parameters of its own; as the stage that has it holds a copy
// of the embedding's table (core/models/gpt/gpt_model.py, `mtp_process`), it is counted as one that
// is tied to it.
void append_mtp(Block& block, const TransformerShape& shape, std::int64_t depth) {
  const std::string prefix = shape.mtp_layers > 1 ? fmt::format("mtp.{}.", depth) : "mtp.";
  const std::size_t begin = block.ops.size();
  append_mtp_input(block, shape, prefix);
  if (shape.mtp_kinds.empty()) append_layer(block, numbered_layer(shape, shape.layers - 1), prefix);
  for (std::size_t i = 0; i < shape.mtp_kinds.size(); ++i)
    append_layer(block, transformer_layer(shape, shape.mtp_kinds[i]),
                 shape.mtp_kinds.size() > 1 ? fmt::format("{}{}.", prefix, i) : prefix);
  block.ops.push_back(norm_op(shape, prefix + "final_norm"));
  ModelOp head = vocabulary_head_op(shape);
  head.name = prefix + "head";
  head.tied_to_embedding = true;
  head.weights = head.biases = 0;
  head.function = Function::none;
  block.ops.push_back(head);
  ModelOp loss = cross_entropy_op(TensorSplit::vocabulary, shape.vocabulary);
  loss.name = prefix + "cross_entropy";
  block.ops.push_back(loss);
  for (std::size_t i = begin; i < block.ops.size(); ++i) {
    if (is_linear_of_layer(block.ops[i])) block.ops[i].sixteen_bits = shape.mtp_sixteen_bits;
    if (shape.mtp_repeated && depth > 0)
      share(block.ops[i], i - static_cast<std::size_t>(depth) * (block.ops.size() - begin));
  }
}

// BERT (Devlin et al. 2019; transformers' BertLMPredictionHead): dense, activation, norm, then the
// head with a bias. The transform is whole on every rank, as in Megatron-LM's BertLMHead.
void append_masked_lm(Block& block, const TransformerShape& shape) {
  block.ops.push_back(
      linear_op("mlm_dense", TensorSplit::sequence, shape.hidden, shape.hidden, true));
  block.ops.push_back(
      activation_op("mlm_activation", shape.activation, TensorSplit::sequence, shape.hidden));
  block.ops.push_back(norm_op(shape, "mlm_norm"));
  block.ops.push_back(vocabulary_head_op(shape));
  block.ops.push_back(cross_entropy_op(TensorSplit::vocabulary, shape.vocabulary));
}

// A dense layer on the first token, with a tanh: forward 1 read + 1 write, backward 2 reads (the
// gradient and the output, which is the saved tensor of the next operator or is kept here) + 1.
void append_pooler(Block& block, const TransformerShape& shape) {
  const double h = as_double(shape.hidden);
  ModelOp pooler = linear_op("pooler", TensorSplit::sequence, shape.hidden, shape.hidden, true);
  pooler.once_per_sequence = true;
  pooler.function = Function::none;  // of one token
  block.ops.push_back(pooler);
  block.ops.push_back({.name = "pooler_activation",
                       .kind = ModelOpKind::elementwise,
                       .split = TensorSplit::sequence,
                       .in_features = shape.hidden,
                       .out_features = shape.hidden,
                       .once_per_sequence = true,
                       .forward_elements = 2 * h,
                       .backward_elements = 3 * h,
                       .saved_elements = h});
}

// Then the engine executes the head: on the first token of each sequence.
bool classifies_text(const TransformerShape& shape) {
  return shape.head == Head::classifier && !shape.has_image();
}

void append_classifier(Block& block, const TransformerShape& shape, std::string name,
                       std::int64_t classes) {
  ModelOp head = linear_op(std::move(name), TensorSplit::sequence, shape.hidden, classes, true);
  head.once_per_sequence = true;
  if (!classifies_text(shape)) head.function = Function::none;
  block.ops.push_back(head);
}

}  // namespace

Block input_block(const TransformerShape& shape) {
  Block block{.name = "embedding", .ops = {}, .output_elements = shape.hidden};
  if (shape.has_image()) {
    append_patch_embedding(block, shape);
  } else {
    block.ops.push_back(word_embedding_op(shape));
    if (shape.embedding_scale)
      block.ops.push_back(scale_op("embedding_scale", TensorSplit::sequence, shape.hidden));
    if (shape.positions == Positions::learned)
      block.ops.push_back(
          added_table_op("positions", Function::add_table, shape.max_sequence, shape.hidden));
    if (shape.token_types > 0)
      block.ops.push_back(
          added_table_op("token_types", Function::none, shape.token_types, shape.hidden));
  }
  if (shape.vision.exists()) block.ops.push_back(place_images_op(shape));
  if (shape.embedding_norm) block.ops.push_back(norm_op(shape, "embedding_norm"));
  if (shape.embedding_dropout > 0) block.ops.push_back(embedding_dropout_op(shape));
  return block;
}

Block output_block(const TransformerShape& shape) {
  Block block{.name = "head", .ops = {}, .output_elements = 0};
  if (shape.norm_placement != NormPlacement::post)
    block.ops.push_back(norm_op(shape, "final_norm"));
  switch (shape.head) {
    case Head::language_model:
      append_language_model(block, shape);
      for (std::int64_t depth = 0; depth < shape.mtp_layers; ++depth)
        append_mtp(block, shape, depth);
      break;
    case Head::masked_lm:
      append_masked_lm(block, shape);
      break;
    case Head::pretraining:
      append_masked_lm(block, shape);
      append_pooler(block, shape);
      append_classifier(block, shape, "next_sentence", 2);
      break;
    case Head::pooler:
      append_pooler(block, shape);
      break;
    case Head::classifier: {
      append_classifier(block, shape, "head", shape.classes);
      ModelOp loss = cross_entropy_op(TensorSplit::sequence, shape.classes);
      loss.once_per_sequence = true;
      if (!classifies_text(shape)) loss.function = Function::none;
      block.ops.push_back(loss);
      break;
    }
    case Head::none:
      break;
  }
  return block;
}

namespace {

// Parts whose rates rest on no measurement of them.
std::vector<std::string> unmeasured(const TransformerShape& shape) {
  std::vector<std::string> notes;
  if (shape.hybrid.has(Mixer::mamba2))
    notes.emplace_back(
        "scan of Mamba-2: at rates measured on one H200, for heads of 64 and a state of 128; "
        "forecasts of runs that have one are 10 to 33% too fast");
  if (shape.hybrid.has(Mixer::gated_delta_net))
    notes.emplace_back(
        "scan of a gated delta net: at the rates of Mamba-2's and a latency from two published "
        "kernels; its backward pass is not validated");
  if (shape.sparse.exists())
    notes.emplace_back(
        "sparse attention: timed by its FLOPs and bytes at the device's rates of large products "
        "and of memory; not validated: no measured kernel or run has one");
  if (shape.vision.exists()) notes.emplace_back(note_of_vision);
  return notes;
}

}  // namespace

Model build_transformer(const TransformerShape& shape) {
  SIM_CHECK(shape.layers > 0 && shape.hidden > 0 && shape.heads > 0 && shape.kv_heads > 0,
            shape.name);
  SIM_CHECK(shape.heads % shape.kv_heads == 0, shape.heads, shape.kv_heads);
  Model model;
  model.name = shape.name;
  model.family = shape.family;
  model.source = shape.source;
  model.hidden = shape.hidden;
  model.vocabulary = shape.vocabulary;
  model.max_sequence = shape.max_sequence;
  model.fixed_sequence = shape.has_image() ? shape.image.tokens() : 0;
  model.attention = {.heads = shape.heads,
                     .kv_heads = shape.kv_heads,
                     .head_dim = shape.head_dim,
                     .value_dim = shape.latent.exists() ? shape.latent.value_dim : shape.head_dim,
                     .causal = shape.mask == AttentionMask::causal,
                     .dropout = shape.attention_dropout > 0,
                     .softcap = shape.attention_softcap,
                     .rotary_share = shape.rotary_share};
  const bool has_mlp = !shape.hybrid.exists() || shape.hybrid.has(FeedForward::mlp);
  model.feed_forward = has_mlp ? shape.feed_forward : 0;
  model.tied_embedding = shape.tied_head || shape.mtp_layers > 0;
  model.input = input_block(shape);
  model.layers.reserve(static_cast<std::size_t>(shape.layers));
  for (std::int64_t layer = 0; layer < shape.layers; ++layer)
    model.layers.push_back(numbered_layer(shape, layer));
  model.output = output_block(shape);
  if (shape.vision.exists()) model.vision.push_back(build_vision_encoder(shape));
  model.shape = shape;
  model.notes = unmeasured(shape);
  return model;
}

}  // namespace sim
