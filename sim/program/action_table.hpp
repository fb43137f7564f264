// The table of actions: what an operator that does something reads, writes and means. Planner,
// engines and the checks of plans ask it.
#pragma once

#include <cstdint>

#include "sim/program/operators.hpp"

namespace sim {

// RoleSet is a bit for each Role.
using RoleSet = std::uint32_t;
constexpr RoleSet role_bit(Role role) {
  return RoleSet{1} << static_cast<unsigned>(role);
}
static_assert(role_count <= 32);

// ActionSubject is what Program::subject counts for an operator.
enum class ActionSubject : std::uint8_t { none, site, bucket };

// Written says which elements of what an operator writes mean something.
enum class Written : std::uint8_t {
  all,
  of_bucket,  // nothing writes the padding of a bucket
  message,    // none: integers, signs, places of a message or of the host
};

// Combination says how a collective puts together what the members of its group bring.
enum class Combination : std::uint8_t { sum, average, maximum };

struct ActionRow {
  Action action = Action::forward;
  ActionSubject subject = ActionSubject::none;
  RoleSet needed = 0;    // operands that an operator must have
  RoleSet possible = 0;  // those that it may have besides
  Written written = Written::all;
  Combination combination = Combination::sum;
};

const ActionRow& action_row(Action action);

}  // namespace sim
