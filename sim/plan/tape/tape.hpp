// Tapes: what an operator of a block runs in one of its passes, as data.
//
// The file of a feature writes a tape: steps in the order in which they are issued, each a kernel
// or a collective with what it reads, makes and lets go of. Lowering plays them for each
// micro-batch (tape_player.hpp); it knows nothing of features.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/program/op_work.hpp"

namespace sim {

// TapeValue is a tensor that steps of a tape use, by its number. The first ones come from outside
// or go there; those behind them are made by a step.
using TapeValue = std::uint16_t;
namespace tape_value {
inline constexpr TapeValue input = 0;           // the operator's input, of all tokens that it needs
inline constexpr TapeValue output = 1;          // its output
inline constexpr TapeValue gradient = 2;        // of its output
inline constexpr TapeValue input_gradient = 3;  // of its input, or what a tape adds to it
inline constexpr TapeValue choices = 4;  // weights of the choices of experts, or their gradients
inline constexpr TapeValue chosen = 5;   // no tensor: when the choices are made
inline constexpr TapeValue outside = 6;  // how many there are
}  // namespace tape_value

// TapeAccess is what a step does with a value, or with what the operator keeps for its backward
// pass (Saved).
enum class TapeAccess : std::uint8_t {
  read,
  drop,             // a read, behind which the tape no longer holds the value
  write,            // into what is there
  make,             // a new tensor, in place of what the value was
  scratch,          // a tensor of the step's own
  mark,             // the value, no tensor, is there when the step is done
  after,            // a collective waits for the value, and uses nothing of it
  host_wait,        // the host issues nothing more before the value is there
  read_weight,      // the parameters of the operator
  write_gradient,   // of the operator's own parameters
  reduce_gradient,  // in place, where the step before has written it
  finish_gradient,  // added to that of the step, if the framework does that apart
  // Keeping, in forward passes:
  keep_or_drop,  // the value, as the kept input as far as that reaches
  keep_beside,   // writes what the operator keeps beside its input
  keep_input,    // the value, as the kept input, of which nothing is written here; the same:
  keep_extra,    // ... as what is kept beside it
  keep_keys,     // ... as keys of other ranks
  keep_output,   // ... as the kept output, if the backward pass reads that
  keep_choices,  // the value, or lets go of it
  // And using that, in backward passes:
  take_keys,  // the value is the kept keys from here on
  read_kept_input,
  read_kept_output,
  read_kept_extra,
  release_kept_extra,
  release_choices,
  free_kept,  // all that the operator has kept
};

struct TapeUse {
  TapeAccess access = TapeAccess::read;
  Role role = Role::input;
  TapeValue value = 0;
  Bytes bytes{};  // of what is made
};

// TapeLaunch says what a collective of a tape waits for, and who waits for it.
struct TapeLaunch {
  bool beside = false;         // on the stream of what runs beside compute
  bool behind_kernels = true;  // it waits for all kernels issued before; else for its values alone
  bool awaited = true;         // all kernels issued behind wait for it; else those that use it
};

using TapeWork = std::variant<std::monostate, Kernel, Collective>;

// TapeStep is an operator of the program. Without work it names further uses of the operator
// before it. A kernel waits for the values that it uses.
struct TapeStep {
  TapeWork work{};
  Action action = Action::forward;
  std::string_view suffix{};  // of its name, behind that of the model's operator
  TapeLaunch launch{};
  static constexpr std::size_t most_uses = 6;
  std::array<TapeUse, most_uses> use_{};
  std::size_t used = 0;

  std::span<const TapeUse> uses() const { return {use_.data(), used}; }
  bool has_work() const { return work.index() != 0; }
  TapeStep& use(TapeAccess access, Role role = Role::state, TapeValue value = 0, Bytes bytes = {}) {
    SIM_CHECK(used < most_uses, suffix);
    use_[used++] = {access, role, value, bytes};
    return *this;
  }
  TapeStep& reads(TapeValue value, Role role) { return use(TapeAccess::read, role, value); }
  TapeStep& drops(TapeValue value, Role role) { return use(TapeAccess::drop, role, value); }
  TapeStep& writes(TapeValue value, Role role) { return use(TapeAccess::write, role, value); }
  TapeStep& makes(TapeValue value, Role role, Bytes bytes) {
    return use(TapeAccess::make, role, value, bytes);
  }
  TapeStep& takes(Bytes bytes) { return use(TapeAccess::scratch, Role::workspace, 0, bytes); }
  TapeStep& reads_weight() { return use(TapeAccess::read_weight, Role::weight); }
};

struct Tape {
  std::vector<TapeStep> steps{};
  TapeValue values = tape_value::outside;  // how many there are
  TapeValue result = tape_value::input;    // stands for the operator's tensor at the end

  TapeValue tensor() { return values++; }
  TapeStep& add(TapeWork work, Action action, std::string_view suffix) {
    return steps.emplace_back(TapeStep{std::move(work), action, suffix});
  }
  // Further uses of the operator before.
  TapeStep& behind() { return steps.emplace_back(); }
};

}  // namespace sim
