#include "sim/timeline/stretch_match.hpp"

#include <algorithm>
#include <cmath>

#include "sim/timeline/sequence_match.hpp"

namespace sim {
namespace {

constexpr double cost_left_out = 1;   // of an operator, and of a kernel
constexpr double most_time_cost = 1;  // so much where one takes e times the other's time
constexpr double most_name_cost = 1;

Duration time_of(const RecordedTrack& track, std::uint32_t op) {
  return op < track.spans.size() ? track.spans[op].end - track.spans[op].active : Duration{};
}

}  // namespace

OpKind match_class(OpKind kind) {
  switch (kind) {
    case OpKind::gemm:
    case OpKind::attention:
    case OpKind::norm:
    case OpKind::cross_entropy:
    case OpKind::optimizer:
    case OpKind::collective:
    case OpKind::send:
    case OpKind::recv:
      return kind;
    default:
      return OpKind::elementwise;
  }
}

std::size_t kernels_of(const Program& program, std::uint32_t op) {
  return static_cast<std::size_t>(std::max(1, program.kernels[program.work[op]].launches));
}

void set_match(TrackMatch& match, std::uint32_t op, std::uint32_t kernel) {
  match.in_a[kernel] = op;
  if (match.in_b[op] == no_operator) match.in_b[op] = kernel;
}

void StretchMatcher::set(std::uint32_t op, const std::vector<std::uint32_t>& unit) {
  for (const std::uint32_t kernel : unit)
    set_match(match_, op, kernel);
  ++pairings_[kernels_[unit.front()].name][program_.label[op].name];
}

SequencePairs StretchMatcher::pairs_of(const Stretch& of, const Pairings& known) const {
  const auto ops = static_cast<std::uint32_t>(of.ops.size());
  const auto units = static_cast<std::uint32_t>(of.units.size());
  if (of.ops.size() * of.units.size() > most_sequence_pairs) {
    SequencePairs in_order;
    for (std::uint32_t i = 0; i < std::min(ops, units); ++i)
      in_order.emplace_back(i, i);
    return in_order;
  }
  const auto cost = [&](std::uint32_t i, std::uint32_t j) {
    return cost_of(of.ops[i], of.units[j], known);
  };
  return match_sequences(ops, units, cost, cost_left_out);
}

void StretchMatcher::match_uneven() {
  const Pairings known = pairings_;  // of stretches in which nothing is left out
  // Once to learn which names go together, once to match by them.
  Pairings learned = known;
  for (const Stretch& of : uneven_)
    for (const auto& [i, j] : pairs_of(of, known))
      ++learned[kernels_[of.units[j].front()].name][program_.label[of.ops[i]].name];
  for (const Stretch& of : uneven_)
    for (const auto& [i, j] : pairs_of(of, learned))
      set(of.ops[i], of.units[j]);
  match_left_over();
}

void StretchMatcher::match_left_over() {
  const Pairings known = pairings_;
  for (const Stretch& of : left_over())
    for (const std::vector<std::uint32_t>& unit : of.units) {
      const auto op = std::find_if(of.ops.begin(), of.ops.end(), [&](std::uint32_t i) {
        return match_.in_b[i] == no_operator && name_cost(i, unit, known) < most_name_cost / 2;
      });
      if (op != of.ops.end()) set(*op, unit);
    }
}

// The parts of stretches that have no match yet: by class.
std::vector<Stretch> StretchMatcher::left_over() const {
  std::map<OpKind, Stretch> by_class;
  for (const Stretch& of : uneven_) {
    for (const std::uint32_t op : of.ops)
      if (match_.in_b[op] == no_operator)
        by_class[match_class(program_.kind[op])].ops.push_back(op);
    for (const std::vector<std::uint32_t>& unit : of.units)
      if (match_.in_a[unit.front()] == no_operator)
        by_class[match_class(kernels_[unit.front()].kind)].units.push_back(unit);
  }
  std::vector<Stretch> list;
  for (auto& [kind, stretch] : by_class)
    list.push_back(std::move(stretch));
  return list;
}

// How unlike an operator and kernels are: by their times, and by how often a kernel of that name is
// one of that operator where it is sure.
double StretchMatcher::cost_of(std::uint32_t op, const std::vector<std::uint32_t>& unit,
                               const Pairings& known) const {
  double measured = 0;
  for (const std::uint32_t kernel : unit)
    measured += to_seconds(kernels_[kernel].time());
  const double planned =
      to_seconds(time_of(track_, op)) / static_cast<double>(kernels_of(program_, op));
  double cost = most_time_cost;
  if (measured > 0 && planned > 0)
    cost = std::min(most_time_cost, std::abs(std::log(measured / planned)));
  return cost + (known.count(kernels_[unit.front()].name) > 0 ? name_cost(op, unit, known) : 0);
}

// 0: kernels of the name are always this operator; most_name_cost: never, or none is known.
double StretchMatcher::name_cost(std::uint32_t op, const std::vector<std::uint32_t>& unit,
                                 const Pairings& known) const {
  const auto pairings = known.find(kernels_[unit.front()].name);
  if (pairings == known.end()) return most_name_cost;
  std::size_t all = 0, same = 0;
  for (const auto& [name, count] : pairings->second) {
    all += count;
    if (name == program_.label[op].name) same += count;
  }
  return most_name_cost * (1 - static_cast<double>(same) / static_cast<double>(all));
}

}  // namespace sim
