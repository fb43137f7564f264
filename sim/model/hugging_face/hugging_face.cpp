// Hugging Face config.json: the field names of each family in transformers 4 and 5, and the
// defaults of its configuration classes. Unknown keys are ignored, null means absent.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/model/hugging_face/hugging_face_architecture.hpp"
#include "sim/model/hugging_face/hugging_face_fields.hpp"
#include "sim/model/sources.hpp"
#include "sim/model/transformer.hpp"

namespace sim {

namespace {

using Family = HuggingFaceFamily;
using Fields = HuggingFaceFields;

void read_gpt2(const Fields& fields, TransformerShape& shape) {
  namespace limits = transformer_limits;
  shape.layers = fields.size({"n_layer", "num_hidden_layers"}, limits::layers);
  shape.hidden = fields.size({"n_embd", "hidden_size"}, limits::hidden);
  shape.heads = fields.size({"n_head", "num_attention_heads"}, limits::heads);
  shape.kv_heads = shape.heads;
  read_head_dim(fields, {"n_head"}, shape);
  shape.feed_forward = fields.size_or({"n_inner"}, 4 * shape.hidden, limits::feed_forward);
  shape.vocabulary = fields.size({"vocab_size"}, limits::rows);
  shape.max_sequence =
      fields.size({"n_positions", "max_position_embeddings", "n_ctx"}, limits::rows);
  shape.activation = plain_activation(fields.in(), "activation_function", "gelu_new");
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = true;
  shape.tied_head = fields.flag("tie_word_embeddings", true);
  shape.projection_dropout = shape.mlp_dropout = fields.dropout({"resid_pdrop"}, 0.1);
  shape.attention_dropout = fields.dropout({"attn_pdrop"}, 0.1);
  shape.embedding_dropout = fields.dropout({"embd_pdrop"}, 0.1);
}

// MptConfig: positions by alibi, or learned; one switch for all biases, those of norms, too; the
// head is the embedding.
void read_mpt(const Fields& fields, TransformerShape& shape) {
  namespace limits = transformer_limits;
  const ObjectReader& in = fields.in();
  shape.layers = fields.size({"n_layers", "num_hidden_layers"}, limits::layers);
  shape.hidden = fields.size({"d_model", "hidden_size"}, limits::hidden);
  shape.heads = fields.size({"n_heads", "num_attention_heads"}, limits::heads);
  shape.kv_heads = shape.heads;
  read_head_dim(fields, {"n_heads"}, shape);
  shape.feed_forward = fields.size_or({"expansion_ratio"}, 4, 64) * shape.hidden;
  shape.vocabulary = fields.size({"vocab_size"}, limits::rows);
  shape.activation = Activation::gelu;
  const bool biased = !fields.flag("no_bias", true);
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = biased;
  if (!biased) shape.norm = NormKind::layer_no_bias;
  shape.tied_head = fields.flag("tie_word_embeddings", true);
  shape.positions = Positions::alibi;
  if (!in.has("attn_config")) return;
  const ObjectReader attention = in.object("attn_config");
  attention.ignore_unknown();
  if (!attention.boolean_or("alibi", true)) {
    shape.positions = Positions::learned;
    shape.max_sequence = fields.size({"max_seq_len"}, limits::rows);
  }
  if (attention.text_or("attn_type", "multihead_attention") != "multihead_attention")
    attention.problem("attn_type", "only \"multihead_attention\" is supported");
  for (const char* key : {"qk_ln", "prefix_lm"})
    if (attention.boolean_or(key, false))
      attention.problem(key, fmt::format("\"{}\" is not supported", key));
}

// bert, distilbert: norm behind each branch, norm and dropout on the embedding, biases everywhere.
void set_bert_like(TransformerShape& shape) {
  shape.norm_placement = NormPlacement::post;
  shape.mask = AttentionMask::bidirectional;
  shape.embedding_norm = true;
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = true;
  shape.head_bias = shape.head == Head::masked_lm || shape.head == Head::pretraining;
}

void read_bert(const Fields& fields, TransformerShape& shape) {
  namespace limits = transformer_limits;
  const ObjectReader& in = fields.in();
  set_bert_like(shape);
  shape.layers = fields.size({"num_hidden_layers"}, limits::layers);
  shape.hidden = fields.size({"hidden_size"}, limits::hidden);
  shape.heads = fields.size({"num_attention_heads"}, limits::heads);
  shape.kv_heads = shape.heads;
  read_head_dim(fields, {"num_attention_heads"}, shape);
  shape.feed_forward = fields.size({"intermediate_size"}, limits::feed_forward);
  shape.vocabulary = fields.size({"vocab_size"}, limits::rows);
  shape.max_sequence = fields.size({"max_position_embeddings"}, limits::rows);
  shape.token_types = fields.size_or({"type_vocab_size"}, 2, limits::rows);
  shape.activation = plain_activation(in, "hidden_act", "gelu");
  shape.tied_head = shape.head_bias && fields.flag("tie_word_embeddings", true);
  shape.projection_dropout = shape.mlp_dropout = fields.dropout({"hidden_dropout_prob"}, 0.1);
  shape.embedding_dropout = shape.mlp_dropout;
  shape.attention_dropout = fields.dropout({"attention_probs_dropout_prob"}, 0.1);
  if (in.text_or("position_embedding_type", "absolute") != "absolute")
    in.problem("position_embedding_type", "only \"absolute\" position embeddings are supported");
}

void read_distilbert(const Fields& fields, TransformerShape& shape) {
  namespace limits = transformer_limits;
  set_bert_like(shape);
  shape.layers = fields.size({"n_layers", "num_hidden_layers"}, limits::layers);
  shape.hidden = fields.size({"dim", "hidden_size"}, limits::hidden);
  shape.heads = fields.size({"n_heads", "num_attention_heads"}, limits::heads);
  shape.kv_heads = shape.heads;
  read_head_dim(fields, {"n_heads"}, shape);
  shape.feed_forward = fields.size({"hidden_dim"}, limits::feed_forward);
  shape.vocabulary = fields.size({"vocab_size"}, limits::rows);
  shape.max_sequence = fields.size({"max_position_embeddings"}, limits::rows);
  shape.activation = plain_activation(fields.in(), "activation", "gelu");
  shape.tied_head = shape.head_bias && fields.flag("tie_word_embeddings", true);
  // transformers' class drops out behind the MLP and the embedding, not behind the projection.
  shape.mlp_dropout = fields.dropout({"dropout"}, 0.1);
  shape.embedding_dropout = shape.mlp_dropout;
  shape.attention_dropout = fields.dropout({"attention_dropout"}, 0.1);
}

void read_vit(const Fields& fields, TransformerShape& shape) {
  namespace limits = transformer_limits;
  const ObjectReader& in = fields.in();
  shape.layers = fields.size({"num_hidden_layers"}, limits::layers);
  shape.hidden = fields.size({"hidden_size"}, limits::hidden);
  shape.heads = fields.size({"num_attention_heads"}, limits::heads);
  shape.kv_heads = shape.heads;
  read_head_dim(fields, {"num_attention_heads"}, shape);
  shape.feed_forward = fields.size({"intermediate_size"}, limits::feed_forward);
  shape.image.size = fields.size_or({"image_size"}, 224, limits::pixels);
  shape.image.patch = fields.size_or({"patch_size"}, 16, limits::pixels);
  shape.image.channels = fields.size_or({"num_channels"}, 3, 1024);
  if (shape.image.size % shape.image.patch != 0)
    in.problem("patch_size", fmt::format("patches of {} pixels do not divide an image of {}",
                                         shape.image.patch, shape.image.size));
  // The classes are written as a map from their number to their name; two if there is none.
  shape.classes = fields.size_or({"num_labels"}, 2, limits::rows);
  if (in.has("id2label"))
    shape.classes =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(in.object("id2label").keys().size()));
  shape.mask = AttentionMask::bidirectional;
  shape.activation = plain_activation(in, "hidden_act", "gelu");
  shape.qkv_bias = fields.flag("qkv_bias", true);
  shape.projection_bias = shape.mlp_bias = true;
  shape.projection_dropout = shape.mlp_dropout = fields.dropout({"hidden_dropout_prob"}, 0);
  shape.embedding_dropout = shape.mlp_dropout;
  shape.attention_dropout = fields.dropout({"attention_probs_dropout_prob"}, 0);
}

void refuse_decoders_of_others(const ObjectReader& in) {
  for (const char* key : {"add_cross_attention", "is_encoder_decoder", "is_decoder"})
    if (in.boolean_or(key, false))
      in.problem(key, fmt::format("\"{}\": encoder-decoder models are not supported", key));
}

}  // namespace

Activation plain_activation(const ObjectReader& in, const char* key, const char* fallback) {
  const std::string name = in.text_or(key, fallback);
  if (name.starts_with("gelu") || name == "quick_gelu") return Activation::gelu;
  if (name == "relu") return Activation::relu;
  if (name == "relu2" || name == "squared_relu") return Activation::squared_relu;
  in.problem(key, fmt::format("unknown activation \"{}\"; known: gelu, gelu_new, "
                              "gelu_pytorch_tanh, quick_gelu, relu, relu2",
                              name));
  return Activation::gelu;
}

Model read_hugging_face(const Document& document) {
  const ObjectReader root = document.root_object();
  root.ignore_unknown();
  const HuggingFaceText text = hugging_face_text(document, root);
  const ObjectReader& in = text.in;
  const HuggingFaceArchitecture architecture = hugging_face_architecture(document, in);
  refuse_decoders_of_others(in);
  TransformerShape shape;
  shape.name = name_from_path(document.name());
  shape.family = architecture.model_type;
  shape.source = root.text_or("_source", "Hugging Face config " + document.name());
  shape.head = architecture.head;
  std::vector<std::string> notes;
  if (!text.note.empty()) notes.push_back(text.note);
  const Fields fields{in};
  switch (architecture.family) {
    case Family::gpt2:
      read_gpt2(fields, shape);
      break;
    case Family::mpt:
      read_mpt(fields, shape);
      break;
    case Family::bert:
      read_bert(fields, shape);
      break;
    case Family::distilbert:
      read_distilbert(fields, shape);
      break;
    case Family::vit:
      read_vit(fields, shape);
      break;
    case Family::nemotron_h:
      read_nemotron_h(fields, shape, notes);
      break;
    case Family::nemotron_nas:
      read_nemotron_nas(fields, shape, notes);
      break;
    case Family::bamba:
    case Family::granite_hybrid:
      read_bamba(fields, architecture.family, shape);
      break;
    case Family::falcon_h1:
      read_falcon_h1(fields, shape);
      break;
    case Family::mamba2:
      read_mamba2(fields, shape);
      break;
    default:
      read_llama_like(fields, architecture.family, shape, notes);
      break;
  }
  // Without a table of positions: the length that the model is published for.
  if (shape.max_sequence == 0 && !shape.has_image() && in.has("max_position_embeddings"))
    shape.max_sequence = fields.size({"max_position_embeddings"}, transformer_limits::rows);
  const bool wrapped = root.has("text_config");
  if (wrapped && !in.has("tie_word_embeddings") && root.has("tie_word_embeddings"))
    shape.tied_head = root.boolean("tie_word_embeddings");
  read_hugging_face_vision(root, shape);
  document.finish();
  Model model = build_transformer(shape);
  model.notes.insert(model.notes.begin(), notes.begin(), notes.end());
  return model;
}

}  // namespace sim
