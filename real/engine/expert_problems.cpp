#include "real/engine/expert_problems.hpp"

#include <fmt/format.h>

#include <cmath>

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
  problems.push_back(fmt::format(
      "layout.moe.capacity_factor is {}: of {} tokens that choose {} of {} experts each, an expert "
      "takes {} of a rank's; allowed: factors with which that is a whole number, 1 or more",
      layout.expert_capacity, tokens_held(layout), experts.per_token, experts.count, places));
}

// Shares that are not even: routing.hpp.
void check_shares(const sim::Layout& layout, const sim::Model& model,
                  std::vector<std::string>& problems) {
  const sim::Experts& experts = model.shape->experts;
  if (layout.expert_imbalance != 1)
    problems.push_back(fmt::format(
        "layout.expert_imbalance is {}: the engine gives every expert as many tokens; allowed: 1",
        layout.expert_imbalance));
  if (layout.has_uneven_experts())
    problems.emplace_back(
        "layout.moe.load: the engine gives every expert as many tokens; allowed: even, or "
        "training.routing softmax or sigmoid, which choose by the scores of the router");
  if (layout.expert_capacity > 0)
    problems.push_back(fmt::format(
        "layout.moe.capacity_factor is {}: the engine drops no token and pads no expert where it "
        "gives all as many; allowed: 0, or training.routing softmax or sigmoid",
        layout.expert_capacity));
  const std::int64_t held = tokens_held(layout);
  const auto check = [&](const char* what, std::int64_t tokens) {
    if (tokens * experts.per_token % experts.count == 0) return;
    problems.push_back(fmt::format(
        "{}: the engine gives every expert as many tokens, but {} tokens that choose {} experts "
        "each do not spread evenly over {}",
        what, tokens, experts.per_token, experts.count));
  };
  check("layout.sequence_length", layout.sequence_length);
  // A context rank counts from the start of each of its two chunks.
  if (layout.context_parallel > 1 && problems.empty())
    check("layout.context_parallel", layout.tokens_held() / 2);
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
    problems.push_back(fmt::format(
        "layout.zero_stage is {}, layout.shard_group {}: the engine shards experts over all ranks "
        "that have them; allowed: zero_stage 0 or 1, and no shard_group",
        layout.zero_stage, layout.shard_group));
  if (layout.token_dispatcher != sim::TokenDispatcher::alltoall)
    problems.push_back(
        fmt::format("layout.moe.dispatcher is {}: the engine sends a copy for each choice; "
                    "allowed: alltoall",
                    sim::word(layout.token_dispatcher)));
  if (model.shape->experts.latent > 0)
    problems.push_back(
        fmt::format("{}: the engine does not execute experts of a narrower state (experts.latent)",
                    model.name));
  if (model.shape->mlp_bias)
    problems.push_back(
        fmt::format("{}: the engine does not execute biases of experts", model.name));
  return problems;
}

}  // namespace real
