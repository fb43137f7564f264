// Tensors of a rank while it is lowered: who holds their buffers, and when these are freed.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/program_builder.hpp"

namespace sim::lowering {

inline constexpr std::uint32_t none = UINT32_MAX;  // no buffer, operator, kernel or bucket

// A tensor on its way through the chain of operators: one holder of its buffer. Who keeps it
// besides (a saved input, the residual sum, a checkpoint) holds it too; the last to let go of it
// frees it.
struct Value {
  BufferId buffer{none};
  Bytes bytes{};
  OpId ready{none};  // the operator that finishes it
  bool exists() const { return buffer.value != none; }
};

class TensorLifetimes {
 public:
  explicit TensorLifetimes(ProgramBuilder& builder) : builder_{builder} {}

  // A new activation with one holder.
  BufferId allocate_buffer(Bytes bytes);
  Value allocate(Bytes bytes);
  // A buffer of communication that is never freed, and a tensor that lies in it.
  BufferId persistent(Bytes bytes);
  Value in_buffer(BufferId buffer, Bytes bytes);

  // How many hold it; 0: it is not counted.
  int holders_of(BufferId buffer) const {
    return buffer.value < holders_.size() ? holders_[buffer.value] : 0;
  }
  // Adds a holder.
  void retain(BufferId buffer) { ++holders_[buffer.value]; }
  // The operator added last reads the buffer in this role, and one of its holders is done with it;
  // the last one frees it. Does nothing where there is no buffer.
  void release(BufferId& buffer, Role role);
  void drop(const Value& value, Role role);
  void read(const Value& value, Role role);
  // The next kernel starts when the value is there.
  void wait_for(const Value& value);

 private:
  ProgramBuilder& builder_;
  std::vector<std::uint16_t> holders_;  // of each buffer that is not a persistent one
};

}  // namespace sim::lowering
