// Keys of a model that a scenario carries; the same as in a model file (models/FORMAT.md).
#include "sim/catalog/tables.hpp"
#include "sim/model/transformer.hpp"

namespace sim::catalog_tables {
namespace {

using enum KeyType;
namespace limits = transformer_limits;

KeyDefault if_needed() {
  return KeyDefault::follows("required in this section");
}

std::vector<Key> sizes() {
  constexpr IntegerRange rows{1, limits::rows}, head_dim{1, limits::head_dim};
  return {
      text_key(text, "family", "transformer", "label for reports"),
      integer_key("layers", {1, limits::layers}, "layers", KeyDefault::required(), "layers"),
      integer_key("hidden", {1, limits::hidden}, "", KeyDefault::required(), "hidden size"),
      integer_key("heads", {1, limits::heads}, "heads", KeyDefault::required(), "query heads"),
      integer_key("kv_heads", {1, limits::heads}, "heads", KeyDefault::follows("heads"),
                  "key/value heads (grouped-query attention)"),
      integer_key("head_dim", head_dim, "", KeyDefault::follows("hidden / heads"),
                  "width of a head"),
      integer_key("feed_forward", {1, limits::feed_forward}, "", KeyDefault::required(),
                  "width of the MLP"),
      integer_key("vocabulary", rows, "tokens", KeyDefault::follows("required without an image"),
                  "rows of the embedding table"),
      integer_key("max_sequence", rows, "tokens", KeyDefault::follows("no limit"),
                  "longest sequence; with learned positions the rows of their table"),
      integer_key("token_types", rows, "rows", KeyDefault::follows("no such table"),
                  "rows of BERT's segment table"),
      integer_key("classes", rows, "classes", KeyDefault::follows("required with a classifier"),
                  "classes of the classifier"),
      integer_key("image.size", {1, limits::pixels}, "pixels", if_needed(), "edge of the image"),
      integer_key("image.patch", {1, limits::pixels}, "pixels", if_needed(), "edge of a patch"),
      integer_key("image.channels", {1, 1024}, "channels", "3", "channels of the image"),
  };
}

std::vector<Key> experts() {
  constexpr IntegerRange rank{1, limits::rank}, head_dim{1, limits::head_dim};
  return {
      integer_key("experts.count", {2, limits::experts}, "experts", if_needed(),
                  "experts of a layer"),
      integer_key("experts.per_token", {1, limits::experts}, "experts", if_needed(),
                  "experts that a token is routed to"),
      integer_key("experts.feed_forward", {1, limits::feed_forward}, "", if_needed(),
                  "width of each expert"),
      integer_key("experts.shared_feed_forward", {0, limits::feed_forward}, "", "0",
                  "width of the shared experts together"),
      integer_key("experts.first_layer", {0, limits::layers}, "", "0",
                  "first layer with experts, counted from 0"),
      integer_key("experts.every", {1, limits::layers}, "layers", "1",
                  "from there on, every n-th layer has experts"),
      integer_key("experts.groups", {0, limits::experts}, "groups", "0",
                  "groups of experts, of which a token chooses some first; 0: none"),
      integer_key("experts.groups_per_token", {0, limits::experts}, "groups", "0",
                  "groups that a token chooses"),
      boolean_key("experts.router_bias", "false", "the router has a bias"),
      boolean_key("experts.shared_gate", "false", "each token weighs what the shared experts make"),
      integer_key("experts.latent", {0, limits::hidden}, "", "0",
                  "width of the state that experts work on; 0: hidden"),
      integer_key("latent_attention.query_rank", {0, limits::rank}, "", "0",
                  "rank of the queries; 0: not compressed"),
      integer_key("latent_attention.key_value_rank", rank, "", if_needed(),
                  "rank of keys and values"),
      integer_key("latent_attention.plain_dim", head_dim, "", if_needed(),
                  "width of a head's queries and keys without positions"),
      integer_key("latent_attention.rotary_dim", head_dim, "", if_needed(),
                  "width of a head's queries and keys with positions"),
      integer_key("latent_attention.value_dim", head_dim, "", if_needed(),
                  "width of a head's values"),
  };
}

std::vector<Key> vision() {
  constexpr IntegerRange pixels{1, limits::pixels}, rows{1, limits::rows};
  const KeyDefault none = KeyDefault::follows("none");
  return {
      integer_key("vision.layers", {1, limits::layers}, "layers", if_needed(),
                  "layers of a vision encoder in front of the language model"),
      integer_key("vision.hidden", {1, limits::hidden}, "", if_needed(), "its hidden size"),
      integer_key("vision.heads", {1, limits::heads}, "heads", if_needed(), "its heads"),
      integer_key("vision.feed_forward", {1, limits::feed_forward}, "", if_needed(),
                  "width of its MLPs"),
      word_key<NormKind>("vision.norm", if_needed(), "kind of its norms"),
      word_key<Activation>("vision.activation", if_needed(), "activation of its MLPs"),
      boolean_key("vision.biases", "true", "linears of its layers have biases"),
      integer_key("vision.patch", pixels, "pixels", if_needed(), "edge of a patch"),
      integer_key("vision.frames", {1, 64}, "frames", "1", "frames that a patch takes in"),
      integer_key("vision.channels", {1, 1024}, "channels", "3", "channels of an image"),
      boolean_key("vision.patch_bias", "false", "the product of patches has a bias"),
      integer_key("vision.image_size", pixels, "pixels", KeyDefault::follows("any"),
                  "edge of the images that it takes"),
      integer_key("vision.positions", rows, "rows", none, "rows of a table of positions"),
      boolean_key("vision.class_token", "false", "a token that stands for the image"),
      boolean_key("vision.rotary", "false", "rotary positions of queries and keys"),
      integer_key("vision.window", rows, "patches", none,
                  "patches of a window, outside of which a query sees nothing"),
      text_key(text, "vision.full_attention", none,
               "layers without the window: a list, or {every: 8, first_layer: 7}"),
      boolean_key("vision.norm_before", "false", "a norm in front of its layers"),
      boolean_key("vision.norm_behind", "false", "a norm behind them"),
      integer_key("projector.merge", {1, 64}, "patches", "1",
                  "edge of the square of patches that becomes a token"),
      boolean_key("projector.pools", "false", "by their mean; else side by side"),
      word_key<NormKind>("projector.norm", none, "a norm in front of the linears"),
      text_key(list, "projector.widths", "[]", "outputs of the linears before the last one"),
      boolean_key("projector.biases", "true", "its linears have biases"),
      integer_key("projector.deepstack", {0, 16}, "projectors", "0",
                  "further ones, of outputs of layers in between"),
  };
}

std::vector<Key> hybrid() {
  constexpr IntegerRange heads{1, limits::heads}, head_dim{1, limits::head_dim};
  constexpr IntegerRange state{1, limits::state}, taps{1, limits::taps};
  return {
      text_key(text, "layer_pattern", KeyDefault::follows("all layers alike"),
               "a letter for each layer: M mamba2, G gated_delta_net, * attention, - mlp, E "
               "experts, each alone"),
      text_key(list, "layer_kinds", KeyDefault::follows("all layers alike"),
               "layers by what they are made of: [{count, mixer, feed_forward, kv_heads, width}], "
               "one period of them"),
      integer_key("mamba2.heads", heads, "heads", if_needed(), "heads of a Mamba-2 block"),
      integer_key("mamba2.head_dim", head_dim, "", "64", "width of such a head"),
      integer_key("mamba2.groups", heads, "groups", "8", "groups of heads that share B and C"),
      integer_key("mamba2.state", state, "", "128", "width of B and C of a group"),
      integer_key("mamba2.convolution", taps, "tokens", "4", "width of the causal convolution"),
      boolean_key("mamba2.convolution_bias", "true", "the convolution has a bias"),
      integer_key("mamba2.chunk", state, "tokens", "128", "tokens that the scan takes at a time"),
      boolean_key("mamba2.norm", "true", "a norm behind the gate"),
      integer_key("gated_delta_net.key_heads", heads, "heads", if_needed(),
                  "heads of queries and keys of a gated delta net"),
      integer_key("gated_delta_net.value_heads", heads, "heads", if_needed(),
                  "heads of its values"),
      integer_key("gated_delta_net.key_dim", head_dim, "", "128", "width of a head's keys"),
      integer_key("gated_delta_net.value_dim", head_dim, "", "128", "width of a head's values"),
      integer_key("gated_delta_net.convolution", taps, "tokens", "4",
                  "width of the causal convolution"),
      integer_key("sparse_attention.index_heads", heads, "heads", if_needed(),
                  "heads of the indexer of sparse attention"),
      integer_key("sparse_attention.index_dim", head_dim, "", "128", "width of such a head"),
      integer_key("sparse_attention.top_keys", {1, limits::rows}, "tokens", "2048",
                  "tokens that a query chooses"),
      text_key(
          text, "sparse_attention.indexers", KeyDefault::follows("all"),
          "layers that choose; others take the choice before: a list, or {every, first_layer}"),
  };
}

std::vector<Key> architecture() {
  constexpr RealRange probability{0, 1};
  return {
      word_key<NormKind>("norm", KeyDefault::required(), "kind of norm"),
      word_key<NormPlacement>("norm_placement", "pre", "where a layer has its norms"),
      word_key<Activation>("activation", KeyDefault::required(), "activation of the MLP"),
      word_key<Positions>("positions", KeyDefault::required(), "position embedding"),
      word_key<AttentionMask>("attention", "causal", "attention mask"),
      text_key(word, "biases", KeyDefault::required(), "linear layers with a bias",
               {"none", "qkv", "attention", "all"}),
      boolean_key("qk_norm", "false", "norm of queries and keys"),
      text_key(word, "qk_norm_over", "heads", "width of that norm: a head, or all heads",
               {"heads", "projection"}),
      boolean_key("qk_norm_scales", "true",
                  "it has weights; without: in layers with positions alone"),
      number_key("rotary_share", {0.01, 1}, "", "1", "share of a head's width that is rotated"),
      text_key(text, "without_positions", KeyDefault::follows("none"),
               "layers without rotary positions: a list, or {every: 4, first_layer: 3}"),
      integer_key("window", {1, limits::rows}, "tokens", KeyDefault::follows("all before it"),
                  "sliding window of attention, the own token included"),
      text_key(text, "full_attention", KeyDefault::follows("none"),
               "layers without the window: a list, or {every: 6, first_layer: 5}"),
      integer_key("attention_chunk", {1, limits::rows}, "tokens", KeyDefault::follows("none"),
                  "chunks of a sequence, before which queries see no keys"),
      boolean_key("attention_sinks", "false", "a trained score per head"),
      boolean_key("attention_softcap", "false", "soft cap of the attention scores"),
      boolean_key("attention_gate", "false", "a gate of what the heads give"),
      boolean_key("logit_softcap", "false", "soft cap of the logits"),
      integer_key("mtp_layers", {0, 16}, "depths", "0", "depths of multi-token prediction"),
      text_key(text, "mtp_pattern", KeyDefault::follows("one layer as the last"),
               "the layers of a depth, in letters of layer_pattern"),
      boolean_key("mtp_repeated", "false", "all depths have the parameters of the first"),
      boolean_key("mtp_sixteen_bits", "false", "linears of the depths stay in 16 bits"),
      boolean_key("embedding_scale", "false", "the embedding is multiplied by a number"),
      boolean_key("residual_scale", "false", "every branch is multiplied by a number"),
      boolean_key("logit_scale", "false", "the logits are multiplied by a number"),
      boolean_key("embedding_norm", "false", "norm behind the embedding"),
      number_key("hidden_dropout", probability, "", "0", "dropout behind the MLP"),
      number_key("projection_dropout", probability, "", KeyDefault::follows("hidden_dropout"),
                 "dropout behind the attention projection"),
      number_key("attention_dropout", probability, "", "0", "dropout of attention probabilities"),
      number_key("embedding_dropout", probability, "", "0", "dropout behind the embedding"),
      word_key<Head>("head", "language_model", "what follows the last layer"),
      boolean_key("tied_head", "false", "the head shares the embedding table"),
  };
}

}  // namespace

std::vector<Key> model() {
  std::vector<Key> keys{
      text_key(text, "model.name", KeyDefault::follows("the scenario's name"), "name of the model"),
      text_key(text, "model.source", KeyDefault::required(), "where the model's figures come from"),
  };
  for (std::vector<Key> (*more)() : {sizes, experts, hybrid, architecture, vision})
    for (Key& key : in_section("model.transformer", more()))
      keys.push_back(std::move(key));
  for (Key& key : keys)
    key.only_in_file = true;
  return keys;
}

}  // namespace sim::catalog_tables
