// Layers that differ in Hugging Face config.json: nemotron_h, mamba2 and qwen3_next (transformers
// 5, models/FAMILY/configuration_*.py and modeling_*.py), and what neural architecture search left
// of Llama (nemotron-nas; the configuration_decilm.py and modeling_decilm.py beside its weights).
#include <algorithm>
#include <optional>

#include "sim/model/hugging_face/hugging_face_fields.hpp"

namespace sim {
namespace {

using Fields = HuggingFaceFields;
namespace limits = transformer_limits;

// layers_block_type as of old and as remap_legacy_layer_types() has it.
void append_named_layer(const ValueReader& entry, std::vector<LayerKind>& layers) {
  struct Name {
    std::string_view name;
    char letter;
  };
  constexpr std::array names{Name{"mamba", 'M'},     Name{"linear_attention", 'M'},
                             Name{"attention", '*'}, Name{"full_attention", '*'},
                             Name{"mlp", '-'},       Name{"moe", 'E'}};
  const std::string text = entry.text();
  for (const Name& known : names)
    if (text == known.name) {
      append_letter(layers, known.letter);
      return;
    }
  entry.problem(
      fmt::format("unknown layer type \"{}\"; known: mamba, linear_attention, attention, "
                  "full_attention, mlp, moe",
                  text));
}

// The number of layers is that of the pattern, whatever num_hidden_layers says (NemotronHConfig).
void read_pattern(const Fields& fields, TransformerShape& shape) {
  const ObjectReader& in = fields.in();
  std::vector<LayerKind>& layers = shape.hybrid.layers;
  if (const auto list = in.find("layers_block_type")) {
    for (const ValueReader& entry : list->list())
      append_named_layer(entry, layers);
  } else {
    for (const char letter : in.text("hybrid_override_pattern"))
      if (letter == 'G' || !append_letter(layers, letter))
        return in.problem("hybrid_override_pattern",
                          fmt::format("unknown letter '{}'; known: M, *, -, E", letter));
  }
  shape.layers = static_cast<std::int64_t>(layers.size());
  if (shape.layers == 0 || shape.layers > limits::layers)
    in.problem("hybrid_override_pattern",
               fmt::format("has {} layers; allowed: 1 to {}", shape.layers, limits::layers));
}

void refuse_flags(const ObjectReader& in, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (in.boolean_or(key, false)) in.problem(key, fmt::format("\"{}\" is not supported", key));
}

void check_groups(const ObjectReader& in, const Mamba2& mamba) {
  if (mamba.heads % mamba.groups != 0)
    in.problem("n_groups",
               fmt::format("{} groups do not divide {} heads", mamba.groups, mamba.heads));
}

void read_scan_sizes(const Fields& fields, Mamba2& mamba) {
  mamba.groups = fields.size({"n_groups", "mamba_n_groups"}, limits::heads);
  mamba.convolution = fields.size_or({"conv_kernel", "mamba_d_conv"}, 4, limits::taps);
  mamba.convolution_bias = fields.flag("use_conv_bias", true);
  check_groups(fields.in(), mamba);
}

// A bias of the router's choice is no parameter of it.
void read_nemotron_experts(const Fields& fields, TransformerShape& shape) {
  const ObjectReader& in = fields.in();
  Experts& experts = shape.experts;
  experts.count = fields.size({"n_routed_experts", "num_local_experts"}, limits::experts, 2);
  experts.per_token = fields.size({"num_experts_per_tok"}, limits::experts);
  experts.feed_forward = fields.size({"moe_intermediate_size"}, limits::feed_forward);
  const std::int64_t shared = fields.size_or({"n_shared_experts"}, 1, 1024);
  experts.shared_feed_forward =
      shared * fields.size({"moe_shared_expert_intermediate_size"}, limits::feed_forward);
  if (in.has("moe_latent_size") && !fields.is_null("moe_latent_size"))
    experts.latent = fields.size({"moe_latent_size"}, limits::hidden);
  if (const std::string problem = experts_problem(shape); !problem.empty())
    in.problem("num_experts_per_tok", problem);
}

void note_mtp(const ObjectReader& in, std::vector<std::string>& notes) {
  const std::int64_t depths =
      in.integer_or("num_nextn_predict_layers", 0, {.min = 0, .max = limits::layers});
  if (depths > 0)
    notes.push_back(fmt::format(
        "num_nextn_predict_layers: {} layers of multi-token prediction are left out", depths));
}

void set_heads_of_scans(const Mamba2& mamba, TransformerShape& shape) {
  shape.heads = shape.kv_heads = mamba.heads;
  shape.head_dim = mamba.head_dim;
}

}  // namespace

// NemotronHMamba2Mixer, NemotronHAttention without positions, NemotronHMLP with two matrices.
void read_nemotron_h(const Fields& fields, TransformerShape& shape,
                     std::vector<std::string>& notes) {
  const ObjectReader& in = fields.in();
  read_pattern(fields, shape);
  shape.hidden = fields.size({"hidden_size"}, limits::hidden);
  shape.vocabulary = fields.size({"vocab_size"}, limits::rows);
  shape.norm = NormKind::rms;
  shape.positions = Positions::none;
  shape.activation = Activation::squared_relu;
  if (in.text_or("mlp_hidden_act", "relu2") != "relu2")
    in.problem("mlp_hidden_act", "only \"relu2\" is supported");
  refuse_flags(in, {"use_bias", "mamba_proj_bias"});
  shape.qkv_bias = shape.projection_bias = fields.flag("attention_bias", false);
  shape.mlp_bias = fields.flag("mlp_bias", false);
  shape.tied_head = fields.flag("tie_word_embeddings", false);
  shape.attention_dropout = fields.dropout({"attention_dropout"}, 0);
  const Hybrid& hybrid = shape.hybrid;
  if (hybrid.has(Mixer::mamba2)) {
    Mamba2& mamba = shape.hybrid.mamba;
    mamba.heads = fields.size({"mamba_num_heads"}, limits::heads);
    mamba.head_dim = fields.size({"mamba_head_dim"}, limits::head_dim);
    mamba.state = fields.size({"ssm_state_size"}, limits::state);
    mamba.chunk = fields.size_or({"chunk_size", "mamba_chunk_size"}, 128, limits::state);
    read_scan_sizes(fields, mamba);
  }
  if (hybrid.has(Mixer::attention)) {
    shape.heads = fields.size({"num_attention_heads"}, limits::heads);
    shape.kv_heads = fields.size_or({"num_key_value_heads"}, shape.heads, limits::heads);
    if (shape.heads % shape.kv_heads != 0)
      in.problem("num_key_value_heads", fmt::format("{} key/value heads do not divide {} heads",
                                                    shape.kv_heads, shape.heads));
    shape.head_dim = in.has("attention_head_dim")
                         ? fields.size({"attention_head_dim"}, limits::head_dim)
                         : fields.size({"head_dim"}, limits::head_dim);
  } else {
    set_heads_of_scans(hybrid.exists() && hybrid.mamba.exists() ? hybrid.mamba : Mamba2{.heads = 1},
                       shape);
  }
  if (hybrid.has(FeedForward::mlp))
    shape.feed_forward = fields.size({"intermediate_size"}, limits::feed_forward);
  if (hybrid.has(FeedForward::experts)) read_nemotron_experts(fields, shape);
  note_mtp(in, notes);
  check_hybrid_layers(in, "hybrid_override_pattern", shape);
}

// Mamba2ForCausalLM: Mamba-2 alone in every layer. Its mixer is that of mamba_ssm.
void read_mamba2(const Fields& fields, TransformerShape& shape) {
  const ObjectReader& in = fields.in();
  shape.layers = fields.size({"num_hidden_layers"}, limits::layers);
  shape.hidden = fields.size({"hidden_size"}, limits::hidden);
  shape.vocabulary = fields.size({"vocab_size"}, limits::rows);
  shape.norm = NormKind::rms;
  shape.positions = Positions::none;
  shape.activation = Activation::squared_relu;  // of no layer
  shape.tied_head = fields.flag("tie_word_embeddings", false);
  Mamba2& mamba = shape.hybrid.mamba;
  mamba.heads = fields.size({"num_heads"}, limits::heads);
  mamba.head_dim = fields.size({"head_dim"}, limits::head_dim);
  mamba.state = fields.size({"state_size"}, limits::state);
  mamba.chunk = fields.size_or({"chunk_size"}, 256, limits::state);
  read_scan_sizes(fields, mamba);
  refuse_flags(in, {"use_bias"});
  if (!in.boolean_or("rms_norm", true))
    in.problem("rms_norm", "a mixer without a norm behind its scan is not supported");
  shape.hybrid.layers.assign(static_cast<std::size_t>(shape.layers),
                             {.mixer = Mixer::mamba2, .feed_forward = FeedForward::none});
  set_heads_of_scans(mamba, shape);
  check_hybrid_layers(in, "num_heads", shape);
}

namespace {

// Which layers have attention: layer_types, or attn_layer_indices of Bamba.
void read_mixers(const ObjectReader& in, FeedForward feed_forward, TransformerShape& shape) {
  shape.hybrid.layers.assign(static_cast<std::size_t>(shape.layers),
                             {.mixer = Mixer::mamba2, .feed_forward = feed_forward});
  const std::int64_t last = std::max<std::int64_t>(0, shape.layers - 1);
  if (const auto indices = in.find("attn_layer_indices"))
    for (const ValueReader& entry : indices->list())
      shape.hybrid.layers[static_cast<std::size_t>(entry.integer({.min = 0, .max = last}))].mixer =
          Mixer::attention;
  const auto types = in.find("layer_types");
  if (!types) return;
  const std::vector<ValueReader> list = types->list();
  if (static_cast<std::int64_t>(list.size()) != shape.layers)
    return types->problem(
        fmt::format("has {} layers, num_hidden_layers is {}", list.size(), shape.layers));
  for (std::size_t layer = 0; layer < list.size(); ++layer) {
    const std::string text = list[layer].text();
    if (text == "attention" || text == "full_attention")
      shape.hybrid.layers[layer].mixer = Mixer::attention;
    else if (text != "mamba" && text != "linear_attention")
      list[layer].problem(fmt::format("unknown layer type \"{}\"; known: mamba, attention", text));
  }
}

void read_mamba_of_bamba(const Fields& fields, TransformerShape& shape) {
  Mamba2& mamba = shape.hybrid.mamba;
  mamba.heads = fields.size({"mamba_n_heads"}, limits::heads);
  const std::int64_t inner = fields.size_or({"mamba_expand"}, 2, 64) * shape.hidden;
  const bool given =
      fields.in().has("mamba_d_head") && fields.in().at("mamba_d_head").peek_text() != "auto";
  mamba.head_dim = given ? fields.size({"mamba_d_head"}, limits::head_dim)
                         : std::clamp<std::int64_t>(inner / mamba.heads, 1, limits::head_dim);
  mamba.state = fields.size({"mamba_d_state"}, limits::state);
  mamba.groups = fields.size({"mamba_n_groups"}, limits::heads);
  mamba.convolution = fields.size_or({"mamba_d_conv"}, 4, limits::taps);
  mamba.convolution_bias = fields.flag("mamba_conv_bias", true);
  mamba.chunk = fields.size_or({"mamba_chunk_size"}, 256, limits::state);
  check_groups(fields.in(), mamba);
}

}  // namespace

// Bamba, Granite 4: Mamba-2 or attention, and a gated MLP in each layer. Granite's MLP stands
// beside experts, where it has any, as one that every token passes; its numbers scale embedding,
// branches and logits.
void read_bamba(const Fields& fields, HuggingFaceFamily family, TransformerShape& shape) {
  const ObjectReader& in = fields.in();
  const bool granite = family == HuggingFaceFamily::granite_hybrid;
  shape.layers = fields.size({"num_hidden_layers"}, limits::layers);
  shape.hidden = fields.size({"hidden_size"}, limits::hidden);
  shape.heads = fields.size({"num_attention_heads"}, limits::heads);
  shape.kv_heads = fields.size({"num_key_value_heads"}, limits::heads);
  if (shape.heads % shape.kv_heads != 0)
    in.problem("num_key_value_heads", fmt::format("{} key/value heads do not divide {} heads",
                                                  shape.kv_heads, shape.heads));
  read_head_dim(fields, {"num_attention_heads"}, shape);
  shape.vocabulary = fields.size({"vocab_size"}, limits::rows);
  shape.norm = NormKind::rms;
  shape.activation = gated_activation(in, "hidden_act", "silu");
  const bool turns = in.text_or("position_embedding_type", granite ? "nope" : "rope") == "rope";
  shape.positions = turns ? Positions::rotary : Positions::none;
  if (!granite)
    shape.rotary_share =
        std::min(1.0, in.real_or("partial_rotary_factor", 0.5, {.min = 0.01, .max = 1}));
  shape.qkv_bias = shape.projection_bias = fields.flag("attention_bias", false);
  refuse_flags(in, {"mamba_proj_bias", "mlp_bias"});
  shape.tied_head = fields.flag("tie_word_embeddings", false);
  shape.attention_dropout = fields.dropout({"attention_dropout"}, 0);
  shape.embedding_scale = shape.residual_scale = shape.logit_scale = granite;
  shape.feed_forward = granite ? fields.size({"shared_intermediate_size"}, limits::feed_forward)
                               : fields.size({"intermediate_size"}, limits::feed_forward);
  Experts& experts = shape.experts;
  experts.count =
      granite ? in.integer_or("num_local_experts", 0, {.min = 0, .max = limits::experts}) : 0;
  if (experts.count > 0) {
    experts.per_token = fields.size({"num_experts_per_tok"}, limits::experts);
    experts.feed_forward = fields.size({"intermediate_size"}, limits::feed_forward);
    experts.shared_feed_forward = shape.feed_forward;
    if (const std::string problem = experts_problem(shape); !problem.empty())
      in.problem("num_experts_per_tok", problem);
  }
  read_mixers(in, experts.count > 0 ? FeedForward::experts : FeedForward::mlp, shape);
  if (shape.hybrid.has(Mixer::mamba2)) read_mamba_of_bamba(fields, shape);
  check_hybrid_layers(in, granite ? "layer_types" : "attn_layer_indices", shape);
}

// FalconH1Config: attention and Mamba-2 side by side in each layer. Its multipliers are passes of
// their own, whatever they are.
void read_falcon_h1(const Fields& fields, TransformerShape& shape) {
  const ObjectReader& in = fields.in();
  shape.layers = fields.size({"num_hidden_layers"}, limits::layers);
  shape.hidden = fields.size({"hidden_size"}, limits::hidden);
  shape.heads = fields.size({"num_attention_heads"}, limits::heads);
  shape.kv_heads = fields.size_or({"num_key_value_heads"}, shape.heads, limits::heads);
  if (shape.heads % shape.kv_heads != 0)
    in.problem("num_key_value_heads", fmt::format("{} key/value heads do not divide {} heads",
                                                  shape.kv_heads, shape.heads));
  read_head_dim(fields, {"num_attention_heads"}, shape);
  shape.feed_forward = fields.size({"intermediate_size"}, limits::feed_forward);
  shape.vocabulary = fields.size({"vocab_size"}, limits::rows);
  shape.norm = NormKind::rms;
  shape.activation = gated_activation(in, "hidden_act", "silu");
  shape.positions = Positions::rotary;
  shape.qkv_bias = shape.projection_bias = fields.flag("attention_bias", false);
  refuse_flags(in, {"mamba_proj_bias", "projectors_bias", "mlp_bias"});
  shape.tied_head = fields.flag("tie_word_embeddings", false);
  shape.attention_dropout = fields.dropout({"attention_dropout"}, 0);
  shape.embedding_scale = shape.residual_scale = shape.logit_scale = true;
  shape.hybrid.layers.assign(static_cast<std::size_t>(shape.layers),
                             {.mixer = Mixer::attention_mamba2});
  read_mamba_of_bamba(fields, shape);
  Mamba2& mamba = shape.hybrid.mamba;
  mamba.norm = fields.flag("mamba_rms_norm", false);
  const std::int64_t inner = fields.is_null("mamba_d_ssm")
                                 ? fields.size_or({"mamba_expand"}, 2, 64) * shape.hidden
                                 : fields.size({"mamba_d_ssm"}, limits::feed_forward);
  if (!in.has("mamba_d_head") || in.at("mamba_d_head").peek_text() == "auto")
    mamba.head_dim = std::clamp<std::int64_t>(inner / mamba.heads, 1, limits::head_dim);
  if (mamba.inner() != inner)
    in.problem("mamba_d_ssm",
               fmt::format("{} is not {} heads of {}", inner, mamba.heads, mamba.head_dim));
  check_hybrid_layers(in, "mamba_n_heads", shape);
}

// Qwen3NextConfig: layer_types, or full attention in each fourth layer (full_attention_interval).
void read_qwen3_next(const Fields& fields, const std::vector<bool>& with_experts,
                     TransformerShape& shape) {
  const ObjectReader& in = fields.in();
  GatedDeltaNet& net = shape.hybrid.delta_net;
  net.key_heads = fields.size({"linear_num_key_heads"}, limits::heads);
  net.value_heads = fields.size({"linear_num_value_heads"}, limits::heads);
  net.key_dim = fields.size({"linear_key_head_dim"}, limits::head_dim);
  net.value_dim = fields.size({"linear_value_head_dim"}, limits::head_dim);
  net.convolution = fields.size_or({"linear_conv_kernel_dim"}, 4, limits::taps);
  if (net.value_heads % net.key_heads != 0)
    in.problem("linear_num_key_heads", fmt::format("{} heads of keys do not divide {} of values",
                                                   net.key_heads, net.value_heads));
  const std::int64_t interval = fields.size_or({"full_attention_interval"}, 4, limits::layers);
  std::optional<std::vector<ValueReader>> types;
  if (const auto list = in.find("layer_types")) types = list->list();
  if (types && static_cast<std::int64_t>(types->size()) < shape.layers) {
    in.problem("layer_types",
               fmt::format("has {} layers, num_hidden_layers is {}", types->size(), shape.layers));
    types.reset();
  }
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    bool linear = (layer + 1) % interval != 0;
    if (types) {
      const std::string text = (*types)[at].text();
      linear = text == "linear_attention";
      if (!linear && text != "full_attention")
        (*types)[at].problem(fmt::format(
            "unknown layer type \"{}\"; known: linear_attention, full_attention", text));
    }
    shape.hybrid.layers.push_back(
        {.mixer = linear ? Mixer::gated_delta_net : Mixer::attention,
         .feed_forward = with_experts[at] ? FeedForward::experts : FeedForward::mlp});
  }
  if (!shape.hybrid.has(Mixer::gated_delta_net)) net = {};
  shape.attention_gate = true;
  check_hybrid_layers(in, "layer_types", shape);
}

}  // namespace sim
