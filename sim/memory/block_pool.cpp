#include "sim/memory/block_pool.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/rounding.hpp"

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

BlockPool::Address BlockPool::take(Bytes bytes, int stream) {
  retried_ = false;
  const std::int64_t size = block_size(bytes.count());
  const int kind = kind_of(stream, size <= small_request);
  if (static_cast<std::size_t>(kind) >= kinds_.size())
    kinds_.resize(static_cast<std::size_t>(kind) + 1);
  Index found = find(kind, size);
  // Free segments are returned first, without a wait. Where that is too little, the host waits, and
  // blocks that other streams have read by then are free again.
  const auto lacks = [&] {
    return !has_room(form_ == SegmentForm::fixed ? segment_size(size) : missing_for(kind, size));
  };
  if (found == none && lacks()) {
    most_.limited = true;
    if (form_ == SegmentForm::fixed) return_oversize(kind, size);
    if (lacks()) return_free();
    if (lacks() && wait_) {
      wait_();
      found = find(kind, size);
    }
  }
  if (found == none) {
    form_ == SegmentForm::fixed ? add_segment(kind, size) : grow(kind, size);
    found = find(kind, size);
    SIM_CHECK(found != none, size);
  }
  unlist(found);
  split(found, size);
  Block& taken = at(found);
  if (taken.returned > 0) {
    // Nothing may return it a second time meanwhile.
    taken.used = true;
    const std::int64_t missing = std::exchange(taken.returned, 0);
    if (!has_room(missing)) return_free();
    reserve(missing);
  }
  taken.used = true;
  allocated_ += taken.size;
  most_.allocated = Bytes{std::max(most_.allocated.count(), allocated_)};
  return found;
}

void BlockPool::give(Address address) {
  auto block = static_cast<Index>(address);
  at(block).used = false;
  allocated_ -= at(block).size;
  if (const Index next = at(block).next; next != none && !at(next).used) {
    unlist(next);
    absorb(block, next);
  }
  if (const Index previous = at(block).previous; previous != none && !at(previous).used) {
    unlist(previous);
    absorb(previous, block);
    block = previous;
  }
  list(block);
}

void BlockPool::give(Addresses& addresses) {
  addresses.for_each([&](Address address) { give(address); });
  addresses.clear();
}

BlockPool::Index BlockPool::find(int kind, std::int64_t size) const {
  const Kind& of = kinds_[static_cast<std::size_t>(kind)];
  const FreeBlocks::Entry* found = of.free.at_least({size, 0, none});
  if (found == nullptr) return none;
  // The end of a segment that grows counts as large as that may become.
  if (form_ == SegmentForm::expandable && found->block == of.last) {
    const FreeBlocks::Entry* behind = of.free.behind(*found);
    if (behind != nullptr) found = behind;
  }
  const bool oversize = size >= max_split_size_;
  if (!oversize && found->size >= max_split_size_) return none;
  if (oversize && found->size >= size + large_segment) return none;
  return found->block;
}

BlockPool::Index BlockPool::make(const Block& block) {
  if (unused_.empty()) {
    blocks_.push_back(block);
    return static_cast<Index>(blocks_.size() - 1);
  }
  const Index made = unused_.back();
  unused_.pop_back();
  at(made) = block;
  return made;
}

void BlockPool::list(Index block) {
  const Block& of = at(block);
  kinds_[static_cast<std::size_t>(of.kind)].free.insert({of.size, of.address, block});
}

void BlockPool::unlist(Index block) {
  const Block& of = at(block);
  kinds_[static_cast<std::size_t>(of.kind)].free.erase({of.size, of.address, block});
}

// Neither is listed.
void BlockPool::absorb(Index one, Index next) {
  const Block gone = at(next);
  Block& of = at(one);
  of.size += gone.size;
  of.returned += gone.returned;
  of.next = gone.next;
  if (of.next != none) at(of.next).previous = one;
  Kind& kind = kinds_[static_cast<std::size_t>(of.kind)];
  if (kind.last == next) kind.last = one;
  unused_.push_back(next);
}

void BlockPool::split(Index block, std::int64_t size) {
  const Block whole = at(block);
  const std::int64_t rest = whole.size - size;
  const bool always = is_small(whole.kind) || form_ == SegmentForm::expandable;
  if (always ? rest < least_block : (rest <= small_request || size >= max_split_size_)) return;
  const std::int64_t returned = std::min(whole.returned, rest);
  const Index made = make({.address = whole.address + size,
                           .size = rest,
                           .returned = returned,
                           .offset = whole.offset + size,
                           .previous = block,
                           .next = whole.next,
                           .kind = whole.kind});
  if (whole.next != none) at(whole.next).previous = made;
  Block& first = at(block);
  first.size = size;
  first.returned -= returned;
  first.next = made;
  Kind& kind = kinds_[static_cast<std::size_t>(whole.kind)];
  if (kind.last == block) kind.last = made;
  list(made);
}

void BlockPool::add_segment(int kind, std::int64_t size) {
  const std::int64_t segment = segment_size(size);
  if (!has_room(segment)) return_oversize(kind, size);
  if (!has_room(segment)) return_free();
  reserve(segment);
  list(make({.address = next_address_, .size = segment, .kind = static_cast<std::int16_t>(kind)}));
  next_address_ += segment;
}

// Whole pieces, beside what is free at its end.
std::int64_t BlockPool::missing_for(int kind, std::int64_t size) const {
  const Index last = kinds_[static_cast<std::size_t>(kind)].last;
  const bool free = last != none && !at(last).used;
  return std::max<std::int64_t>(
      0, round_up(size - (free ? at(last).size : 0), piece_of(is_small(kind))));
}

void BlockPool::grow(int kind, std::int64_t size) {
  if (!has_room(missing_for(kind, size))) return_free();
  Kind& of = kinds_[static_cast<std::size_t>(kind)];
  const bool begun = of.last != none;
  const bool free = begun && !at(of.last).used;
  const std::int64_t missing = missing_for(kind, size);
  reserve(missing);
  if (free) {
    unlist(of.last);
    at(of.last).size += missing;
  } else {
    Block made{.size = missing, .previous = of.last, .kind = static_cast<std::int16_t>(kind)};
    if (begun) {
      made.address = at(of.last).address + at(of.last).size;
      made.offset = at(of.last).offset + at(of.last).size;
    } else {
      made.address = next_address_;
      next_address_ += address_space;
    }
    const Index last = make(made);
    if (begun) at(of.last).next = last;
    of.last = last;
  }
  list(of.last);
}

void BlockPool::return_free() {
  if (!std::exchange(retried_, true)) ++most_.retries;
  returned_ = true;
  form_ == SegmentForm::fixed ? return_free_segments() : return_free_pieces();
}

void BlockPool::reserve(std::int64_t bytes) {
  ++changes_;
  reserved_ += bytes;
  most_.reserved = Bytes{std::max(most_.reserved.count(), reserved_)};
  if (std::exchange(returned_, false)) most_.kept = Bytes{std::max(most_.kept.count(), reserved_)};
  if (reserved_ <= capacity_) return;
  most_.fits = false;
  capacity_ = reserved_;
}

// One that is as large as the request, or the largest ones until they are.
void BlockPool::return_oversize(int kind, std::int64_t size) {
  if (max_split_size_ == any_size) return;
  const FreeBlocks& free = kinds_[static_cast<std::size_t>(kind)].free;
  const std::int64_t wanted = std::max(size, max_split_size_);
  const FreeBlocks::Entry* found = free.at_least({wanted, 0, none});
  if (found != nullptr) return return_segment(found->block);
  for (std::int64_t returned = 0; returned < wanted;) {
    const FreeBlocks::Entry* last = free.last();
    if (last == nullptr || last->size < max_split_size_) return;
    returned += last->size;
    return_segment(last->block);
  }
}

void BlockPool::return_segment(Index block) {
  SIM_CHECK(at(block).previous == none && at(block).next == none, block);
  ++changes_;
  reserved_ -= at(block).size;
  unlist(block);
  unused_.push_back(block);
}

void BlockPool::return_free_segments() {
  std::vector<Index> whole;
  for (const Kind& kind : kinds_)
    kind.free.for_each([&](const FreeBlocks::Entry& entry) {
      if (at(entry.block).previous == none && at(entry.block).next == none)
        whole.push_back(entry.block);
    });
  for (const Index block : whole)
    return_segment(block);
}

void BlockPool::return_free_pieces() {
  for (const Kind& kind : kinds_) {
    kind.free.for_each([&](const FreeBlocks::Entry& entry) {
      Block& block = at(entry.block);
      const std::int64_t piece = piece_of(is_small(block.kind));
      const std::int64_t whole =
          (block.offset + block.size) / piece * piece - round_up(block.offset, piece);
      if (whole <= block.returned) return;
      ++changes_;
      reserved_ -= whole - block.returned;
      block.returned = whole;
    });
  }
}

}  // namespace sim
