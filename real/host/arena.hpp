// A rank's block of memory and the views of it that operators get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "real/engine/bound_program.hpp"

namespace real {

enum class ArenaPlace : std::uint8_t { memory, disk };

// Frees what an arena has.
struct FreeArena {
  std::size_t mapped = 0;  // bytes of a file; zero: allocated
  void operator()(std::byte* memory) const;
};

class Arena {
 public:
  // Zeros; throws OutOfMemory. On disk: a file without a name in the folder of temporary files,
  // mapped.
  explicit Arena(std::int64_t bytes, ArenaPlace place = ArenaPlace::memory);
  std::int64_t size() const { return size_; }

  std::span<std::byte> bytes(std::int64_t offset, std::int64_t count);
  std::span<std::byte> bytes(const Operand& operand);
  std::span<float> floats(const Operand& operand);
  // The operand of a role of an operator. `of` insists on it, `maybe` gives an empty span.
  std::span<float> of(const BoundOp& op, sim::Role role);
  std::span<float> maybe(const BoundOp& op, sim::Role role);

 private:
  std::int64_t size_ = 0;
  std::unique_ptr<std::byte, FreeArena> memory_;
  std::byte* start_ = nullptr;  // the first aligned byte of it
};

}  // namespace real
