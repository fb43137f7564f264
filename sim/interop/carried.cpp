#include "sim/interop/carried.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sim {
namespace {

// Flags of Megatron-LM's TransformerConfig, OptimizerConfig and schedule of the learning rate
// (megatron/training/arguments.py at d98e8a64). A '*' at the end stands for any rest.
constexpr std::array carried_flags{
    // Positions.
    "--rotary-base", "--rotary-interleaved", "--rotary-scaling-factor",
    "--rotary-seq-len-interpolation-factor", "--use-rope-scaling", "--rope-scaling-factor",
    "--rope-type", "--mrope-section", "--mscale", "--mscale-all-dim", "--beta-fast", "--beta-slow",
    "--yarn-*", "--original-max-position-embeddings",
    // Norms, attention, first weights.
    "--norm-epsilon", "--apply-layernorm-1p", "--apply-query-key-layer-scaling",
    "--attention-softmax-in-fp32", "--init-method-std", "--init-method-xavier-uniform",
    "--embedding-init-method-std", "--openai-gelu", "--mtp-loss-scaling-factor",
    // Routers.
    "--moe-aux-loss-coeff", "--moe-z-loss-coeff", "--moe-router-load-balancing-type",
    "--moe-router-score-function", "--moe-router-pre-softmax", "--moe-router-topk-scaling-factor",
    "--moe-router-enable-expert-bias", "--moe-router-bias-update-rate", "--moe-input-jitter-eps",
    // The optimizer.
    "--lr", "--min-lr", "--lr-*", "--adam-*", "--muon-*", "--sgd-momentum", "--lion-*",
    "--weight-decay", "--weight-decay-incr-style", "--start-weight-decay", "--end-weight-decay",
    "--no-weight-decay-cond-type", "--apply-wd-to-qk-layernorm", "--clip-grad", "--train-iters",
    "--train-samples", "--seed"};

// The same of Megatron-Bridge's ConfigContainer.
constexpr std::array carried_keys{"model.rotary_base",
                                  "model.rotary_base_local",
                                  "model.rotary_interleaved",
                                  "model.rotary_scaling_factor",
                                  "model.seq_len_interpolation_factor",
                                  "model.rope_scaling",
                                  "model.rope_scaling_factor",
                                  "model.rope_type",
                                  "model.mrope_section",
                                  "model.mscale",
                                  "model.mscale_all_dim",
                                  "model.beta_fast",
                                  "model.beta_slow",
                                  "model.yarn_*",
                                  "model.original_max_position_embeddings",
                                  "model.layernorm_epsilon",
                                  "model.layernorm_zero_centered_gamma",
                                  "model.init_method_std",
                                  "model.embedding_init_method_std",
                                  "model.attention_softmax_in_fp32",
                                  "model.apply_query_key_layer_scaling",
                                  "model.mtp_loss_scaling_factor",
                                  "model.moe_aux_loss_coeff",
                                  "model.moe_z_loss_coeff",
                                  "model.moe_router_load_balancing_type",
                                  "model.moe_router_score_function",
                                  "model.moe_router_pre_softmax",
                                  "model.moe_router_topk_scaling_factor",
                                  "model.moe_router_enable_expert_bias",
                                  "model.moe_router_bias_update_rate",
                                  "optimizer.lr",
                                  "optimizer.min_lr",
                                  "optimizer.adam_*",
                                  "optimizer.weight_decay",
                                  "optimizer.clip_grad",
                                  "optimizer.sgd_momentum",
                                  "optimizer.muon_*",
                                  "scheduler.*",
                                  "train.train_iters",
                                  "train.train_samples",
                                  "rng.seed"};

template <std::size_t N>
bool is_one_of(const std::array<const char*, N>& names, std::string_view name) {
  return std::ranges::any_of(names, [&](std::string_view known) {
    return known.ends_with('*') ? name.starts_with(known.substr(0, known.size() - 1))
                                : name == known;
  });
}

std::optional<ValueReader> value_at(const ObjectReader& root, std::string_view name,
                                    Target target) {
  if (target == Target::megatron) return root.find(name);
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::optional<ValueReader> section = root.find(name.substr(0, dot));
  if (!section || !section->is_object()) return std::nullopt;
  return section->object().find(name.substr(dot + 1));
}

// Words of a list stand apart, as behind a flag. Nothing: an object, or what no shell may see.
std::optional<std::string> text_of_value(const ValueReader& value, Target target) {
  if (!value.is_list()) return value.peek_text();
  std::string text;
  for (const ValueReader& item : value.list()) {
    const std::optional<std::string> one = item.peek_text();
    if (!one) return std::nullopt;
    text += (text.empty() ? "" : target == Target::megatron ? " " : ", ") + *one;
  }
  return target == Target::megatron ? text : fmt::format("[{}]", text);
}

}  // namespace

void carry_settings(const ObjectReader& root, Target target, Imported& result) {
  for (const std::string& name : result.ignored) {
    const bool carried =
        target == Target::megatron ? is_one_of(carried_flags, name) : is_one_of(carried_keys, name);
    if (!carried || !is_carried_name(name)) continue;
    const std::optional<ValueReader> value = value_at(root, name, target);
    const std::optional<std::string> text = value ? text_of_value(*value, target) : std::nullopt;
    if (!text || text->empty() || *text == "null" || *text == "None") continue;
    if (!is_carried_value(*text)) continue;
    result.carried.settings.emplace_back(name, *text);
  }
  if (!result.carried.settings.empty()) result.carried.target = word(target);
}

const std::vector<std::pair<std::string, std::string>>& carried_for(const Scenario& scenario,
                                                                    Target target,
                                                                    std::vector<Note>& notes) {
  static const std::vector<std::pair<std::string, std::string>> nothing;
  const CarriedSettings& carried = scenario.carried;
  const bool own = carried.target == word(target);
  if (!own && !carried.settings.empty())
    notes.push_back(
        {fmt::format("carried.{}", carried.target),
         fmt::format("{} settings in its words, {} the first, are not written for {}",
                     carried.settings.size(), carried.settings.front().first, word(target))});
  return own ? carried.settings : nothing;
}

bool lacks_rotary_base(const Scenario& scenario) {
  const bool rotary = scenario.model.shape && scenario.model.shape->positions == Positions::rotary;
  return rotary && std::ranges::none_of(scenario.carried.settings, [](const auto& setting) {
           return setting.first == "--rotary-base";
         });
}

std::string carried_flag_lines(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::string text;
  for (const auto& [name, value] : settings) {
    const bool plain = value.find_first_of("|()*[]=") == std::string::npos;
    const char* quote = plain ? "" : "'";
    if (value == "false") continue;
    text += value == "true" ? fmt::format("  {}\n", name)
                            : fmt::format("  {} {}{}{}\n", name, quote, value, quote);
  }
  return text;
}

}  // namespace sim
