// The model file to write in the place of a config.json that is not read.
#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <optional>

#include "sim/config/yaml_text.hpp"
#include "sim/model/hugging_face/hugging_face_architecture.hpp"

namespace sim {
namespace {

// Fields of the configuration classes of transformers, by what they mean here.
class Template {
 public:
  explicit Template(const ObjectReader& in) : in_{in} {}

  std::string write(std::string_view name) {
    text_ = fmt::format("name: {}\nsource: \"where these figures come from\"\ntransformer:\n",
                        yaml_quoted(std::string{name}));
    sizes();
    experts();
    architecture();
    return std::move(text_);
  }

 private:
  std::optional<std::string> value(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (const auto found = in_.find(name))
        if (std::optional<std::string> text = found->peek_text()) return text;
    return std::nullopt;
  }
  bool has(std::initializer_list<const char*> names) const { return value(names).has_value(); }

  void line(std::string_view key, std::string_view text, std::string_view remark = "") {
    text_ += fmt::format("  {}: {}{}{}\n", key, text, remark.empty() ? "" : "  # ", remark);
  }
  void needed(std::string_view key, std::initializer_list<const char*> names) {
    const std::optional<std::string> found = value(names);
    line(key, found.value_or("?"), found ? "" : "not in the file");
  }
  void optional(std::string_view key, std::initializer_list<const char*> names) {
    if (const std::optional<std::string> found = value(names)) line(key, *found);
  }

  void sizes() {
    needed("layers", {"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
    needed("hidden", {"hidden_size", "n_embd", "d_model", "dim"});
    needed("heads", {"num_attention_heads", "n_head", "n_heads", "num_heads"});
    optional("kv_heads", {"num_key_value_heads", "num_kv_heads", "n_kv_heads"});
    optional("head_dim", {"head_dim", "kv_channels", "attention_head_dim"});
    needed("feed_forward",
           {"intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff", "dense_ffn"});
    needed("vocabulary", {"vocab_size", "padded_vocab_size"});
  }

  void experts() {
    const auto count =
        value({"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"});
    if (!count || *count == "0") return;
    const auto each = value({"num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk"});
    const auto width = value({"moe_intermediate_size", "expert_ffn_hidden_size",
                              "intermediate_size", "ffn_hidden_size"});
    line("experts", fmt::format("{{count: {}, per_token: {}, feed_forward: {}}}", *count,
                                each.value_or("?"), width.value_or("?")));
  }

  void architecture() {
    const std::string activation =
        value({"hidden_act", "hidden_activation", "activation_function", "activation"})
            .value_or("silu");
    const bool plain = activation.starts_with("gelu");
    const bool rms = has({"rms_norm_eps", "rms_norm_epsilon"});
    line("norm", rms || !plain ? "rms" : "layer", rms ? "" : "check: layer, layer_no_bias or rms");
    line("activation", plain ? "gelu" : "swiglu",
         fmt::format("{}; gated: swiglu, geglu; plain: gelu, relu, squared_relu", activation));
    const bool rope = has({"rope_theta", "rotary_emb_base", "rope_percentage", "rotary_pct"}) ||
                      in_.has("rope_parameters") || in_.has("rope_scaling");
    const bool table = plain && !rope && has({"max_position_embeddings", "n_positions"});
    line("positions", table ? "learned" : "rotary", rope ? "" : "check: rotary, learned or alibi");
    if (table) needed("max_sequence", {"max_position_embeddings", "n_positions"});
    optional("rotary_share", {"partial_rotary_factor", "rotary_pct"});
    const bool biased = value({"attention_bias", "use_bias", "add_bias_linear"}) == "true";
    line("biases", biased ? "attention" : "none", "none, qkv, attention or all");
    if (value({"use_qk_norm", "qk_norm"}) == "true") line("qk_norm", "true");
    if (value({"use_sliding_window"}) != "false") optional("window", {"sliding_window"});
    line("tied_head", value({"tie_word_embeddings"}).value_or("false"));
  }

  const ObjectReader& in_;
  std::string text_;
};

}  // namespace

std::string transformer_to_write(const ObjectReader& in, std::string_view name) {
  return Template{in}.write(name);
}

}  // namespace sim
