#include "real/engine/kernels/routing_table.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "real/engine/operator_facts.hpp"
#include "sim/base/check.hpp"

namespace real {

using sim::Action;
using sim::Role;

namespace {

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

std::int64_t sum_of(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

RoutingTable::RoutingTable(const RoutingShape& shape)
    : shape_{shape},
      experts_(index(shape.copies())),
      rows_(index(shape.copies()), dropped),
      chosen_(index(shape.experts)),
      sent_(index(shape.experts)),
      came_(index(shape.shares * shape.parts * shape.held())),
      held_(index(shape.held())) {}

std::span<std::int32_t> RoutingTable::experts_of(std::int64_t token) {
  return std::span{experts_}.subspan(index(token * shape_.per_token), index(shape_.per_token));
}

std::span<const std::int32_t> RoutingTable::experts_of(std::int64_t token) const {
  return std::span{experts_}.subspan(index(token * shape_.per_token), index(shape_.per_token));
}

void RoutingTable::place(std::span<const float> weights) {
  std::fill(chosen_.begin(), chosen_.end(), 0);
  std::fill(rows_.begin(), rows_.end(), 0);
  for (const std::int32_t expert : experts_)
    ++chosen_[index(expert)];
  sent_ = chosen_;
  if (shape_.capacity > 0) drop(weights);
  std::vector<std::int64_t> next(sent_.size(), 0);
  std::exclusive_scan(sent_.begin(), sent_.end(), next.begin(), std::int64_t{0});
  for (std::size_t copy = 0; copy < rows_.size(); ++copy)
    if (rows_[copy] != dropped) rows_[copy] = next[index(experts_[copy])]++;
  if (shape_.parts > 1) return;
  std::copy(sent_.begin(), sent_.end(), came(shape_.share, 0).begin());
  if (shape_.shares == 1) arrive();
}

void RoutingTable::drop(std::span<const float> weights) {
  SIM_CHECK(weights.size() == rows_.size(), weights.size(), rows_.size());
  std::vector<std::size_t> copies;
  for (std::int64_t expert = 0; expert < shape_.experts; ++expert) {
    if (chosen_[index(expert)] > shape_.capacity) {
      copies.clear();
      for (std::size_t copy = 0; copy < rows_.size(); ++copy)
        if (experts_[copy] == expert) copies.push_back(copy);
      std::stable_sort(copies.begin(), copies.end(),
                       [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
      for (std::size_t i = index(shape_.capacity); i < copies.size(); ++i)
        rows_[copies[i]] = dropped;
    }
    sent_[index(expert)] =
        shape_.padded ? shape_.capacity : std::min(chosen_[index(expert)], shape_.capacity);
  }
}

std::int64_t RoutingTable::rows_sent() const {
  return sum_of(sent_);
}

std::span<std::int64_t> RoutingTable::came(std::int64_t share, std::int64_t part) {
  return std::span{came_}.subspan(index((share * shape_.parts + part) * shape_.held()),
                                  index(shape_.held()));
}

std::span<std::int64_t> RoutingTable::came(std::int64_t share) {
  return std::span{came_}.subspan(index(share * shape_.parts * shape_.held()),
                                  index(shape_.parts * shape_.held()));
}

std::int64_t RoutingTable::rows_came(std::int64_t share, std::int64_t part) const {
  return sum_of(std::span{came_}.subspan(index((share * shape_.parts + part) * shape_.held()),
                                         index(shape_.held())));
}

std::int64_t RoutingTable::rows_came(std::int64_t share) const {
  return sum_of(std::span{came_}.subspan(index(share * shape_.parts * shape_.held()),
                                         index(shape_.parts * shape_.held())));
}

void RoutingTable::arrive() {
  const std::int64_t held = shape_.held();
  std::vector<std::int64_t> first(came_.size(), 0);
  std::exclusive_scan(came_.begin(), came_.end(), first.begin(), std::int64_t{0});
  order_.clear();
  for (std::int64_t expert = 0; expert < held; ++expert) {
    const std::size_t before = order_.size();
    for (std::size_t at = index(expert); at < came_.size(); at += index(held))
      for (std::int64_t i = 0; i < came_[at]; ++i)
        order_.push_back(first[at] + i);
    held_[index(expert)] = static_cast<std::int64_t>(order_.size() - before);
  }
}

bool is_of_experts(const BoundOp& op) {
  if (op.model_op == nullptr) return false;
  if (op.action == Action::choose || op.action == Action::choose_backward) return true;
  return op.model_op->experts > 0 || op.model_op->kind == sim::ModelOpKind::dispatch ||
         op.model_op->kind == sim::ModelOpKind::combine;
}

RoutingTables::RoutingTables(const BoundProgram& program, RouterScore score)
    : program_{program}, score_{score} {
  constexpr auto size = std::int64_t{sizeof(float)};
  for (const BoundOp& op : program.ops) {
    if (op.action != Action::choose || entries_.contains(key_of(op))) continue;
    Entry& made = entries_[key_of(op)];
    made.table = std::make_unique<RoutingTable>(shape_of(op));
    made.planned_sent = made.planned_came = op.operand(Role::choice_weights).bytes / size;
    loads_[key_of(op).first].assign(index(made.table->shape().experts), 0);
  }
  for (const BoundOp& op : program.ops) {
    if (op.collective == nullptr || op.action != Action::exchange_tokens ||
        op.collective->kind != sim::CollectiveKind::all_to_all || !is_to_experts(op))
      continue;
    Entry& known = entries_.at(key_of(op));
    const std::int64_t row = op.operand(Role::input).bytes / known.planned_sent;
    known.planned_came = op.operand(Role::output).bytes / row;
  }
}

RoutingShape RoutingTables::shape_of(const BoundOp& chooses) const {
  const sim::Experts& experts = program_.model->shape->experts;
  const sim::Layout& layout = program_.plan->layout;
  const auto position = [&](sim::GroupRole role) {
    return std::int64_t{program_.groups[static_cast<std::size_t>(role)].position};
  };
  RoutingShape shape{.per_token = experts.per_token,
                     .experts = experts.count,
                     .groups = experts.groups,
                     .groups_per_token = experts.groups_per_token,
                     .parts = layout.expert_parallel,
                     .shares = layout.expert_tensor(),
                     .padded = layout.pad_to_capacity};
  if (shape.parts > 1) shape.part = position(sim::GroupRole::expert);
  if (shape.shares > 1) shape.share = position(sim::GroupRole::expert_tensor);
  shape.tokens = chooses.operand(Role::input).bytes /
                 (experts.count * static_cast<std::int64_t>(sizeof(float)));
  if (layout.expert_capacity > 0)
    shape.capacity = std::llround(static_cast<double>(shape.copies()) * layout.expert_capacity /
                                  static_cast<double>(experts.count));
  return shape;
}

RoutingTables::Key RoutingTables::key_of(const BoundOp& op) const {
  const auto at = static_cast<std::size_t>(&op - program_.ops.data());
  return {program_.program->label[at].layer, op.microbatch};
}

const RoutingTables::Entry& RoutingTables::entry(const BoundOp& op) const {
  const auto found = entries_.find(key_of(op));
  SIM_CHECK(found != entries_.end(), key_of(op).first, key_of(op).second);
  return found->second;
}

RoutingTable& RoutingTables::of(const BoundOp& op) {
  return *entry(op).table;
}

std::int64_t RoutingTables::planned_sent(const BoundOp& op) const {
  return entry(op).planned_sent;
}

std::int64_t RoutingTables::planned_came(const BoundOp& op) const {
  return entry(op).planned_came;
}

void RoutingTables::begin_step() {
  for (auto& [layer, tokens] : loads_)
    std::fill(tokens.begin(), tokens.end(), 0);
}

// Counts the choices of forward passes alone: a recomputation chooses the same again.
void RoutingTables::count(const BoundOp& op) {
  if (op.pass != sim::Pass::forward) return;
  std::vector<std::int64_t>& to = loads_.at(key_of(op).first);
  const std::span<const std::int64_t> chosen = entry(op).table->chosen();
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] += chosen[i];
}

std::vector<LayerLoad> RoutingTables::loads() const {
  std::vector<LayerLoad> loads;
  for (const auto& [layer, tokens] : loads_)
    loads.push_back({layer, tokens});
  return loads;
}

}  // namespace real
