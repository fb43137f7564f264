#include "tests/unit/plan/chain_rule.hpp"

#include <fmt/format.h>

namespace sim::test {

std::string to_text(const Content& content) {
  return fmt::format("kind {} op {} micro-batch {}{}{}", static_cast<int>(content.kind), content.op,
                     content.microbatch, content.partial ? ", partial" : "",
                     content.whole ? "" : ", sliced");
}

void Interpreter::run() {
  for (std::uint32_t i = 0; i < program_.size(); ++i) {
    now_ = OpId{i};
    INFO("operator " << i << " (" << program_.name(now_) << ") of stage " << program_.stage);
    step(program_.action[i]);
  }
}

void Interpreter::forward() {
  const int at = op();
  const ModelOp& model_op = chain_.at(at);
  const bool again = find(Role::output) == nullptr && model_op.kind == ModelOpKind::attention;
  if (model_op.in_place && find(Role::input) == nullptr) {
    expect(Role::output, output(at - 1, true));
  } else if (find(Role::input) != nullptr) {
    // Where the output was kept, the input need not be gathered.
    const bool may_be_kept = makes_again_ && program_.pass[now_.value] == Pass::recompute &&
                             model_op.kind == ModelOpKind::linear;
    expect(Role::input, output(at - 1, may_be_kept ? held(Role::input).whole : whole_for(at)));
  }
  if (model_op.residual_of >= 0) {
    const int first = chain_.branch_of(at);
    expect(Role::residual, output(first - 1, whole_for(at)));
  }
  if (find(Role::saved) != nullptr) held(Role::saved) = {Kind::saved, at, microbatch()};
  if (model_op.kind == ModelOpKind::cross_entropy) {
    held(Role::target_logit) = {Kind::target, at, microbatch()};
    held(Role::exponential_sum) = {Kind::sum, at, microbatch()};
  } else if (!again) {
    // Where an empty kernel stands for what was kept, that is the sum already.
    const bool kept =
        makes_again_ && sums_output(at) && program_.pass[now_.value] == Pass::recompute;
    const bool partial = sums_output(at) && !kept;
    const bool whole = kept ? whole_after(at) : partial || whole_for(at);
    held(Role::output) = {Kind::output, at, microbatch(), partial, whole};
  }
}

void Interpreter::backward() {
  const int at = op();
  const ModelOp& model_op = chain_.at(at);
  const Content saved{Kind::saved, at, microbatch()};
  expect_if_there(Role::saved, saved);
  if (model_op.kind == ModelOpKind::cross_entropy) {
    expect(Role::saved, saved);
    expect(Role::target_logit, {Kind::target, at, microbatch()});
    expect(Role::exponential_sum, {Kind::sum, at, microbatch()});
    held(Role::input_gradient) = gradient(at - 1, true);
    return;
  }
  expect_if_there(Role::input, output(at - 1, whole_for(at)));
  if (model_op.kind == ModelOpKind::attention) expect(Role::input, output(at - 1, true));
  if (model_op.backward_reads_output) expect(Role::saved_output, output(at, whole_for(at)));
  const bool adds_behind = model_op.residual_of >= 0 && find(Role::residual_gradient) != nullptr;
  if (adds_behind) {  // post-norm: the sum's second part
    const int first = chain_.branch_of(at);
    Content branch = gradient(first - 1, whole_for(at));
    branch.kind = Kind::nothing;
    expect(Role::gradient, branch);
    expect(Role::residual_gradient, gradient(at, whole_for(at)));
    held(Role::input_gradient) = gradient(first - 1, whole_for(at));
    return;
  }
  expect(Role::gradient, gradient(at, whole_for(at)));
  if (chain_.sum_of(at) >= 0) {
    expect(Role::residual_gradient, gradient(chain_.sum_of(at), whole_for(at)));
  }
  if (find(Role::input_gradient) != nullptr) {
    held(Role::input_gradient) = gradient(at - 1, whole_for(at));
  }
  if (find(Role::weight_gradient) != nullptr) ++counted(Role::weight_gradient).written;
}

// A branch that begins with a linear: its input gradient is not all of it yet.
Content Interpreter::linear_input_gradient(int at) const {
  Content made = gradient(at - 1, true);
  if (chain_.sum_of(at) >= 0) made.kind = Kind::nothing;
  return made;
}

void Interpreter::linear_gradients(Action action) {
  const int at = op();
  const ModelOp& model_op = chain_.at(at);
  const bool row_bias = action == Action::bias_gradient && model_op.split == TensorSplit::row;
  expect(Role::gradient, gradient(at, row_bias ? whole_after(at) : whole_for(at)));
  if (action == Action::input_gradient) {
    Content made = linear_input_gradient(at);
    const bool split =
        model_op.split == TensorSplit::column || model_op.split == TensorSplit::vocabulary;
    made.partial = split && layout_.tensor_parallel > 1;
    held(Role::input_gradient) = made;
    return;
  }
  if (action == Action::weight_gradient && !expect_kept_in_8_bits(at))
    expect(Role::input, output(at - 1, whole_for(at)));
  ++counted(Role::weight_gradient).written;
}

bool Interpreter::expect_kept_in_8_bits(int at) {
  if (find(Role::saved) == nullptr || layout_.compute_dtype != DType::fp8) return false;
  expect(Role::saved, {Kind::saved, at, microbatch()});
  return true;
}

void Interpreter::gather(const Content& sliced) {
  if (find(Role::input) == nullptr) {
    REQUIRE(expect_kept_in_8_bits(op()));
  } else {
    expect(Role::input, sliced);
    if (find(Role::saved) != nullptr) held(Role::saved) = {Kind::saved, op(), microbatch()};
  }
  Content whole = sliced;
  whole.whole = true;
  held(Role::output) = whole;
}

// In place, or scattered over the tokens.
void Interpreter::sum(Content partial) {
  partial.partial = true;
  const bool scatters = find(Role::input) != nullptr;
  expect(scatters ? Role::input : Role::output, partial);
  REQUIRE(scatters == layout_.sequence_parallel);
  partial.partial = false;
  partial.whole = !scatters;
  held(Role::output) = partial;
}

void Interpreter::loss_part(Action action) {
  const int at = op();
  const Content maximum{Kind::maximum, at, microbatch()};
  if (action == Action::loss_maximum) {
    expect(Role::input, output(at - 1, true));
    held(Role::maximum) = {Kind::maximum, at, microbatch(), true};
    return;
  }
  expect(Role::maximum, maximum);
  if (find(Role::input) != nullptr) {
    expect(Role::input, output(at - 1, true));
  } else {
    expect(Role::saved, output(at - 1, true));  // the logits, in place
  }
  held(Role::saved) = {Kind::saved, at, microbatch()};
  held(Role::target_logit) = {Kind::target, at, microbatch(), true};
  held(Role::exponential_sum) = {Kind::sum, at, microbatch(), true};
}

void Interpreter::loss_reduction() {
  REQUIRE(held(Role::output).partial);
  held(Role::output).partial = false;
}

// The tensor at a boundary of this stage's chunk, as its label says.
int Interpreter::chunk_begin(int chunk) const {
  const std::size_t layers = chain_.first_of_block.size() - 3;
  const std::size_t per_chunk = layers / static_cast<std::size_t>(layout_.chunks());
  return chain_.first_of_block[1 + per_chunk * static_cast<std::size_t>(chunk)];
}

Content Interpreter::at_boundary(bool receives) const {
  const int chunk = program_.label[now_.value].chunk;
  const bool forward = program_.pass[now_.value] == Pass::forward;
  const int begin = chunk_begin(forward == receives ? chunk : chunk + 1);
  const bool whole = !layout_.sequence_parallel;
  return forward ? output(begin - 1, whole) : gradient(begin - 1, whole);
}

void Interpreter::step(Action action) {
  switch (action) {
    case Action::forward:
      return forward();
    case Action::backward:
      return backward();
    case Action::input_gradient:
    case Action::weight_gradient:
    case Action::bias_gradient:
      return linear_gradients(action);
    case Action::exchange_part:
      return exchange();
    case Action::multiply_part:
      return multiply_part();
    case Action::gradient_part:
      return gradient_part();
    case Action::scatter_part:
      return scatter_part();
    case Action::place_slice:
      return place_slice();
    case Action::pull_slice:
      return pull_slice();
    case Action::sum_slices:
      return sum_slices();
    case Action::loss_maximum:
    case Action::loss_exponentials:
      return loss_part(action);
    case Action::reduce_maximum:
    case Action::reduce_sum:
      return loss_reduction();
    case Action::gather_input:
      return gather(output(op() - 1, false));
    case Action::gather_gradient:
      return gather(gradient(op(), false));
    case Action::sum_output:
      return sum(output(op(), true));
    case Action::sum_gradient:
      return sum(linear_input_gradient(op()));
    case Action::send:
      return expect(Role::input, at_boundary(false));
    case Action::receive:
    case Action::gather_received:
      held(Role::output) = at_boundary(true);
      return;
    case Action::add_weight_gradient:
      return add_gradient();
    case Action::activations_to_host:
    case Action::activations_from_host:
      held(Role::output) = held(Role::input);
      return;
    case Action::gradients_to_host:
    case Action::gradients_from_host:
    case Action::cast_out:
    case Action::reduce:
    case Action::replicate:
    case Action::accumulate:
    case Action::cast_in:
    case Action::compress:
    case Action::exchange_compressed:
    case Action::recompress:
    case Action::decompress:
      return reduction(action);
    case Action::adam:
      return adam();
    default:
      return;
  }
}

}  // namespace sim::test
