#include "sim/memory/free_blocks.hpp"

#include <algorithm>

namespace sim {

// Inline: it is asked for every block that is taken or given.
[[gnu::always_inline]] inline int FreeBlocks::bin_of(std::int64_t size) {
  const auto units =
      static_cast<std::uint64_t>(size) / 128 | parts;             // a quarter of the least block
  const int power = static_cast<int>(std::bit_width(units)) - 1;  // 2 and more
  const auto part = static_cast<int>(units >> (power - 2)) & (parts - 1);
  return std::min(bins - 1, (power - 2) * parts + part);
}

void FreeBlocks::insert(const Entry& entry) {
  const int bin = bin_of(entry.size);
  std::vector<Entry>& of = bins_[static_cast<std::size_t>(bin)];
  of.insert(std::upper_bound(of.begin(), of.end(), entry), entry);
  filled_[static_cast<std::size_t>(bin / 64)] |= std::uint64_t{1} << (bin % 64);
}

void FreeBlocks::erase(const Entry& entry) {
  const int bin = bin_of(entry.size);
  std::vector<Entry>& of = bins_[static_cast<std::size_t>(bin)];
  of.erase(std::lower_bound(of.begin(), of.end(), entry));
  if (of.empty()) filled_[static_cast<std::size_t>(bin / 64)] &= ~(std::uint64_t{1} << (bin % 64));
}

const FreeBlocks::Entry* FreeBlocks::at_least(const Entry& entry) const {
  const int bin = bin_of(entry.size);
  const std::vector<Entry>& of = bins_[static_cast<std::size_t>(bin)];
  const auto found = std::lower_bound(of.begin(), of.end(), entry);
  return found != of.end() ? &*found : first_from(bin + 1);
}

const FreeBlocks::Entry* FreeBlocks::behind(const Entry& entry) const {
  const int bin = bin_of(entry.size);
  const std::vector<Entry>& of = bins_[static_cast<std::size_t>(bin)];
  const auto found = std::upper_bound(of.begin(), of.end(), entry);
  return found != of.end() ? &*found : first_from(bin + 1);
}

const FreeBlocks::Entry* FreeBlocks::last() const {
  for (std::size_t word = words; word-- > 0;) {
    if (filled_[word] == 0) continue;
    const int bit = static_cast<int>(std::bit_width(filled_[word])) - 1;
    return &bins_[word * 64 + static_cast<std::size_t>(bit)].back();
  }
  return nullptr;
}

const FreeBlocks::Entry* FreeBlocks::first_from(int bin) const {
  auto word = static_cast<std::size_t>(bin / 64);
  if (word >= words) return nullptr;
  std::uint64_t left = filled_[word] & (~std::uint64_t{0} << (bin % 64));
  while (left == 0) {
    if (++word == words) return nullptr;
    left = filled_[word];
  }
  return &bins_[word * 64 + static_cast<std::size_t>(std::countr_zero(left))].front();
}

}  // namespace sim
