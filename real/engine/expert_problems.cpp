#include "real/engine/expert_problems.hpp"

#include <cmath>

#include "real/engine/data/tokens.hpp"
#include "real/engine/support.hpp"

namespace real {
namespace {

// Tokens of a micro-batch that a rank's router sees.
std::int64_t tokens_held(const sim::Layout& layout) {
  const std::int64_t slices = layout.sequence_parallel ? layout.tensor_parallel : 1;
  return layout.micro_batch * layout.tokens_held() / slices;
}

// Room is planned for whole places of each expert.
void check_capacity(const sim::Layout& layout, const sim::Model& model,
                    std::vector<std::string>& problems) {
  if (layout.expert_capacity <= 0) return;
  const sim::Experts& experts = model.shape->experts;
  const std::int64_t copies = tokens_held(layout) * experts.per_token;
  const double places =
      layout.expert_capacity * static_cast<double>(copies) / static_cast<double>(experts.count);
  if (places >= 1 && std::abs(places - std::round(places)) < 1e-6) return;
  problems.push_back(refusal(Feature::expert_places, layout.expert_capacity, tokens_held(layout),
                             experts.per_token, experts.count, places));
}

// Shares that are not even: routing.hpp.
void check_shares(const sim::Layout& layout, const sim::Model& model,
                  std::vector<std::string>& problems) {
  const sim::Experts& experts = model.shape->experts;
  if (layout.expert_imbalance != 1)
    problems.push_back(refusal(Feature::expert_imbalance, layout.expert_imbalance));
  if (layout.has_uneven_experts()) problems.push_back(refusal(Feature::expert_load));
  if (layout.expert_capacity > 0)
    problems.push_back(refusal(Feature::even_capacity, layout.expert_capacity));
  const std::int64_t held = tokens_held(layout);
  const auto check = [&](const char* what, std::int64_t tokens) {
    if (tokens * experts.per_token % experts.count == 0) return;
    problems.push_back(
        refusal(Feature::expert_shares, what, tokens, experts.per_token, experts.count));
  };
  check("layout.sequence_length", layout.sequence_length);
  // Tokens are counted from the start of each sample, or of each of a context rank's two chunks.
  const TokenRows rows = token_rows(layout);
  if (rows.tokens != layout.sequence_length && problems.empty())
    check(layout.packed_length > 0 ? "layout.packed_length" : "layout.context_parallel",
          rows.tokens);
  if (held != layout.sequence_length && problems.empty()) check("layout.tensor_parallel", held);
}

}  // namespace

std::vector<std::string> expert_problems(const sim::Layout& layout, const sim::Model& model,
                                         bool by_scores) {
  std::vector<std::string> problems;
  if (!model.has_experts()) return problems;
  if (by_scores)
    check_capacity(layout, model, problems);
  else
    check_shares(layout, model, problems);
  if (layout.zero_stage > 1 || layout.shard_group > 0)
    problems.push_back(refusal(Feature::expert_sharding, layout.zero_stage, layout.shard_group));
  if (layout.token_dispatcher != sim::TokenDispatcher::alltoall)
    problems.push_back(refusal(Feature::expert_dispatcher, sim::word(layout.token_dispatcher)));
  if (model.shape->experts.latent > 0)
    problems.push_back(refusal(Feature::expert_latent, model.name));
  if (model.shape->mlp_bias) problems.push_back(refusal(Feature::expert_biases, model.name));
  if (model.execution.experts != sim::ExpertForm::megatron)
    problems.push_back(refusal(Feature::expert_forms));
  return problems;
}

}  // namespace real
