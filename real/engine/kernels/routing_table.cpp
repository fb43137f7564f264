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

constexpr auto word_bytes = static_cast<std::int64_t>(sizeof(std::int32_t));

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

std::int64_t sum_of(RoutingTable::Counts counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

RoutingTable::RoutingTable(const RoutingShape& shape, std::int64_t room_sent,
                           std::int64_t room_arrived)
    : tokens_{.shape = shape, .room_sent = room_sent, .room_arrived = room_arrived} {}

std::int64_t RoutingTable::counts_bytes() const {
  return static_cast<std::int64_t>(counts_size()) * word_bytes;
}

std::int64_t RoutingTable::rest_bytes() const {
  return (3 * shape().copies() + tokens_.room_sent + tokens_.room_arrived) * word_bytes;
}

void RoutingTable::lie_at(std::byte* counts, std::byte* rest, const std::byte* known) {
  auto* at = reinterpret_cast<std::int32_t*>(counts);
  tokens_.chosen = at;
  tokens_.sent = at + shape().experts;
  tokens_.came = at + 2 * shape().experts;
  tokens_.arrived = tokens_.came + shape().sources() * shape().held();
  tokens_.experts = reinterpret_cast<std::int32_t*>(rest);
  tokens_.rows = tokens_.experts + shape().copies();
  tokens_.copies = tokens_.rows + shape().copies();
  tokens_.order = tokens_.copies + tokens_.room_sent;
  tokens_.weights = reinterpret_cast<float*>(tokens_.order + tokens_.room_arrived);
  known_ = reinterpret_cast<const std::int32_t*>(known);
}

RoutingTable::Counts RoutingTable::came(std::int64_t share, std::int64_t part) const {
  return counts().subspan(2 * experts() + index((share * shape().parts + part) * shape().held()),
                          index(shape().held()));
}

std::int64_t RoutingTable::rows_sent(std::int64_t first, std::int64_t experts) const {
  return sum_of(sent().subspan(index(first), index(experts)));
}

std::int64_t RoutingTable::rows_came(std::int64_t share, std::int64_t part) const {
  return sum_of(came(share, part));
}

std::int64_t RoutingTable::rows_came(std::int64_t share) const {
  std::int64_t rows = 0;
  for (std::int64_t part = 0; part < shape().parts; ++part)
    rows += rows_came(share, part);
  return rows;
}

std::int64_t RoutingTable::rows_of(std::int64_t expert) const {
  std::int64_t rows = 0;
  for (std::int64_t share = 0; share < shape().shares; ++share)
    for (std::int64_t part = 0; part < shape().parts; ++part)
      rows += came(share, part)[index(expert)];
  return rows;
}

bool is_of_experts(const BoundOp& op) {
  if (op.model_op == nullptr) return false;
  if (op.action == Action::choose || op.action == Action::choose_backward) return true;
  return op.model_op->experts > 0 || op.model_op->kind == sim::ModelOpKind::dispatch ||
         op.model_op->kind == sim::ModelOpKind::combine;
}

RoutingTables::RoutingTables(const BoundProgram& program, RouterScore score)
    : program_{program}, score_{score} {
  measure_rooms();
  for (const BoundOp& op : program.ops) {
    if (op.action != Action::choose) continue;
    Entry& made = entries_.at(key_of(op));
    if (made.table) continue;
    const RoutingShape shape = shape_of(op);
    made.table =
        std::make_unique<RoutingTable>(shape, made.planned_sent, shape.shares * made.planned_came);
  }
}

void RoutingTables::measure_rooms() {
  for (const BoundOp& op : program_.ops) {
    if (op.action != Action::choose) continue;
    Entry& made = entries_[key_of(op)];
    made.planned_sent = made.planned_came =
        op.operand(Role::choice_weights).bytes / static_cast<std::int64_t>(sizeof(float));
  }
  for (const BoundOp& op : program_.ops) {
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
  shape.tokens =
      chooses.operand(Role::input).bytes / (experts.count * sim::bytes_of(layout.activation_dtype));
  if (layout.expert_capacity > 0)
    shape.capacity = std::llround(static_cast<double>(shape.copies()) * layout.expert_capacity /
                                  static_cast<double>(experts.count));
  return shape;
}

std::int64_t RoutingTables::counts_bytes() const {
  std::int64_t bytes = 0;
  for_each([&](const RoutingTable& table) { bytes += table.counts_bytes(); });
  return bytes;
}

std::int64_t RoutingTables::bytes() const {
  std::int64_t bytes = counts_bytes();
  for_each([&](const RoutingTable& table) { bytes += table.rest_bytes(); });
  return bytes;
}

void RoutingTables::lie_at(std::byte* memory, const std::byte* known) {
  std::byte* rest = memory + counts_bytes();
  for_each([&](RoutingTable& table) {
    table.lie_at(memory, rest, known);
    memory += table.counts_bytes();
    known += table.counts_bytes();
    rest += table.rest_bytes();
  });
}

void RoutingTables::lie_on_host() {
  memory_.assign(index(bytes() / static_cast<std::int64_t>(sizeof(std::int64_t)) + 1), 0);
  auto* memory = reinterpret_cast<std::byte*>(memory_.data());
  lie_at(memory, memory);
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

RoutingTable& RoutingTables::of(const BoundOp& op) const {
  return *entry(op).table;
}

std::int64_t RoutingTables::planned_sent(const BoundOp& op) const {
  return entry(op).planned_sent;
}

std::int64_t RoutingTables::planned_came(const BoundOp& op) const {
  return entry(op).planned_came;
}

// As long as what is planned at their start, or at their end, tells.
std::int64_t RoutingTables::row_bytes(const BoundOp& exchange) const {
  const bool to_all = exchange.collective->kind == sim::CollectiveKind::all_to_all;
  const std::int64_t planned = to_all ? planned_sent(exchange) : planned_came(exchange);
  const std::int64_t bytes =
      exchange.operand(is_to_experts(exchange) ? Role::input : Role::output).bytes;
  SIM_CHECK(planned > 0 && bytes % planned == 0, bytes, planned);
  return bytes / planned;
}

std::vector<LayerLoad> RoutingTables::loads() const {
  std::vector<LayerLoad> loads;
  for (const auto& [key, entry] : entries_) {
    const RoutingTable::Counts chosen = entry.table->chosen();
    if (loads.empty() || loads.back().layer != key.first)
      loads.push_back({key.first, std::vector<std::int64_t>(chosen.size(), 0)});
    for (std::size_t i = 0; i < chosen.size(); ++i)
      loads.back().tokens[i] += chosen[i];
  }
  return loads;
}

}  // namespace real
