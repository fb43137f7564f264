#include "sim/plan/block/saved_tensors.hpp"

#include <utility>

#include "sim/base/check.hpp"

namespace sim::lowering {

// An operator saves its input as far as that holds the tensors that it needs (Korthikanti et al.
// 2022, section 4.1): then the input lives on. The rest is written beside it. The operator added
// last is the reader.
void SavedTensors::keep_or_free(Frame& frame, std::size_t i, const Value& x) {
  const ShardedOp& op = frame.shape->ops[i];
  Bytes rest = op.saved;
  if (!frame.kept->makes_core_again(i)) rest += op.attention_saved;
  if (op.op->in_place && !is_held(frame, i)) return keep_beside(frame, i, rest);
  const bool fits = x.exists() && x.bytes.count() <= rest.count();
  if (!frame.keep || !fits || input_comes_again(frame, i)) {
    tensors_.drop(x, Role::input);
  } else {
    tensors_.read(x, Role::input);
    frame.saved[i].input = x.buffer;
  }
  if (fits) rest -= x.bytes;
  keep_beside(frame, i, rest);
}

void SavedTensors::keep_beside(Frame& frame, std::size_t i, Bytes bytes) {
  if (!(frame.keep || holds_output(frame, i)) || bytes.count() == 0) return;
  frame.saved[i].extra = tensors_.allocate_buffer(bytes);
  builder_.writes(frame.saved[i].extra, Role::saved);
}

// The linear behind keeps the same tensor as its input; it lives until both have read it.
void SavedTensors::keep_output(Frame& frame, std::size_t i, const Value& out) {
  if (!frame.keep || !frame.shape->ops[i].op->backward_reads_output) return;
  tensors_.retain(out.buffer);
  frame.saved[i].output = out.buffer;
}

// Recomputation by operators: what is kept of an operator beside its input, from its forward pass
// on.
bool SavedTensors::holds_output(const Frame& frame, std::size_t i) {
  return !frame.keep && frame.kept->holds_output(i);
}

// Whether the input of an operator is such an output: nothing may be written in its place.
bool SavedTensors::is_held(const Frame& frame, std::size_t i) {
  return i > 0 && holds_output(frame, i - 1);
}

bool SavedTensors::input_comes_again(const Frame& frame, std::size_t i) {
  return frame.pass == Pass::forward && frame.kept->makes_input_again(i);
}

// It takes the place of what the operator would make again.
Value SavedTensors::held_output(Frame& frame, std::size_t i, const Value& x) {
  const ShardedOp& op = frame.shape->ops[i];
  SIM_CHECK(x.exists() && x.bytes.count() <= (op.saved + op.attention_saved).count(), op.op->name);
  frame.saved[i].input = x.buffer;
  Value out = std::exchange(frame.saved[i].held, {});
  out.ready = x.ready;
  keep_output(frame, i, out);
  return out;
}

void SavedTensors::free_loss(Saved& saved) {
  if (saved.target_logit.value == none) return;
  free_saved(saved);
  tensors_.release(saved.target_logit, Role::target_logit);
  tensors_.release(saved.exponential_sum, Role::exponential_sum);
  tensors_.release(saved.maximum, Role::maximum);
}

void SavedTensors::free_saved(Saved& saved) {
  // Beside what was kept, a core that was computed again is scratch.
  const Role core = saved.extra.value == none ? Role::saved : Role::workspace;
  tensors_.release(saved.input, Role::input);
  tensors_.release(saved.extra, Role::saved);
  tensors_.release(saved.core, core);
  tensors_.release(saved.output, Role::saved_output);
  tensors_.release(saved.keys, Role::keys);
}

}  // namespace sim::lowering
