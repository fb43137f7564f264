// A row of the distribution is a case: a layer, a micro-batch, a step. An exchange ends with the
// rank to which most come, so the time of a step follows the mean over rows of the fullest rank;
// what a rank keeps of all layers follows the mean over rows of that rank.
#include "sim/plan/sharding/expert_shares.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "sim/base/check.hpp"
#include "sim/plan/sharding/drawn_load.hpp"
#include "sim/program/expert_routing.hpp"
#include "sim/program/uneven_choice.hpp"

namespace sim {
namespace {

using Row = std::vector<double>;

double mean_of(const Row& row) {
  return std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
}

// The row, scaled to a mean of 1.
Row scaled(Row row) {
  const double mean = mean_of(row);
  for (double& value : row)
    value /= mean;
  return row;
}

// By the shape: a search prices a few layers that stand for all, with the draws of all.
std::int64_t layers_with_experts(const Model& model) {
  std::int64_t layers = 0;
  for (std::int64_t i = 0; i < model.shape->layers; ++i)
    if (model.shape->experts.in_layer(i)) ++layers;
  return std::max<std::int64_t>(1, layers);
}

// An expert takes at most so many of each rank's tokens, over the mean (Megatron-LM,
// core/transformer/moe/moe_utils.py, get_capacity, topk_softmax_with_capacity).
Row capped(const Row& row, double capacity) {
  if (capacity <= 0) return row;
  Row kept = row;
  for (double& load : kept)
    load = std::min(load, capacity);
  return kept;
}

// The mean of blocks of `size` experts.
Row of_blocks(const Row& row, std::int64_t size) {
  const auto each = static_cast<std::size_t>(size);
  Row means(row.size() / each, 0.0);
  for (std::size_t i = 0; i < row.size(); ++i)
    means[i / each] += row[i] / static_cast<double>(size);
  return means;
}

void add_to(Row& sums, const Row& row, double weight) {
  sums.resize(row.size(), 0.0);
  for (std::size_t i = 0; i < row.size(); ++i)
    sums[i] += row[i] * weight;
}

class Summary {
 public:
  Summary(const Layout& layout, const Model& model)
      : layout_{layout},
        experts_{model.shape->experts},
        of_rank_{experts_.count / layout.expert_parallel} {}

  ExpertShares of(const std::vector<Row>& rows) {
    const double weight = 1 / static_cast<double>(rows.size());
    for (const Row& row : rows)
      add(row, weight);
    const auto fullest = std::max_element(held_.begin(), held_.end());
    made_.fullest_rank = static_cast<int>(fullest - held_.begin());
    made_.held.come = *fullest;
    const auto first = static_cast<std::ptrdiff_t>(made_.fullest_rank * of_rank_);
    made_.held.sizes.assign(kept_.begin() + first, kept_.begin() + first + of_rank_);
    std::sort(made_.held.sizes.begin(), made_.held.sizes.end(), std::greater{});
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      if (!blocks_[i].empty())
        made_.held.blocks[i] = *std::max_element(blocks_[i].begin(), blocks_[i].end());
    return made_;
  }

 private:
  void add(const Row& row, double weight) {
    const Row kept = capped(row, layout_.expert_capacity);
    made_.dropped += weight * (1 - mean_of(kept));
    const Row come = layout_.pad_to_capacity ? Row(row.size(), layout_.expert_capacity) : kept;
    add_sent(come, weight);
    if (is_fused(layout_.token_dispatcher)) add_tokens(row, kept, weight);
  }

  void add_sent(const Row& come, double weight) {
    if (made_.held.sizes.empty() && kept_.empty()) made_.sent = made_.paced.come = 0;
    made_.sent += weight * mean_of(come);
    const Row ranks = of_blocks(come, of_rank_);
    const auto fullest = std::max_element(ranks.begin(), ranks.end());
    made_.paced.come += weight * *fullest;
    const auto first = (fullest - ranks.begin()) * of_rank_;
    Row sizes(come.begin() + first, come.begin() + first + of_rank_);
    std::sort(sizes.begin(), sizes.end(), std::greater{});
    add_to(made_.paced.sizes, sizes, weight);
    add_to(held_, ranks, weight);
    add_to(kept_, come, weight);
  }

  // Tokens that a fused dispatcher sends once to each rank, and to each node: of blocks of so many
  // ranks, over what even choices would send there.
  void add_tokens(const Row& row, const Row& kept, double weight) {
    Row share(row.size(), 1.0);
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i] > 0) share[i] = kept[i] / row[i];
    const UnevenChoice choice{row, experts_.per_token, std::move(share)};
    const ExpertRouting even{.experts = experts_.count, .per_token = experts_.per_token};
    for (std::size_t i = 0; i < routed_blocks; ++i) {
      const std::int64_t size = of_rank_ << i;
      if (experts_.count % size != 0) break;
      Row tokens = choice.shares_of_blocks(size);
      for (double& each : tokens)
        each /= share_that_chooses(even, size);
      made_.paced.blocks[i] += weight * *std::max_element(tokens.begin(), tokens.end());
      add_to(blocks_[i], tokens, weight);
    }
  }

  const Layout& layout_;
  const Experts& experts_;
  std::int64_t of_rank_;
  ExpertShares made_;
  Row held_, kept_;  // of ranks and of experts: choices that come, mean over rows
  std::array<Row, routed_blocks> blocks_;
};

// Layout::expert_imbalance: every rank gets as many as the fullest, whatever its experts get.
ExpertShares even_shares(const Layout& layout) {
  const double capacity = layout.expert_capacity, fullest = layout.expert_imbalance;
  ExpertShares shares;
  if (capacity > 0) {
    shares.sent = layout.pad_to_capacity ? capacity : std::min(1.0, capacity);
    shares.dropped = 1 - std::min(1.0, capacity);
  }
  shares.paced.come = capacity <= 0            ? fullest
                      : layout.pad_to_capacity ? capacity
                                               : std::min(fullest, capacity);
  shares.held = shares.paced;
  return shares;
}

}  // namespace

std::vector<std::vector<double>> expert_load_rows(const Layout& layout, const Model& model) {
  std::vector<Row> rows;
  if (!layout.expert_load.exists())
    return drawn_load({.experts = model.shape->experts.count,
                       .per_token = model.shape->experts.per_token,
                       .rows = layers_with_experts(model),
                       .cv = layout.expert_load_cv,
                       .seed = static_cast<std::uint64_t>(layout.expert_load_seed)});
  for (const Row& row : layout.expert_load.rows())
    rows.push_back(scaled(row));
  return rows;
}

ExpertShares expert_shares(const Layout& layout, const Model& model) {
  if (!model.has_experts() || !layout.has_uneven_experts()) return even_shares(layout);
  return Summary{layout, model}.of(expert_load_rows(layout, model));
}

}  // namespace sim
