#include "sim/memory/block_pool.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"

namespace sim {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;
constexpr std::int64_t least_block = 512;
constexpr std::int64_t small_request = mib;
constexpr std::int64_t small_segment = 2 * mib;
constexpr std::int64_t large_segment = 20 * mib;
constexpr std::int64_t least_own_segment = 10 * mib;
constexpr std::int64_t own_segment_unit = 2 * mib;
// Room for a segment that grows; the addresses of two never meet.
constexpr std::int64_t address_space = std::int64_t{1} << 44;

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

std::int64_t piece_of(bool small) {
  return small ? small_segment : large_segment;
}

}  // namespace

std::optional<BlockPool::Address> BlockPool::take(Bytes bytes, int stream) {
  const std::int64_t size = block_size(bytes.count());
  const Kind kind{stream, size <= small_request};
  std::optional<Address> found = find(kind, size);
  if (!found) {
    if (!make_room(kind, size)) return std::nullopt;
    found = find(kind, size);
    SIM_CHECK(found, size);
  }
  const auto block = blocks_.find(*found);
  unlist(block);
  split(*found, size);
  Block& taken = block->second;
  if (taken.returned > 0) {
    // Nothing may return it a second time meanwhile.
    taken.used = true;
    const std::int64_t again = std::exchange(taken.returned, 0);
    if (!reserve(again)) return std::nullopt;
  }
  taken.used = true;
  allocated_ += taken.size;
  most_.allocated = Bytes{std::max(most_.allocated.count(), allocated_)};
  return *found;
}

void BlockPool::give(Address address) {
  auto at = blocks_.find(address);
  at->second.used = false;
  allocated_ -= at->second.size;
  if (const auto next = std::next(at); joins(at, next)) {
    unlist(next);
    absorb(at, next);
  }
  if (at != blocks_.begin() && joins(std::prev(at), at)) {
    at = std::prev(at);
    unlist(at);
    absorb(at, std::next(at));
  }
  list(at);
}

void BlockPool::give(Addresses& addresses) {
  for (const Address address : addresses)
    give(address);
  addresses.clear();
}

std::optional<BlockPool::Address> BlockPool::find(const Kind& kind, std::int64_t size) const {
  const auto found = free_.lower_bound({kind, size, 0});
  if (found == free_.end() || std::get<0>(*found) != kind) return std::nullopt;
  return std::get<2>(*found);
}

bool BlockPool::joins(Blocks::iterator one, Blocks::iterator next) const {
  return next != blocks_.end() && one->second.segment == next->second.segment &&
         !one->second.used && !next->second.used;
}

void BlockPool::absorb(Blocks::iterator one, Blocks::iterator next) {
  one->second.size += next->second.size;
  one->second.returned += next->second.returned;
  blocks_.erase(next);
}

void BlockPool::split(Address address, std::int64_t size) {
  Block& block = blocks_.at(address);
  const std::int64_t rest = block.size - size;
  const bool always = block.kind.small || form_ == SegmentForm::expandable;
  if (always ? rest < least_block : rest <= small_request) return;
  const std::int64_t returned = std::min(block.returned, rest);
  block.size = size;
  block.returned -= returned;
  const auto made = blocks_.insert(
      {address + size,
       Block{.size = rest, .segment = block.segment, .returned = returned, .kind = block.kind}});
  list(made.first);
}

bool BlockPool::make_room(const Kind& kind, std::int64_t size) {
  return form_ == SegmentForm::fixed ? add_segment(kind, segment_size(size)) : grow(kind, size);
}

bool BlockPool::add_segment(const Kind& kind, std::int64_t size) {
  if (!reserve(size)) return false;
  const auto made =
      blocks_.insert({next_address_, Block{.size = size, .segment = next_address_, .kind = kind}});
  list(made.first);
  segments_[next_address_] = size;
  next_address_ += size;
  return true;
}

// By whole pieces, what is free at its end included.
bool BlockPool::grow(const Kind& kind, std::int64_t size) {
  auto [end, begun] = end_.try_emplace(kind, next_address_);
  if (begun) {
    segments_[next_address_] = 0;
    next_address_ += address_space;
  }
  const Address segment = std::prev(segments_.upper_bound(end->second))->first;
  auto last = blocks_.lower_bound(end->second);
  const bool any = end->second > segment;
  const bool free = any && !(last = std::prev(last))->second.used;
  const std::int64_t missing =
      round_up(size - (free ? last->second.size : 0), piece_of(kind.small));
  if (!reserve(missing)) return false;
  if (free) {
    unlist(last);
    last->second.size += missing;
  } else {
    last = blocks_.insert({end->second, Block{.size = missing, .segment = segment, .kind = kind}})
               .first;
  }
  list(last);
  end->second += missing;
  return true;
}

bool BlockPool::reserve(std::int64_t bytes) {
  if (reserved_ + bytes > capacity_) {
    ++most_.retries;
    form_ == SegmentForm::fixed ? return_free_segments() : return_free_pieces();
  }
  if (reserved_ + bytes > capacity_) return false;
  reserved_ += bytes;
  most_.reserved = Bytes{std::max(most_.reserved.count(), reserved_)};
  return true;
}

void BlockPool::return_free_segments() {
  for (auto segment = segments_.begin(); segment != segments_.end();) {
    const auto block = blocks_.find(segment->first);
    if (block->second.used || block->second.size != segment->second) {
      ++segment;
      continue;
    }
    reserved_ -= segment->second;
    unlist(block);
    blocks_.erase(block);
    segment = segments_.erase(segment);
  }
}

void BlockPool::return_free_pieces() {
  for (auto& [address, block] : blocks_) {
    if (block.used) continue;
    const std::int64_t piece = piece_of(block.kind.small);
    const std::int64_t offset = address - block.segment;
    const std::int64_t whole = (offset + block.size) / piece * piece - round_up(offset, piece);
    if (whole <= block.returned) continue;
    reserved_ -= whole - block.returned;
    block.returned = whole;
  }
}

}  // namespace sim
