// The model of a job of Megatron-LM. Defaults: megatron/training/arguments.py, validate_args and
// _add_network_size_args (commit 000c4ac2).
#include <algorithm>

#include "sim/interop/megatron/megatron_config.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

class ModelReader : private SettingProblems {
 public:
  ModelReader(const MegatronConfig& config, const MegatronRules& rules,
              const ImportRequest& request, const SettingProblems& problems,
              TransformerShape& shape)
      : SettingProblems{problems},
        config_{config},
        rules_{rules},
        request_{request},
        shape_{shape} {}

  void read() {
    if (!config_.num_layers) {
      if (request_.model)
        shape_ = *request_.model;
      else
        at_root(
            "the file does not describe the model: name it with --model, for example "
            "--model llama-3.1-8b");
      return;
    }
    shape_.name = "imported";
    shape_.source = "arguments of Megatron-LM";
    shape_.family = "megatron";
    sizes();
    kind();
    read_latent_attention(config_, *this, shape_);
    read_window(config_, *this, config_.seq_length.value_or(request_.sequence_length), shape_);
    read_experts_of_model(config_, *this, shape_);
    read_hybrid_of_model(config_, *this, shape_);
    if (request_.model && !same_shape(*request_.model, shape_))
      problem(config_.num_layers, "the file describes another model than --model: leave one away");
    if (request_.model) shape_ = *request_.model;
  }

 private:
  void sizes() {
    namespace limits = transformer_limits;
    for (const Whole* needed : {&config_.hidden_size, &config_.num_attention_heads})
      if (!*needed)
        at_root(needed == &config_.hidden_size ? "the model has no hidden size"
                                               : "the model has no number of heads");
    shape_.layers = size(config_.num_layers, 1, limits::layers);
    shape_.hidden = size(config_.hidden_size, 1, limits::hidden);
    shape_.heads = size(config_.num_attention_heads, 1, limits::heads);
    // --num-query-groups counts only with --group-query-attention; the YAMLs have no such switch.
    const bool grouped = config_.group_query_attention.value_or(rules_.groups_without_switch &&
                                                                bool{config_.num_query_groups});
    shape_.kv_heads = grouped ? size(config_.num_query_groups, 1, limits::heads) : shape_.heads;
    if (shape_.heads % shape_.kv_heads != 0)
      problem(config_.num_query_groups, "{} query groups do not divide {} heads", shape_.kv_heads,
              shape_.heads);
    if (!config_.kv_channels && shape_.hidden % shape_.heads != 0)
      problem(config_.num_attention_heads, "{} heads do not divide the hidden size {}",
              shape_.heads, shape_.hidden);
    shape_.head_dim =
        size(config_.kv_channels, std::max<std::int64_t>(1, shape_.hidden / shape_.heads),
             limits::head_dim);
    if (!config_.vocab_size && request_.model) {
      shape_.vocabulary = request_.model->vocabulary;
      feed_forward();
      return;
    }
    if (!config_.vocab_size)
      at_root(
          "the size of the vocabulary comes from the tokenizer: add it (--vocab-size N in the "
          "script, model.vocab_size), give --set vocab_size=N, or name the model with --model");
    shape_.vocabulary = padded(size(config_.vocab_size, 1, limits::rows));
    feed_forward();
  }

  // training/vocab_utils.py. A multiple of 128 x tensor ranks is what plans pad to.
  std::int64_t padded(std::int64_t vocabulary) {
    constexpr std::int64_t usual = 128, most = 1 << 20;
    const std::int64_t divisor = size(config_.vocab_divisor, usual, most);
    if (divisor == usual || request_.model) return vocabulary;
    const std::int64_t unit = divisor * size(config_.tensor_parallel, 1, most_ranks);
    return (vocabulary + unit - 1) / unit * unit;
  }

  Activation activation() {
    const std::string name = config_.activation.value_or("");
    if (name == "swiglu" || config_.swiglu.value_or(false)) return Activation::swiglu;
    if (name == "squared_relu" || config_.squared_relu.value_or(false))
      return Activation::squared_relu;
    if (name == "geglu" || name == "quick_geglu" || config_.quick_geglu.value_or(false))
      return Activation::geglu;
    return Activation::gelu;
  }

  // validate_args: 4 h, or with --swiglu two thirds of it in multiples of 64. (--quick-geglu is not
  // asked for there, and gets 4 h.)
  void feed_forward() {
    shape_.activation = activation();
    const std::int64_t gated = shape_.hidden * 4 * 2 / 3 / 64 * 64;
    const std::int64_t fallback =
        shape_.activation == Activation::swiglu ? gated : 4 * shape_.hidden;
    shape_.feed_forward = size(config_.ffn_hidden_size, std::max<std::int64_t>(1, fallback),
                               transformer_limits::feed_forward);
    clamp();
  }

  // The clamped quick GEGLU of gpt-oss' experts, which is counted as SwiGLU
  // (models/gpt-oss-*.yaml): activation_func_clamp_value is of quick GEGLU alone (arguments.py at
  // d98e8a64).
  void clamp() {
    const bool clamps = config_.activation_clamp && config_.num_experts.value_or(0) > 0;
    if (!clamps || shape_.activation != Activation::geglu) return;
    shape_.activation = Activation::swiglu;
    shape_.family = "gpt_oss";
  }

  void kind() {
    const std::string norm = config_.normalization.value_or("LayerNorm");
    if (norm != "LayerNorm" && norm != "RMSNorm")
      problem(config_.normalization, "is '{}'; allowed: LayerNorm, RMSNorm", norm);
    shape_.norm = norm == "RMSNorm" ? NormKind::rms : NormKind::layer;
    positions();
    const bool all = config_.add_bias_linear.value_or(true);
    shape_.qkv_bias = all || config_.add_qkv_bias.value_or(false);
    shape_.projection_bias = shape_.mlp_bias = all;
    shape_.qk_norm = config_.qk_layernorm.value_or(false);
    shape_.tied_head = config_.share_embeddings.value_or(true);
    shape_.mtp_layers = config_.mtp_layers.value_or(0);
    shape_.mtp_repeated = config_.mtp_repeated.value_or(false);
    shape_.mtp_sixteen_bits = config_.mtp_in_bf16.value_or(false);
    if (shape_.mtp_layers < 0 || shape_.mtp_layers > 16)
      problem(config_.mtp_layers, "is {}; allowed: 0 to 16", shape_.mtp_layers);
    // Megatron-LM's defaults are 0.1.
    shape_.mlp_dropout = probability(config_.hidden_dropout);
    shape_.projection_dropout = shape_.embedding_dropout = shape_.mlp_dropout;
    shape_.attention_dropout = probability(config_.attention_dropout);
  }

  double probability(const Real& setting) {
    const double value = setting.value_or(0.1);
    if (value >= 0 && value <= 1) return value;
    problem(setting, "is {}; allowed: 0 to 1", value);
    return 0;
  }

  void positions() {
    const std::string kind = config_.position_embedding_type.value_or("learned_absolute");
    if (kind == "rope") {
      shape_.positions = Positions::rotary;
    } else if (kind == "none") {
      shape_.positions = Positions::none;
    } else if (kind == "learned_absolute") {
      shape_.positions = Positions::learned;
      if (!config_.max_position_embeddings)
        at_root("learned positions need --max-position-embeddings");
      shape_.max_sequence = size(config_.max_position_embeddings, 1, transformer_limits::rows);
    } else {
      problem(config_.position_embedding_type, "is '{}'; modelled: learned_absolute, rope, none",
              kind);
    }
  }

  const MegatronConfig& config_;
  const MegatronRules& rules_;
  const ImportRequest& request_;
  TransformerShape& shape_;
};

}  // namespace

void read_megatron_model(const MegatronConfig& config, const MegatronRules& rules,
                         const ImportRequest& request, const SettingProblems& problems,
                         TransformerShape& shape) {
  // --hybrid-layer-pattern says how many layers there are, whatever --num-layers does.
  MegatronConfig own = config;
  const std::string pattern = hybrid_pattern_of(config, 0);
  if (!pattern.empty())
    own.num_layers = Whole{static_cast<std::int64_t>(pattern.size()),
                           config.hybrid_layer_pattern ? config.hybrid_layer_pattern.place
                                                       : config.hybrid_override_pattern.place};
  ModelReader{own, rules, request, problems, shape}.read();
}

}  // namespace sim
