// Tapes: what an operator of a block runs in one of its passes, as data.
//
// The file of a feature writes a tape: steps in the order in which they are issued, each a kernel
// or a collective with what it reads, makes and lets go of. Lowering puts the work of tapes into
// the tables of its program (tape_work.hpp) and plays them for each micro-batch (tape_player.hpp);
// neither knows of features.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sim/program/op_work.hpp"

namespace sim {

// TapeValue is a tensor that steps of a tape use, by its number. The first ones come from outside
// or go there; those behind them are made by a step.
using TapeValue = std::uint8_t;
namespace tape_value {
inline constexpr TapeValue input = 0;           // the operator's input, of all tokens that it needs
inline constexpr TapeValue output = 1;          // its output
inline constexpr TapeValue gradient = 2;        // of its output
inline constexpr TapeValue input_gradient = 3;  // of its input, or what a tape adds to it
inline constexpr TapeValue outside = 4;         // how many there are
}  // namespace tape_value

// TapeAccess is what a step does with a value, or with what the operator has besides.
enum class TapeAccess : std::uint8_t {
  read,
  drop,             // a read, behind which the tape no longer holds the value
  write,            // into what is there
  make,             // a new tensor
  scratch,          // a tensor of the step's own
  read_weight,      // the parameters of the operator
  read_kept,        // what the operator has kept beside its input
  free_kept,        // all that it has kept
  write_gradient,   // of the operator's own parameters
  reduce_gradient,  // in place, where the step before has written it
  finish_gradient,  // added to that of the step, if the framework does that apart
};

struct TapeUse {
  TapeAccess access = TapeAccess::read;
  Role role = Role::input;
  TapeValue value = 0;
};

// TapeStep is an operator of the program. Without work it names further uses of the operator
// before it.
struct TapeStep {
  std::variant<std::monostate, Kernel, Collective> work{};
  Action action = Action::forward;
  std::string suffix{};  // of its name, behind that of the model's operator
  std::vector<TapeUse> uses{};

  bool has_work() const { return work.index() != 0; }
  TapeStep& use(TapeAccess access, Role role = Role::state, TapeValue value = 0) {
    uses.push_back({access, role, value});
    return *this;
  }
  TapeStep& reads(TapeValue value, Role role) { return use(TapeAccess::read, role, value); }
  TapeStep& drops(TapeValue value, Role role) { return use(TapeAccess::drop, role, value); }
  TapeStep& writes(TapeValue value, Role role) { return use(TapeAccess::write, role, value); }
  TapeStep& makes(TapeValue value, Role role) { return use(TapeAccess::make, role, value); }
  TapeStep& takes(TapeValue value) { return use(TapeAccess::scratch, Role::workspace, value); }
  TapeStep& reads_weight() { return use(TapeAccess::read_weight, Role::weight); }
};

struct Tape {
  // Of values that steps make, by their numbers.
  std::vector<Bytes> bytes = std::vector<Bytes>(tape_value::outside);
  std::vector<TapeStep> steps;

  TapeValue tensor(Bytes size) {
    bytes.push_back(size);
    return static_cast<TapeValue>(bytes.size() - 1);
  }
  TapeStep& add(std::variant<std::monostate, Kernel, Collective> work, Action action,
                std::string suffix) {
    return steps.emplace_back(TapeStep{std::move(work), action, std::move(suffix)});
  }
  // Further uses of the operator before.
  TapeStep& behind() { return steps.emplace_back(); }
};

}  // namespace sim
