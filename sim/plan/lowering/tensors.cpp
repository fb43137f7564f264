#include "sim/plan/lowering/tensors.hpp"

namespace sim::lowering {

BufferId TensorLifetimes::allocate_buffer(Bytes bytes) {
  const BufferId buffer = builder_.buffer(bytes, BufferCategory::activations);
  holders_.resize(buffer.value + 1);
  holders_[buffer.value] = 1;
  return buffer;
}

Value TensorLifetimes::allocate(Bytes bytes) {
  Value value;
  value.bytes = bytes;
  value.buffer = allocate_buffer(bytes);
  return value;
}

// The holder that is counted here never releases it.
BufferId TensorLifetimes::persistent(Bytes bytes) {
  const BufferId buffer = builder_.buffer(bytes, BufferCategory::communication, true);
  holders_.resize(buffer.value + 1);
  holders_[buffer.value] = 1;
  return buffer;
}

Value TensorLifetimes::in_buffer(BufferId buffer, Bytes bytes) {
  retain(buffer);
  Value value;
  value.buffer = buffer;
  value.bytes = bytes;
  return value;
}

void TensorLifetimes::release(BufferId& buffer, Role role) {
  if (buffer.value == none) return;
  if (--holders_[buffer.value] == 0) {
    builder_.frees(buffer, role);
  } else {
    builder_.reads(buffer, role);
  }
  buffer = BufferId{none};
}

void TensorLifetimes::drop(const Value& value, Role role) {
  BufferId buffer = value.buffer;
  release(buffer, role);
}

void TensorLifetimes::read(const Value& value, Role role) {
  if (value.exists()) builder_.reads(value.buffer, role);
}

void TensorLifetimes::wait_for(const Value& value) {
  if (value.ready.value != none) builder_.wait(Stream::compute, value.ready);
}

}  // namespace sim::lowering
