#include "tests/unit/plan/chain_rule.hpp"

namespace sim::test {

// A slice of a column's input, or of the gradient of a row's output: the own one at first, then
// what came before. When they have all come, the tensor is whole.
void Interpreter::exchange() {
  const Content own = part_of_input() ? output(op() - 1, false) : gradient(op(), false);
  Content whole = own;
  whole.whole = true;
  const bool first = !(held(Role::input) == whole);
  if (first && part_of_input()) expect(Role::input, own);
  held(Role::output) = whole;
}

// Slices in symmetric memory: the own one of a tensor that is gathered, or in its halves those
// that are made for partners.
void Interpreter::place_slice() {
  const bool backward = find(Role::gradient) != nullptr;
  const Content own = backward ? gradient(op(), false) : output(op() - 1, false);
  expect(backward ? Role::gradient : Role::input, own);
  held(Role::workspace) = held(Role::output) = own;
  came_[find(Role::output)->buffer.value] = {find(Role::output)->part};
}

void Interpreter::pull_slice() {
  const BufferUse& from = *find(Role::input);
  const BufferUse& to = *find(Role::output);
  const bool gathers = from.part == BufferUse::whole;
  const auto half = halves_.find({from.buffer.value, from.part});
  REQUIRE(gathers != (half != halves_.end()));
  add_slice(to, gathers ? held_[from.buffer.value] : half->second);
  if (!gathers) halves_.erase(half);
}

void Interpreter::add_slice(const BufferUse& to, Content content) {
  std::set<std::int16_t>& slices = came_[to.buffer.value];
  REQUIRE(slices.insert(to.part).second);
  content.whole = std::ssize(slices) == layout_.tensor_parallel;
  held_[to.buffer.value] = content;
}

// A product of a slice that has come, or one that is made for a partner or for the rank itself.
void Interpreter::multiply_slice(Role operand_role, Role result_role, Content operand,
                                 Content result) {
  const BufferUse& from = *find(operand_role);
  const BufferUse& to = *find(result_role);
  if (find(Role::saved) != nullptr) held(Role::saved) = {Kind::saved, op(), microbatch()};
  if (from.part != BufferUse::whole) {
    operand.whole = held(operand_role).whole;
    expect(operand_role, operand);
    REQUIRE(came_[from.buffer.value].contains(from.part));
    held(result_role) = result;
    return;
  }
  expect(operand_role, operand);
  result.partial = true;
  if (program_.buffers[to.buffer.value].persistent) {
    REQUIRE(halves_.try_emplace({to.buffer.value, to.part}, result).second);
  } else {
    add_slice(to, result);
  }
}

void Interpreter::sum_slices() {
  Content partial = held(Role::input);
  REQUIRE(partial.partial);
  REQUIRE(partial.whole);
  partial.partial = partial.whole = false;
  held(Role::output) = partial;
}

void Interpreter::multiply_part() {
  const int at = op();
  if (in_slices_)
    return multiply_slice(Role::input, Role::output, output(at - 1, true), output(at, true));
  if (part_of_input()) {
    const bool own = !held(Role::input).whole;
    expect(Role::input, output(at - 1, !own));
  } else {
    expect(Role::input, output(at - 1, true));
  }
  if (find(Role::saved) != nullptr) held(Role::saved) = {Kind::saved, at, microbatch()};
  held(Role::output) = {Kind::output, at, microbatch(), sums_output(at), true};
}

void Interpreter::gradient_part() {
  if (in_slices_)
    return multiply_slice(Role::gradient, Role::input_gradient, gradient(op(), true),
                          linear_input_gradient(op()));
  expect(Role::gradient, gradient(op(), true));
  held(Role::input_gradient) = linear_input_gradient(op());
}

void Interpreter::scatter_part() {
  Content partial = output(op(), true);
  partial.partial = true;
  expect(Role::input, partial);
  held(Role::output) = output(op(), false);
}

}  // namespace sim::test
