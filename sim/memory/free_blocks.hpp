// Free blocks of an allocator, by size, then address: in bins of a quarter of a power of two, so
// that one is found and moved among few others.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace sim {

class FreeBlocks {
 public:
  struct Entry {
    std::int64_t size = 0, address = 0;
    std::int32_t block = 0;
    bool operator<(const Entry& other) const {
      return size != other.size ? size < other.size : address < other.address;
    }
  };

  void insert(const Entry& entry);
  // REQUIRES: it is there.
  void erase(const Entry& entry);
  // The least one that is not less; null: none.
  const Entry* at_least(const Entry& entry) const;
  // The one behind one of these; null: it is the last.
  const Entry* behind(const Entry& entry) const;
  const Entry* last() const;

  // In their order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const std::vector<Entry>& bin : bins_)
      for (const Entry& entry : bin)
        visit(entry);
  }

 private:
  // Bins of blocks of up to 2^50 bytes; those below 512 bytes share the first bins.
  static constexpr int parts = 4, bins = 42 * parts, words = (bins + 63) / 64;
  static int bin_of(std::int64_t size);
  const Entry* first_from(int bin) const;

  std::array<std::vector<Entry>, bins> bins_;
  std::array<std::uint64_t, words> filled_{};
};

}  // namespace sim
