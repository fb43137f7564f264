#include "sim/plan/caching_allocator.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace sim {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;
constexpr std::int64_t least_block = 512;
constexpr std::int64_t small_request = mib;
constexpr std::int64_t small_segment = 2 * mib;
constexpr std::int64_t large_segment = 20 * mib;
constexpr std::int64_t least_own_segment = 10 * mib;
constexpr std::int64_t own_segment_unit = 2 * mib;

std::int64_t round_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::int64_t block_size(std::int64_t request) {
  return std::max(least_block, round_up(request, least_block));
}

std::int64_t segment_size(std::int64_t block) {
  if (block <= small_request) return small_segment;
  return block < least_own_segment ? large_segment : round_up(block, own_segment_unit);
}

// A piece of a segment. Addresses are those of a device that never gives one out twice.
struct Block {
  std::int64_t size = 0;
  std::int64_t segment = 0;  // its first address
  bool small = false, used = false;
};

class Allocator {
 public:
  explicit Allocator(std::int64_t capacity) : capacity_{capacity} {}

  // The address, or nothing where the device has no room left.
  std::optional<std::int64_t> take(Bytes bytes) {
    const std::int64_t size = block_size(bytes.count());
    const bool small = size <= small_request;
    auto found = free_.lower_bound({small, size, 0});
    if (found == free_.end() || std::get<0>(*found) != small) {
      if (!add_segment(segment_size(size), small)) return std::nullopt;
      found = free_.lower_bound({small, size, 0});
    }
    const std::int64_t address = std::get<2>(*found);
    free_.erase(found);
    split(address, size);
    blocks_.at(address).used = true;
    allocated_ += blocks_.at(address).size;
    most_.allocated = Bytes{std::max(most_.allocated.count(), allocated_)};
    return address;
  }

  void give(std::int64_t address) {
    auto at = blocks_.find(address);
    at->second.used = false;
    allocated_ -= at->second.size;
    if (const auto next = std::next(at); joins(at, next)) absorb(at, next);
    if (at != blocks_.begin() && joins(std::prev(at), at)) {
      at = std::prev(at);
      absorb(at, std::next(at));
    }
    free_.insert({at->second.small, at->second.size, at->first});
  }

  const CachedMemory& most() const { return most_; }

 private:
  using Blocks = std::map<std::int64_t, Block>;

  bool joins(Blocks::iterator one, Blocks::iterator next) const {
    return next != blocks_.end() && one->second.segment == next->second.segment &&
           !one->second.used && !next->second.used;
  }

  // Either may be in the list of free blocks.
  void absorb(Blocks::iterator one, Blocks::iterator next) {
    free_.erase({one->second.small, one->second.size, one->first});
    free_.erase({next->second.small, next->second.size, next->first});
    one->second.size += next->second.size;
    blocks_.erase(next);
  }

  void split(std::int64_t address, std::int64_t size) {
    Block& block = blocks_.at(address);
    const std::int64_t rest = block.size - size;
    if (block.small ? rest < least_block : rest <= small_request) return;
    block.size = size;
    blocks_[address + size] = {.size = rest, .segment = block.segment, .small = block.small};
    free_.insert({block.small, rest, address + size});
  }

  bool add_segment(std::int64_t size, bool small) {
    if (reserved_ + size > capacity_) return_free_segments();
    if (reserved_ + size > capacity_) return false;
    reserved_ += size;
    most_.reserved = Bytes{std::max(most_.reserved.count(), reserved_)};
    blocks_[next_address_] = {.size = size, .segment = next_address_, .small = small};
    free_.insert({small, size, next_address_});
    segments_[next_address_] = size;
    next_address_ += size;
    return true;
  }

  void return_free_segments() {
    for (auto segment = segments_.begin(); segment != segments_.end();) {
      const auto block = blocks_.find(segment->first);
      if (block->second.used || block->second.size != segment->second) {
        ++segment;
        continue;
      }
      reserved_ -= segment->second;
      free_.erase({block->second.small, block->second.size, block->first});
      blocks_.erase(block);
      segment = segments_.erase(segment);
    }
  }

  std::int64_t capacity_, reserved_ = 0, allocated_ = 0, next_address_ = 0;
  CachedMemory most_;
  Blocks blocks_;  // by address
  std::map<std::int64_t, std::int64_t> segments_;
  std::set<std::tuple<bool, std::int64_t, std::int64_t>> free_;  // small, size, address
};

class Replay {
 public:
  Replay(const Program& program, Bytes capacity)
      : program_{program},
        allocator_{capacity.count()},
        address_(program.buffers.size()),
        gradient_(program.sites.size()),
        by_site_(program.buffers.size()) {
    for (const ParameterBucket& bucket : program.parameter_buckets)
      if (bucket.gradient.value < by_site_.size()) by_site_[bucket.gradient.value] = true;
  }

  CachedMemory run() {
    constexpr int steps = 2;
    for (int step = 0; step < steps && fits_; ++step) {
      for (std::uint32_t i = 0; i < program_.buffers.size(); ++i)
        if (begins_with(i, step)) allocate(address_[i], program_.buffers[i].size);
      for (std::uint32_t i = 0; i < program_.size() && fits_; ++i)
        replay(OpId{i});
      for (Address& gradient : gradient_)
        release(gradient);
    }
    CachedMemory memory = allocator_.most();
    memory.fits = fits_;
    return memory;
  }

 private:
  using Address = std::optional<std::int64_t>;

  // Weights and what else persists, from the start; Adam's state from the end of the first step.
  bool begins_with(std::uint32_t index, int step) const {
    const Buffer& buffer = program_.buffers[index];
    if (!buffer.persistent || by_site_[index]) return false;
    return step == (buffer.category == BufferCategory::optimizer ? 1 : 0);
  }

  void replay(OpId op) {
    const auto uses = program_.buffer_uses(op);
    for (const BufferUse& use : uses) {
      if (use.access == Access::write) write(op, use.buffer.value);
    }
    for (const BufferUse& use : uses) {
      if (use.access == Access::free) release(address_[use.buffer.value]);
    }
  }

  // Whole gradients that persist through a step: each parameter's come when they are written first.
  void write(OpId op, std::uint32_t index) {
    const Buffer& buffer = program_.buffers[index];
    if (!buffer.persistent) return allocate(address_[index], buffer.size);
    if (!by_site_[index]) return;
    const Action action = program_.action[op.value];
    if (action != Action::weight_gradient && action != Action::backward) return;
    const std::uint32_t site = program_.subject[op.value];
    const Site& parameters = program_.sites[site];
    const std::int64_t padded = program_.parameter_buckets[parameters.bucket].padded;
    allocate(gradient_[site], Bytes{buffer.size.count() / padded * parameters.elements});
  }

  void allocate(Address& address, Bytes size) {
    if (address || !fits_) return;
    address = allocator_.take(size);
    fits_ = address.has_value();
  }

  void release(Address& address) {
    if (!address) return;
    allocator_.give(*address);
    address.reset();
  }

  const Program& program_;
  Allocator allocator_;
  std::vector<Address> address_;   // of the buffers that live
  std::vector<Address> gradient_;  // of the parameters of each site
  std::vector<bool> by_site_;      // buffers that `gradient_` stands for
  bool fits_ = true;
};

}  // namespace

CachedMemory cached_memory(const Program& program, Bytes capacity) {
  return Replay{program, capacity}.run();
}

}  // namespace sim
