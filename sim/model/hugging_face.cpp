// Hugging Face config.json: the field names of each family in transformers 4 and 5, and the
// defaults of its configuration classes. Unknown keys are ignored, null means absent.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/model/sources.hpp"
#include "sim/model/transformer.hpp"

namespace sim {

namespace {

enum class Family : std::uint8_t { llama, mistral, qwen2, qwen3, gpt2, bert, distilbert, vit };

// The class whose weights are trained says what head there is; the first of a family is meant when
// the file has no "architectures".
struct Architecture {
  std::string_view name;
  std::string_view model_type;
  Family family;
  Head head;
};
constexpr std::array architectures{
    Architecture{"LlamaForCausalLM", "llama", Family::llama, Head::language_model},
    Architecture{"MistralForCausalLM", "mistral", Family::mistral, Head::language_model},
    Architecture{"Qwen2ForCausalLM", "qwen2", Family::qwen2, Head::language_model},
    Architecture{"Qwen3ForCausalLM", "qwen3", Family::qwen3, Head::language_model},
    Architecture{"GPT2LMHeadModel", "gpt2", Family::gpt2, Head::language_model},
    Architecture{"BertForMaskedLM", "bert", Family::bert, Head::masked_lm},
    Architecture{"BertForPreTraining", "bert", Family::bert, Head::pretraining},
    Architecture{"BertModel", "bert", Family::bert, Head::pooler},
    Architecture{"DistilBertForMaskedLM", "distilbert", Family::distilbert, Head::masked_lm},
    Architecture{"DistilBertModel", "distilbert", Family::distilbert, Head::none},
    Architecture{"ViTForImageClassification", "vit", Family::vit, Head::classifier},
};

// Families whose layers route tokens to experts, by model_type and by the stem of their classes.
struct ExpertFamily {
  std::string_view model_type;
  std::string_view class_stem;
};
constexpr std::array expert_families{ExpertFamily{"mixtral", "Mixtral"},
                                     ExpertFamily{"qwen2_moe", "Qwen2Moe"},
                                     ExpertFamily{"qwen3_moe", "Qwen3Moe"},
                                     ExpertFamily{"qwen3_next", "Qwen3Next"},
                                     ExpertFamily{"deepseek_v2", "DeepseekV2"},
                                     ExpertFamily{"deepseek_v3", "DeepseekV3"},
                                     ExpertFamily{"llama4", "Llama4"},
                                     ExpertFamily{"llama4_text", "Llama4"},
                                     ExpertFamily{"gpt_oss", "GptOss"},
                                     ExpertFamily{"kimi_k2", "KimiK2"},
                                     ExpertFamily{"dbrx", "Dbrx"},
                                     ExpertFamily{"olmoe", "Olmoe"},
                                     ExpertFamily{"phimoe", "PhiMoE"},
                                     ExpertFamily{"jamba", "Jamba"},
                                     ExpertFamily{"granitemoe", "GraniteMoe"},
                                     ExpertFamily{"glm4_moe", "Glm4Moe"},
                                     ExpertFamily{"ernie4_5_moe", "Ernie4_5_Moe"}};

// Reads a field that has had several names; the first is the one that errors speak of.
class Fields {
 public:
  explicit Fields(const ObjectReader& in) : in_{in} {}

  using Names = std::initializer_list<const char*>;

  std::int64_t size(Names names, std::int64_t most) const {
    return in_.integer(key_of(names), {.min = 1, .max = most});
  }
  std::int64_t size_or(Names names, std::int64_t fallback, std::int64_t most) const {
    return in_.integer_or(key_of(names), fallback, {.min = 1, .max = most});
  }
  double dropout(Names names, double fallback) const {
    return in_.real_or(key_of(names), fallback, {.min = 0, .max = 1});
  }
  bool flag(const char* name, bool fallback) const { return in_.boolean_or(name, fallback); }
  const ObjectReader& in() const { return in_; }

 private:
  const char* key_of(Names names) const {
    const char* found = nullptr;
    for (const char* name : names) {
      if (!in_.has(name)) continue;
      if (found == nullptr) {
        found = name;
      } else if (in_.at(name).peek_text() != in_.at(found).peek_text()) {
        in_.problem(name, fmt::format("\"{}\" and \"{}\" are two names of one field and differ",
                                      name, found));
      }
    }
    return found == nullptr ? *names.begin() : found;
  }

  const ObjectReader& in_;
};

std::string known_architectures() {
  std::string text;
  for (const Architecture& known : architectures) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} ({})", known.name, known.model_type);
  }
  return text;
}

[[noreturn]] void refuse_experts(const SourcePosition& where, std::string_view name) {
  throw InputError(where,
                   fmt::format("\"{}\": mixture-of-experts models are not supported yet", name));
}

void refuse_expert_names(const ObjectReader& in, const char* key, const std::string& name) {
  for (const ExpertFamily& family : expert_families)
    if (name == family.model_type || name.starts_with(fmt::format("{}For", family.class_stem)))
      refuse_experts(in.where(key), name);
}

std::optional<std::string> architecture_name(const ObjectReader& in) {
  if (!in.has("architectures")) return std::nullopt;
  const std::vector<ValueReader> names = in.list("architectures");
  if (names.empty()) return std::nullopt;
  return names.front().text();
}

// A model of several modalities keeps its language model in `text_config`: costing that alone would
// leave the rest out silently.
void refuse_multimodal(const ObjectReader& in, const std::string& name) {
  if (!in.has("text_config") && !in.has("vision_config")) return;
  if (in.has("text_config")) {
    const ObjectReader text = in.object("text_config");
    text.ignore_unknown();
    if (text.has("model_type")) refuse_expert_names(text, "model_type", text.text("model_type"));
  }
  throw InputError(
      in.where(in.has("text_config") ? "text_config" : "vision_config"),
      fmt::format("\"{}\": multimodal models are not supported; its text_config, saved "
                  "as a config.json of its own, is if its architecture is known: {}",
                  name, known_architectures()));
}

void refuse_expert_fields(const ObjectReader& in, const std::string& name) {
  for (const char* key :
       {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"})
    if (const auto value = in.find(key); value && value->peek_text() != "0")
      refuse_experts(in.where(key), name);
}

Architecture architecture_of(const Document& document, const ObjectReader& in) {
  const std::optional<std::string> name = architecture_name(in);
  std::optional<std::string> type;
  if (in.has("model_type")) type = in.text("model_type");
  if (type) refuse_expert_names(in, "model_type", *type);
  if (name) refuse_expert_names(in, "architectures", *name);
  if (!name && !type) document.finish();  // neither could be read: that is the error to show
  const std::string shown = name ? *name : type.value_or("");
  refuse_multimodal(in, shown);
  refuse_expert_fields(in, shown);
  const auto* found =
      std::find_if(architectures.begin(), architectures.end(), [&](const Architecture& known) {
        return name ? known.name == *name : type && known.model_type == *type;
      });
  if (found == architectures.end())
    throw InputError(
        in.where(name ? "architectures" : "model_type"),
        fmt::format("unknown architecture \"{}\"; known: {}", shown, known_architectures()));
  if (type && found->model_type != *type)
    throw InputError(in.where("model_type"),
                     fmt::format("model_type \"{}\" contradicts architecture {}, whose model_type "
                                 "is \"{}\"",
                                 *type, found->name, found->model_type));
  return *found;
}

Activation gated_activation(const ObjectReader& in) {
  const std::string name = in.text_or("hidden_act", "silu");
  if (name == "silu" || name == "swish") return Activation::swiglu;
  if (name.starts_with("gelu")) return Activation::geglu;
  in.problem("hidden_act",
             fmt::format("unknown activation \"{}\" of a gated MLP; known: silu, gelu", name));
  return Activation::swiglu;
}

Activation plain_activation(const ObjectReader& in, const char* key, const char* fallback) {
  const std::string name = in.text_or(key, fallback);
  if (name.starts_with("gelu") || name == "quick_gelu") return Activation::gelu;
  if (name == "relu") return Activation::relu;
  in.problem(key, fmt::format("unknown activation \"{}\"; known: gelu, gelu_new, "
                              "gelu_pytorch_tanh, quick_gelu, relu",
                              name));
  return Activation::gelu;
}

void read_head_dim(const Fields& fields, Fields::Names heads_key, TransformerShape& shape) {
  if (fields.in().has("head_dim")) {
    shape.head_dim = fields.size({"head_dim"}, transformer_limits::head_dim);
    return;
  }
  shape.head_dim = shape.hidden / shape.heads;
  if (shape.hidden % shape.heads != 0 || shape.head_dim > transformer_limits::head_dim)
    fields.in().problem(*heads_key.begin(),
                        fmt::format("{} heads do not make heads of equal width, at most {}, of "
                                    "hidden size {}, and no head_dim is given",
                                    shape.heads, transformer_limits::head_dim, shape.hidden));
}

// A window makes attention cheaper beyond it; up to it nothing changes, and longer sequences are
// refused by the limit.
void read_window(const ObjectReader& in, bool window_used, TransformerShape& shape) {
  if (const auto types = in.find("layer_types")) {
    window_used = false;
    for (const ValueReader& type : types->list()) {
      const std::string text = type.text();
      if (text == "sliding_attention") window_used = true;
      if (text != "sliding_attention" && text != "full_attention")
        type.problem(
            fmt::format("unknown layer type \"{}\"; known: full_attention, "
                        "sliding_attention",
                        text));
    }
  }
  if (window_used && in.has("sliding_window"))
    shape.max_sequence = in.integer("sliding_window", {.min = 1, .max = transformer_limits::rows});
}

// llama, mistral, qwen2, qwen3: RMSNorm before each branch, rotary positions, gated MLP.
void read_llama_like(const Fields& fields, Family family, TransformerShape& shape) {
  namespace limits = transformer_limits;
  const ObjectReader& in = fields.in();
  shape.layers = fields.size({"num_hidden_layers"}, limits::layers);
  shape.hidden = fields.size({"hidden_size"}, limits::hidden);
  shape.heads = fields.size({"num_attention_heads"}, limits::heads);
  // Llama's class defaults to as many key/value heads as heads; the classes of the others default
  // to the number of their first model (8 or 32), which is no fact about this file: required.
  shape.kv_heads = family == Family::llama
                       ? fields.size_or({"num_key_value_heads"}, shape.heads, limits::heads)
                       : fields.size({"num_key_value_heads"}, limits::heads);
  if (shape.heads % shape.kv_heads != 0)
    in.problem("num_key_value_heads", fmt::format("{} key/value heads do not divide {} heads",
                                                  shape.kv_heads, shape.heads));
  read_head_dim(fields, {"num_attention_heads"}, shape);
  shape.feed_forward = fields.size({"intermediate_size"}, limits::feed_forward);
  shape.vocabulary = fields.size({"vocab_size"}, limits::rows);
  shape.norm = NormKind::rms;
  shape.positions = Positions::rotary;
  shape.activation = gated_activation(in);
  shape.tied_head = fields.flag("tie_word_embeddings", false);
  shape.attention_dropout = fields.dropout({"attention_dropout"}, 0);
  // Qwen2's class has biases on Q, K and V always; attention_bias adds them to all four.
  const bool attention_bias =
      (family == Family::llama || family == Family::qwen3) && fields.flag("attention_bias", false);
  shape.qkv_bias = attention_bias || family == Family::qwen2;
  shape.projection_bias = attention_bias;
  shape.mlp_bias = family == Family::llama && fields.flag("mlp_bias", false);
  shape.qk_norm = family == Family::qwen3;
  if (family == Family::mistral) read_window(in, true, shape);
  if (family == Family::qwen2 || family == Family::qwen3) {
    // Without layer_types, the layers from max_window_layers on have the window.
    const bool some =
        !in.has("max_window_layers") || in.integer("max_window_layers") < shape.layers;
    read_window(in, fields.flag("use_sliding_window", false) && some, shape);
  }
}

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

Model read_hugging_face(const Document& document) {
  const ObjectReader in = document.root_object();
  in.ignore_unknown();
  const Architecture architecture = architecture_of(document, in);
  refuse_decoders_of_others(in);
  TransformerShape shape;
  shape.name = name_from_path(document.name());
  shape.family = architecture.model_type;
  shape.source = in.text_or("_source", "Hugging Face config " + document.name());
  shape.head = architecture.head;
  const Fields fields{in};
  switch (architecture.family) {
    case Family::llama:
    case Family::mistral:
    case Family::qwen2:
    case Family::qwen3:
      read_llama_like(fields, architecture.family, shape);
      break;
    case Family::gpt2:
      read_gpt2(fields, shape);
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
  }
  document.finish();
  return build_transformer(shape);
}

}  // namespace sim
