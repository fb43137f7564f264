// Layers that differ in jobs of Megatron-LM: patterns of hybrid models, Mamba-2, gated delta nets
// and sparse attention. Names and defaults: megatron/training/arguments.py,
// core/transformer/transformer_config.py and core/models/hybrid/hybrid_layer_allocation.py (commit
// d98e8a64); --hybrid-override-pattern and ratios as releases before core_v0.17 have them.
#include <algorithm>

#include "sim/interop/megatron/megatron_config.hpp"
#include "sim/interop/megatron/megatron_experts.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

constexpr std::int64_t default_convolution = 4;
constexpr std::int64_t chunk_of_mixer = 128;  // mamba_mixer.py, chunk_size
constexpr std::string_view stack_spec =
    "megatron.core.models.hybrid.hybrid_layer_specs "
    "hybrid_stack_spec";

const Text& given_pattern(const MegatronConfig& config) {
  return config.hybrid_layer_pattern ? config.hybrid_layer_pattern : config.hybrid_override_pattern;
}

bool is_delta_net(const MegatronConfig& config) {
  const std::string name = config.attention_variant.value_or("");
  return name == "gdn" || name == "gated_delta_net";
}

class HybridReader : private SettingProblems {
 public:
  HybridReader(const MegatronConfig& config, const SettingProblems& problems,
               TransformerShape& shape)
      : SettingProblems{problems}, config_{config}, shape_{shape} {}

  void read() {
    if (config_.hybrid_layer_pattern && config_.hybrid_override_pattern)
      problem(config_.hybrid_override_pattern,
              "is the old name of --hybrid-layer-pattern: give one");
    rotary_share();
    shape_.attention_gate = config_.attention_output_gate.value_or(false);
    if (shape_.attention_gate && shape_.latent.exists())
      problem(config_.attention_output_gate, "does not go with latent attention here");
    variant();
    const std::string pattern = hybrid_pattern_of(config_, shape_.layers);
    layers_by_spec(!pattern.empty());
    if (pattern.empty()) {
      if (config_.is_hybrid_model.value_or(false))
        problem(config_.is_hybrid_model, "needs --hybrid-layer-pattern");
      return finish(config_.linear_attention_layers);
    }
    by_pattern(pattern);
    finish(given_pattern(config_));
  }

 private:
  void rotary_share() {
    const double share = config_.rotary_percent.value_or(1);
    if (share == 1 || shape_.positions != Positions::rotary || shape_.latent.exists()) return;
    if (share >= 0.01 && share <= 1)
      shape_.rotary_share = share;
    else
      problem(config_.rotary_percent, "is {}; allowed: 0.01 to 1", share);
  }

  // core/models/hybrid/hybrid_layer_specs.py: the stack of such layers; other specifications make
  // others of them.
  void layers_by_spec(bool by_pattern) {
    if (!config_.spec) return;
    std::string spec = *config_.spec;
    if (spec.ends_with(']')) spec.pop_back();  // a list in YAML
    if (by_pattern && (spec.ends_with(" hybrid_stack_spec") || spec.ends_with(" mamba_stack_spec")))
      return;
    problem(config_.spec,
            "layers by a specification are not known here but for hybrid_stack_spec and "
            "mamba_stack_spec beside a pattern");
  }

  void by_pattern(const std::string& pattern) {
    shape_.hybrid.layers.clear();
    if (!append_pattern(given_pattern(config_), pattern, *this, shape_.hybrid.layers)) return;
    depths();
    Experts& experts = shape_.experts;
    if (experts.count > 0) {
      experts.first_layer = 0;
      experts.every = 1;
    }
    if (!shape_.hybrid.has(FeedForward::experts)) experts = {};
    if (!shape_.hybrid.has(FeedForward::mlp)) shape_.feed_forward = 0;
    if (shape_.hybrid.has(Mixer::mamba2)) mamba2();
    if (shape_.hybrid.has(Mixer::gated_delta_net)) delta_net();
  }

  // Behind the main pattern: a slash and the letters of a depth, for each depth the same
  // (hybrid_layer_allocation.py, parse_hybrid_pattern). Or --mtp-hybrid-override-pattern.
  void depths() {
    const std::string all = given_pattern(config_).value_or("");
    const std::size_t slash = all.find('/');
    const bool apart = slash == std::string::npos;
    if (apart && !config_.mtp_pattern && shape_.mtp_layers == 0) return;
    const Text& place = apart ? config_.mtp_pattern : given_pattern(config_);
    const std::string tail = apart ? config_.mtp_pattern.value_or("") : all.substr(slash + 1);
    const std::string one = tail.substr(0, tail.find('/'));
    std::int64_t count = 1;
    for (std::size_t at = one.size(); at < tail.size(); at += one.size() + 1, ++count)
      if (tail.compare(at, one.size() + 1, "/" + one) != 0)
        return problem(place, "has depths of multi-token prediction that differ: '{}'", tail);
    if (one.empty())
      return problem(apart ? given_pattern(config_) : place,
                     "needs the letters of a depth of multi-token prediction");
    if (!apart) shape_.mtp_layers = count;
    if (!append_pattern(place, one, *this, shape_.mtp_kinds)) return;
    if (shape_.mtp_layers > 16) problem(place, "has {} depths; allowed: 0 to 16", count);
  }

  void mamba2() {
    namespace limits = transformer_limits;
    Mamba2& mamba = shape_.hybrid.mamba;
    mamba.head_dim = size(config_.mamba_head_dim, 64, limits::head_dim);
    mamba.heads =
        size(config_.mamba_num_heads, std::max<std::int64_t>(1, 2 * shape_.hidden / mamba.head_dim),
             limits::heads);
    mamba.groups = size(config_.mamba_num_groups, 8, limits::heads);
    mamba.state = size(config_.mamba_state_dim, 128, limits::state);
    mamba.chunk = chunk_of_mixer;
    if (mamba.heads % mamba.groups != 0)
      problem(config_.mamba_num_groups, "{} groups do not divide {} heads", mamba.groups,
              mamba.heads);
  }

  void delta_net() {
    namespace limits = transformer_limits;
    GatedDeltaNet& net = shape_.hybrid.delta_net;
    net.key_heads = size(config_.linear_num_key_heads, 16, limits::heads);
    net.value_heads = size(config_.linear_num_value_heads, 32, limits::heads);
    net.key_dim = size(config_.linear_key_head_dim, 128, limits::head_dim);
    net.value_dim = size(config_.linear_value_head_dim, 128, limits::head_dim);
    net.convolution = size(config_.linear_conv_kernel_dim, default_convolution, limits::taps);
    if (net.value_heads % net.key_heads != 0)
      problem(config_.linear_num_key_heads, "{} heads of keys do not divide {} of values",
              net.key_heads, net.value_heads);
  }

  void variant() {
    const std::string name = config_.attention_variant.value_or("");
    if (name.empty() || name == "none" || name == "None") return;
    if (name == "dsa") return sparse_attention();
    if (is_delta_net(config_)) return delta_net_in_layers();
    problem(config_.attention_variant, "is '{}'; modelled: gated_delta_net, gdn, dsa", name);
  }

  void sparse_attention() {
    namespace limits = transformer_limits;
    if (!shape_.latent.exists() || shape_.latent.query_rank == 0)
      problem(config_.attention_variant, "dsa is modelled with latent attention of a query rank");
    if (!config_.index_heads || !config_.index_dim || !config_.index_keys)
      problem(config_.attention_variant,
              "dsa needs dsa_indexer_n_heads, dsa_indexer_head_dim and dsa_indexer_topk");
    shape_.sparse.index_heads = size(config_.index_heads, 1, limits::heads);
    shape_.sparse.index_dim = size(config_.index_dim, 1, limits::head_dim);
    shape_.sparse.top_keys = size(config_.index_keys, 1, limits::rows);
  }

  // get_linear_attention_pattern: a number N leaves each N-th layer to attention; in a list 1 is a
  // gated delta net.
  void delta_net_in_layers() {
    if (given_pattern(config_)) return;  // of which the pattern says all
    const std::string text = config_.linear_attention_layers.value_or("");
    const ExpertLayers row =
        parse_expert_layers(text.empty() ? "?" : text, shape_.layers, OfEvery::all_but_last);
    if (!row.problem.empty())
      return problem(
          config_.linear_attention_layers ? config_.linear_attention_layers
                                          : config_.attention_variant,
          "needs --linear-attention-freq: a number, or a list of 0 and 1 for each layer");
    for (std::size_t layer = 0; layer < row.pattern.size(); ++layer) {
      const bool experts = shape_.experts.in_layer(static_cast<std::int64_t>(layer));
      shape_.hybrid.layers.push_back(
          {.mixer = row.pattern[layer] ? Mixer::gated_delta_net : Mixer::attention,
           .feed_forward = experts ? FeedForward::experts : FeedForward::mlp});
    }
    if (shape_.hybrid.has(Mixer::gated_delta_net)) delta_net();
  }

  void finish(const Text& place) {
    if (const std::string wrong = hybrid_problem(shape_); !wrong.empty())
      return problem(place, "{}", wrong);
    if (const std::string wrong = mtp_problem(shape_); !wrong.empty()) problem(place, "{}", wrong);
  }

  const MegatronConfig& config_;
  TransformerShape& shape_;
};

class HybridWriter {
 public:
  HybridWriter(const TransformerShape& shape, MegatronConfig& config, Refusals& refusals)
      : shape_{shape}, config_{config}, refusals_{refusals} {}

  void write() {
    if (shape_.attention_gate) config_.attention_output_gate = true;
    if (shape_.rotary_share != 1) config_.rotary_percent = shape_.rotary_share;
    if (shape_.experts.shared_gate) config_.shared_expert_gate = true;
    if (shape_.sparse.exists()) {
      config_.attention_variant = "dsa";
      config_.index_heads = shape_.sparse.index_heads;
      config_.index_dim = shape_.sparse.index_dim;
      config_.index_keys = shape_.sparse.top_keys;
    }
    if (!shape_.hybrid.exists()) return;
    mamba2();
    delta_net();
    const std::string pattern = pattern_of(shape_.hybrid.layers);
    if (pattern.empty()) return by_lists();
    config_.hybrid_layer_pattern = pattern + depths();
    if (shape_.mtp_layers == 0 && !shape_.mtp_kinds.empty())
      config_.mtp_pattern = pattern_of(shape_.mtp_kinds);
    config_.spec = std::string{stack_spec};
    config_.expert_layers = Text{};
  }

 private:
  void refuse(std::string what) {
    refusals_.push_back(fmt::format("the model {}: {}", shape_.name, what));
  }

  void mamba2() {
    const Mamba2& mamba = shape_.hybrid.mamba;
    if (!mamba.exists()) return;
    config_.mamba_num_heads = mamba.heads;
    config_.mamba_head_dim = mamba.head_dim;
    config_.mamba_num_groups = mamba.groups;
    config_.mamba_state_dim = mamba.state;
    if (mamba.convolution != default_convolution || !mamba.convolution_bias ||
        mamba.chunk != chunk_of_mixer)
      refuse("Megatron-LM's Mamba-2 has a convolution of 4 tokens with a bias, and chunks of 128");
  }

  void delta_net() {
    const GatedDeltaNet& net = shape_.hybrid.delta_net;
    if (!net.exists()) return;
    config_.attention_variant = "gated_delta_net";
    config_.linear_num_key_heads = net.key_heads;
    config_.linear_num_value_heads = net.value_heads;
    config_.linear_key_head_dim = net.key_dim;
    config_.linear_value_head_dim = net.value_dim;
    config_.linear_conv_kernel_dim = net.convolution;
  }

  std::string depths() const {
    std::string text;
    if (shape_.mtp_kinds.empty()) return text;
    for (std::int64_t depth = 0; depth < shape_.mtp_layers; ++depth)
      text += "/" + pattern_of(shape_.mtp_kinds);
    return text;
  }

  void by_lists() {
    const std::vector<LayerKind>& layers = shape_.hybrid.layers;
    const auto plain = [](const LayerKind& kind) {
      return (kind.mixer == Mixer::attention || kind.mixer == Mixer::gated_delta_net) &&
             (kind.feed_forward == FeedForward::mlp || kind.feed_forward == FeedForward::experts) &&
             kind.kv_heads == 0 && kind.width == 0;
    };
    if (!shape_.hybrid.delta_net.exists() || !std::all_of(layers.begin(), layers.end(), plain))
      return refuse("its layers differ in what Megatron-LM has no arguments for");
    config_.linear_attention_layers = layer_list_text(shape_.layers, [&](std::int64_t layer) {
      return shape_.kind_of(layer).mixer == Mixer::gated_delta_net;
    });
    if (shape_.experts.count > 0)
      config_.expert_layers = layer_list_text(shape_.layers, [&](std::int64_t layer) {
        return shape_.kind_of(layer).feed_forward == FeedForward::experts;
      });
  }

  const TransformerShape& shape_;
  MegatronConfig& config_;
  Refusals& refusals_;
};

}  // namespace

bool append_pattern(const Text& place, std::string_view pattern, const SettingProblems& problems,
                    std::vector<LayerKind>& layers) {
  for (const char letter : pattern) {
    if (append_letter(layers, letter)) continue;
    problems.problem(place, "has a layer '{}'; modelled: M, G, *, -, E", letter);
    return false;
  }
  return true;
}

std::string hybrid_pattern_of(const MegatronConfig& config, std::int64_t layers) {
  if (const Text& given = given_pattern(config)) {
    std::string pattern = (*given).substr(0, (*given).find('/'));
    std::erase(pattern, '|');
    return pattern;
  }
  const double attention = config.hybrid_attention_ratio.value_or(0);
  const double mlp = config.hybrid_mlp_ratio.value_or(0);
  const bool sane = attention >= 0 && mlp >= 0 && attention + mlp <= 1;
  if (attention + mlp <= 0 || !sane || layers < 1) return {};
  return pattern_from_ratios(layers, attention, mlp);
}

void read_hybrid_of_model(const MegatronConfig& config, const SettingProblems& problems,
                          TransformerShape& shape) {
  HybridReader{config, problems, shape}.read();
}

void write_hybrid_of_model(const TransformerShape& shape, MegatronConfig& config,
                           Refusals& refusals) {
  HybridWriter{shape, config, refusals}.write();
}

}  // namespace sim
