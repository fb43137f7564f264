// The blocks of PyTorch's caching allocator: what it takes from the device, and where it puts what
// is asked for.
//
// Rules: PyTorch, c10/cuda/CUDACachingAllocator.cpp. Requests are rounded up to 512 bytes. Up to 1
// MiB they come from segments of 2 MiB; below 10 MiB from segments of 20 MiB; above from segments
// of their own, rounded up to 2 MiB. The smallest free block that is large enough is taken, and
// split if more than 512 bytes (small) or 1 MiB (large) remain. What is given back joins its free
// neighbours. When the device has nothing left, segments that are wholly free are returned to it.
// Blocks belong to the stream that they were made for.
//
// With expandable segments (expandable_segments:True) small and large blocks of a stream have one
// segment each, which grows at its end by 2 or 20 MiB at a time; every block is split; what is
// returned are free pieces of these sizes, and taken anew when their block is.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "sim/base/units.hpp"

namespace sim {

enum class SegmentForm : std::uint8_t { fixed, expandable };

struct CachedMemory {
  Bytes reserved{};   // the most that was taken from the device
  Bytes allocated{};  // the most that was in use, rounded
  bool fits = true;   // within the capacity
  // How often, in the last step that was replayed, the device had nothing left and got free
  // segments back (torch.cuda.memory_stats, "num_alloc_retries"). Each synchronises the device.
  int retries = 0;
};

class BlockPool {
 public:
  using Address = std::int64_t;
  using Addresses = std::vector<Address>;

  BlockPool(Bytes capacity, SegmentForm form) : capacity_{capacity.count()}, form_{form} {}

  // Nothing where the device has no room left.
  std::optional<Address> take(Bytes bytes, int stream = 0);
  void give(Address address);
  void give(Addresses& addresses);  // all of them; none are left

  const CachedMemory& most() const { return most_; }
  void count_retries_anew() { most_.retries = 0; }

 private:
  // Of a stream: small or large ones.
  struct Kind {
    int stream = 0;
    bool small = false;
    auto operator<=>(const Kind&) const = default;
  };
  // A piece of a segment. Addresses are those of a device that never gives one out twice.
  struct Block {
    std::int64_t size = 0;
    std::int64_t segment = 0;   // its first address
    std::int64_t returned = 0;  // bytes of it that the device has back
    Kind kind;
    bool used = false;
  };
  using Blocks = std::map<Address, Block>;
  using Free = std::tuple<Kind, std::int64_t, Address>;  // by size

  std::optional<Address> find(const Kind& kind, std::int64_t size) const;
  bool joins(Blocks::iterator one, Blocks::iterator next) const;
  void absorb(Blocks::iterator one, Blocks::iterator next);
  void split(Address address, std::int64_t size);
  bool make_room(const Kind& kind, std::int64_t size);
  bool add_segment(const Kind& kind, std::int64_t size);
  bool grow(const Kind& kind, std::int64_t size);
  bool reserve(std::int64_t bytes);
  void return_free_segments();
  void return_free_pieces();
  void list(Blocks::iterator block) {
    free_.insert({block->second.kind, block->second.size, block->first});
  }
  void unlist(Blocks::iterator block) {
    free_.erase({block->second.kind, block->second.size, block->first});
  }

  std::int64_t capacity_, reserved_ = 0, allocated_ = 0, next_address_ = 0;
  SegmentForm form_;
  CachedMemory most_;
  Blocks blocks_;  // by address
  std::map<std::int64_t, std::int64_t> segments_;
  std::map<Kind, std::int64_t> end_;  // of the segment that grows
  std::set<Free> free_;
};

}  // namespace sim
