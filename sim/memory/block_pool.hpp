// The blocks of PyTorch's caching allocator: what it takes from the device, and where it puts what
// is asked for.
//
// Rules: pytorch/pytorch at 001074d2, c10/cuda/CUDACachingAllocator.cpp. Requests are rounded up to
// 512 bytes. Up to 1 MiB they come from segments of 2 MiB; below 10 MiB from segments of 20 MiB;
// above from segments of their own, rounded up to 2 MiB. The smallest free block that is large
// enough is taken, and split if more than 512 bytes (small) or 1 MiB (large) remain. What is given
// back joins its free neighbours. When the device has nothing left, the host waits for it, segments
// that are wholly free are returned to it, and the request is tried again (malloc,
// release_cached_blocks): only what lies in segments that hold something can be too much. Blocks
// belong to the stream that they were made for.
//
// With max_split_size_mb, blocks of that size and more are never split, serve requests of that size
// alone, and exceed them by less than 20 MiB; before anything else is returned to the device, as
// many of them are as the request needs (get_free_block, should_split,
// release_available_cached_blocks).
//
// With expandable segments (expandable_segments:True) small and large blocks of a stream have one
// segment each, which grows at its end by 2 or 20 MiB at a time; every block is split; what is free
// at the end serves only what no other block does; what is returned are free pieces of these sizes,
// and taken anew when their block is.
//
// garbage_collection_threshold does nothing without set_per_process_memory_fraction(), which no
// framework here calls (malloc, set_fraction).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/memory/free_blocks.hpp"

namespace sim {

enum class SegmentForm : std::uint8_t { fixed, expandable };

struct CachedMemory {
  Bytes reserved{};      // the most that was taken from the device
  Bytes allocated{};     // the most that was in use, rounded
  bool fits = true;      // within the capacity; else `reserved` is the least that would have done
  bool limited = false;  // the capacity was met: with more, it would have gone on otherwise
  // The most that was taken just behind a return of segments: what could not be returned, with what
  // was asked for. 0: nothing was ever returned.
  Bytes kept{};
  // How often, in the last step that was replayed, the device had nothing left and got free
  // segments back (torch.cuda.memory_stats, "num_alloc_retries"). Each synchronises the device.
  int retries = 0;
};

// Blocks in use: mostly one, for which nothing is allocated.
class HeldBlocks {
 public:
  using Address = std::int64_t;

  HeldBlocks() = default;
  HeldBlocks(HeldBlocks&& other) noexcept
      : first_{std::exchange(other.first_, none)}, more_{std::exchange(other.more_, {})} {}
  HeldBlocks& operator=(HeldBlocks&& other) noexcept {
    first_ = std::exchange(other.first_, none);
    more_ = std::exchange(other.more_, {});
    return *this;
  }

  bool empty() const { return first_ == none; }
  void push_back(Address address) {
    if (first_ == none) {
      first_ = address;
    } else {
      more_.push_back(address);
    }
  }
  void append(const HeldBlocks& others) {
    others.for_each([&](Address address) { push_back(address); });
  }
  void clear() {
    first_ = none;
    more_.clear();
  }
  template <class Visit>
  void for_each(const Visit& visit) const {
    if (first_ == none) return;
    visit(first_);
    for (const Address address : more_)
      visit(address);
  }

 private:
  static constexpr Address none = -1;
  Address first_ = none;
  std::vector<Address> more_;
};

class BlockPool {
 public:
  using Address = HeldBlocks::Address;
  using Addresses = HeldBlocks;
  static constexpr std::int64_t any_size = std::numeric_limits<std::int64_t>::max();

  // `wait`: what the host does before segments are returned. It may give blocks, and takes none.
  BlockPool(Bytes capacity, SegmentForm form, std::int64_t max_split_size = any_size,
            std::function<void()> wait = {})
      : capacity_{capacity.count()},
        form_{form},
        max_split_size_{max_split_size},
        wait_{std::move(wait)} {}

  // Where the device has no room left after all, it goes on as one that is that much larger.
  Address take(Bytes bytes, int stream = 0);
  void give(Address address);
  void give(Addresses& addresses);  // all of them; none are left

  const CachedMemory& most() const { return most_; }
  void count_retries_anew() { most_.retries = 0; }
  // How often it took from the device, or gave back to it. While that stands still, what is free
  // depends on what is in use alone.
  std::int64_t changes() const { return changes_; }

 private:
  using Index = std::int32_t;
  static constexpr Index none = -1;

  // A piece of a segment, beside its neighbours. Addresses are those of a device that never gives
  // one out twice.
  struct Block {
    std::int64_t address = 0;
    std::int64_t size = 0;
    std::int64_t returned = 0;  // bytes of it that the device has back
    std::int64_t offset = 0;    // in its segment
    Index previous = none, next = none;
    std::int16_t kind = 0;
    bool used = false;
  };
  // Small or large blocks of a stream.
  struct Kind {
    FreeBlocks free;
    Index last = none;  // expandable: at the end of the segment
  };

  static int kind_of(int stream, bool small) { return 2 * stream + (small ? 1 : 0); }
  static bool is_small(int kind) { return kind % 2 == 1; }

  Block& at(Index block) { return blocks_[static_cast<std::size_t>(block)]; }
  const Block& at(Index block) const { return blocks_[static_cast<std::size_t>(block)]; }
  Index find(int kind, std::int64_t size) const;
  Index make(const Block& block);
  void list(Index block);
  void unlist(Index block);
  void absorb(Index one, Index next);
  void split(Index block, std::int64_t size);
  void add_segment(int kind, std::int64_t size);
  void grow(int kind, std::int64_t size);
  std::int64_t missing_for(int kind, std::int64_t size) const;
  bool has_room(std::int64_t bytes) const { return reserved_ + bytes <= capacity_; }
  void return_free();
  void reserve(std::int64_t bytes);
  void return_oversize(int kind, std::int64_t size);
  void return_segment(Index block);
  void return_free_segments();
  void return_free_pieces();

  std::int64_t capacity_, reserved_ = 0, allocated_ = 0, next_address_ = 0, changes_ = 0;
  SegmentForm form_;
  std::int64_t max_split_size_;
  std::function<void()> wait_;
  bool returned_ = false;  // segments, since the last request
  bool retried_ = false;   // the request that is served
  CachedMemory most_;
  std::vector<Block> blocks_;
  std::vector<Index> unused_;  // of blocks_
  std::vector<Kind> kinds_;
};

}  // namespace sim
