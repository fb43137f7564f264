// A rank's block of memory and the views of it that operators get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "real/engine/bound_program.hpp"

namespace real {

class Arena {
 public:
  explicit Arena(std::int64_t bytes);  // zeros; throws OutOfMemory
  std::int64_t size() const { return size_; }

  std::span<std::byte> bytes(std::int64_t offset, std::int64_t count);
  std::span<std::byte> bytes(const Operand& operand);
  std::span<float> floats(const Operand& operand);
  // Of an operator: the operand of a role. `of` insists on it, `maybe` gives an empty span.
  std::span<float> of(const BoundOp& op, sim::Role role);
  std::span<float> maybe(const BoundOp& op, sim::Role role);

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::int64_t size_ = 0;
  std::unique_ptr<std::byte, Free> memory_;
  std::byte* start_ = nullptr;  // the first aligned byte of it
};

}  // namespace real
