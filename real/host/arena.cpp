#include "real/host/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "real/net/out_of_memory.hpp"
#include "sim/base/check.hpp"

namespace real {

namespace {

// Space is reserved, so that a full disk is an error here and not when a page is written.
void* map_file(std::size_t bytes) {
  std::string path = (std::filesystem::temp_directory_path() / "stepcast-states-XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) return MAP_FAILED;
  unlink(path.c_str());
  void* memory = MAP_FAILED;
  if (posix_fallocate(file, 0, static_cast<off_t>(bytes)) == 0)
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory;
}

}  // namespace

void FreeArena::operator()(std::byte* memory) const {
  if (mapped > 0)
    munmap(memory, mapped);
  else
    std::free(memory);
}

// calloc: pages that no operator touches cost nothing, and padding of buckets starts as zeros.
Arena::Arena(std::int64_t bytes, ArenaPlace place) : size_{bytes} {
  SIM_CHECK(bytes >= 0, bytes);
  auto room = static_cast<std::size_t>(bytes + sim::arena_alignment);
  if (place == ArenaPlace::disk && bytes > 0) {
    void* mapped = map_file(room);
    if (mapped == MAP_FAILED) throw OutOfMemory{bytes, "the file of offloaded states"};
    memory_ =
        std::unique_ptr<std::byte, FreeArena>{static_cast<std::byte*>(mapped), FreeArena{room}};
  } else {
    memory_.reset(static_cast<std::byte*>(std::calloc(room, 1)));
  }
  if (memory_ == nullptr) throw OutOfMemory{bytes, "the arena"};
  void* start = memory_.get();
  SIM_CHECK(std::align(static_cast<std::size_t>(sim::arena_alignment),
                       static_cast<std::size_t>(bytes), start, room) != nullptr);
  start_ = static_cast<std::byte*>(start);
}

std::span<std::byte> Arena::bytes(std::int64_t offset, std::int64_t count) {
  SIM_CHECK(offset >= 0 && count >= 0 && offset + count <= size_, offset, count, size_);
  return {start_ + offset, static_cast<std::size_t>(count)};
}

std::span<std::byte> Arena::bytes(const Operand& operand) {
  return bytes(operand.offset, operand.bytes);
}

std::span<float> Arena::floats(const Operand& operand) {
  SIM_CHECK(operand.offset % 4 == 0 && operand.bytes % 4 == 0, operand.offset, operand.bytes);
  const std::span<std::byte> raw = bytes(operand);
  return {reinterpret_cast<float*>(raw.data()), raw.size() / sizeof(float)};
}

std::span<float> Arena::of(const BoundOp& op, sim::Role role) {
  SIM_CHECK(op.operand(role).exists(), static_cast<int>(op.action), static_cast<int>(role));
  return floats(op.operand(role));
}

std::span<float> Arena::maybe(const BoundOp& op, sim::Role role) {
  return op.operand(role).exists() ? floats(op.operand(role)) : std::span<float>{};
}

}  // namespace real
