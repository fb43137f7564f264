// Recursive vector halving with distance doubling, then the way back (Rabenseifner 2004; Thakur,
// Rabenseifner & Gropp 2005, section 4.5): with p = 2^k ranks, k exchanges of n/2, n/4, ... with
// the partner at distance 1, 2, ...:  2 (p-1)/p n bytes sent by each rank Where p is no power of
// two, the first 2r ranks (r = p - 2^k) fold pairwise before and unfold after: two more messages of
// n bytes, one in each direction.
#include <bit>

#include "real/net/rounds.hpp"

namespace real {
namespace {

class HalvingDoubling : public Schedule {
 public:
  explicit HalvingDoubling(const Exchange& exchange)
      : exchange_{exchange},
        power_{static_cast<int>(std::bit_floor(static_cast<unsigned>(exchange.ranks())))},
        extra_{exchange.ranks() - power_},
        levels_{std::countr_zero(static_cast<unsigned>(power_))},
        slot_{slot_of(exchange.position)} {}

  int rounds() const override { return 2 * levels_ + (extra_ > 0 ? 2 : 0); }

  void fill(int round, Round& out) override {
    if (extra_ > 0) {
      if (round == 0) return fold(out);
      if (round == rounds() - 1) return unfold(out);
      --round;
    }
    if (slot_ < 0) return;
    if (round < levels_)
      halve(round, out);
    else
      double_up(2 * levels_ - 1 - round, out);
  }

 private:
  // Number of a rank among the 2^k that take part; -1 for one that is folded into its neighbour.
  int slot_of(int position) const {
    if (position >= 2 * extra_) return position - extra_;
    return position % 2 == 1 ? position / 2 : -1;
  }
  int rank_of(int slot) const {
    return exchange_.member(slot < extra_ ? 2 * slot + 1 : slot + extra_);
  }
  // held() is what a slot is responsible for once `levels` of its bits have halved the buffer.
  Elements held(int slot, int levels) const {
    Elements range = exchange_.buffer;
    for (int level = 0; level < levels; ++level) {
      const std::int64_t middle = range.count / 2;
      range = (slot >> level) & 1 ? range.range(middle, range.count) : range.range(0, middle);
    }
    return range;
  }

  void fold(Round& out) const {
    if (exchange_.position >= 2 * extra_) return;
    const int partner = exchange_.member(exchange_.position ^ 1);
    const std::span<std::byte> all = exchange_.buffer.bytes();
    if (slot_ < 0)
      out.send(partner, all);
    else
      out.reduce(partner, all.data(), all);
  }
  void unfold(Round& out) const {
    if (exchange_.position >= 2 * extra_) return;
    const int partner = exchange_.member(exchange_.position ^ 1);
    if (slot_ < 0)
      out.receive(partner, exchange_.buffer.bytes());
    else
      out.send(partner, exchange_.buffer.bytes());
  }
  void halve(int level, Round& out) const {
    const int partner = slot_ ^ (1 << level);
    const std::span<std::byte> mine = held(slot_, level + 1).bytes();
    out.send(rank_of(partner), held(partner, level + 1).bytes());
    out.reduce(rank_of(partner), mine.data(), mine);
    if (level == levels_ - 1) out.complete.push_back(mine);
  }
  void double_up(int level, Round& out) const {
    const int partner = slot_ ^ (1 << level);
    out.send(rank_of(partner), held(slot_, level + 1).bytes());
    out.receive(rank_of(partner), held(partner, level + 1).bytes());
  }

  Exchange exchange_;
  int power_, extra_, levels_, slot_;
};

}  // namespace

std::unique_ptr<Schedule> halving_doubling_all_reduce(const Exchange& exchange) {
  return std::make_unique<HalvingDoubling>(exchange);
}

}  // namespace real
