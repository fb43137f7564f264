#include "sim/chakra/messages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/base/input_error.hpp"

namespace sim {
namespace {

using RankPair = std::pair<std::uint32_t, std::uint32_t>;

struct Sizes {
  std::vector<std::uint64_t> sent, received;  // in the order of issue
};

[[noreturn]] void fail_of(const EtRun& run, std::uint32_t rank, const std::string& what) {
  throw InputError{SourcePosition{run.ranks[rank].path, 0, 0}, what};
}

RankPair pair_of(const EtRun& run, std::uint32_t rank, const EtNode& node) {
  const bool sends = node.type == EtType::send;
  const auto other = sends ? node.destination : node.source;
  if (!other)
    fail_of(run, rank,
            fmt::format("node {} ('{}') does not say {}", node.id, node.name,
                        sends ? "comm_dst" : "comm_src"));
  if (*other >= run.ranks.size() || *other == rank)
    fail_of(run, rank,
            fmt::format("node {} ('{}') is a message with rank {}; allowed: another of 0 "
                        "to {}",
                        node.id, node.name, *other, run.ranks.size() - 1));
  return sends ? RankPair{rank, *other} : RankPair{*other, rank};
}

std::map<RankPair, Sizes> sizes_of(const EtRun& run, const std::vector<EtOrder>& orders) {
  std::map<RankPair, Sizes> sizes;
  for (std::uint32_t rank = 0; rank < run.ranks.size(); ++rank)
    for (const std::uint32_t i : orders[rank].nodes) {
      const EtNode& node = run.ranks[rank].nodes[i];
      if (node.type != EtType::send && node.type != EtType::receive) continue;
      Sizes& of = sizes[pair_of(run, rank, node)];
      (node.type == EtType::send ? of.sent : of.received).push_back(node.comm_bytes);
    }
  return sizes;
}

void check_both_sides(const EtRun& run, const std::map<RankPair, Sizes>& sizes) {
  for (const auto& [pair, of] : sizes) {
    if (of.sent.size() != of.received.size())
      fail_of(run, pair.first,
              fmt::format("it sends {} messages to rank {}, which receives {}", of.sent.size(),
                          pair.second, of.received.size()));
    for (std::size_t i = 0; i < of.sent.size(); ++i)
      if (of.sent[i] != of.received[i])
        fail_of(run, pair.first,
                fmt::format("message {} to rank {} is of {} bytes, and of {} where it is received",
                            i + 1, pair.second, of.sent[i], of.received[i]));
  }
}

// Alternating paths (Koenig 1916): where both ways are taken by different ends, those of the path
// from the receiver change places.
class TwoWays {
 public:
  explicit TwoWays(std::size_t ranks) : to_(ranks), from_(ranks) {}

  // False: the sender or the receiver has two already.
  bool add(RankPair pair) {
    const auto out = free_of(to_[pair.first]), in = free_of(from_[pair.second]);
    if (!out || !in) return false;
    if (*out != *in) change(pair.second, *out, *in);
    set(pair, *out);
    return true;
  }

  EtMessages result() && {
    EtMessages made;
    for (std::uint32_t rank = 0; rank < to_.size(); ++rank)
      for (std::size_t way = 0; way < 2; ++way)
        if (to_[rank][way]) made.way[{rank, *to_[rank][way]}] = static_cast<Peer>(way);
    for (std::uint32_t rank = 0; rank < to_.size(); ++rank)
      made.peer_of.push_back(
          {RankId{to_[rank][0].value_or(rank)}, RankId{to_[rank][1].value_or(rank)}});
    return made;
  }

 private:
  using Ends = std::array<std::optional<std::uint32_t>, 2>;

  static std::optional<std::size_t> free_of(const Ends& ends) {
    if (!ends[0]) return 0;
    if (!ends[1]) return 1;
    return std::nullopt;
  }

  void set(RankPair pair, std::size_t way) {
    to_[pair.first][way] = pair.second;
    from_[pair.second][way] = pair.first;
  }

  // Makes `wanted` free at the receiver, whose other way is `free`.
  void change(std::uint32_t receiver, std::size_t wanted, std::size_t free) {
    std::vector<RankPair> path;
    std::size_t way = wanted;
    for (std::optional<std::uint32_t> end = receiver; end;) {
      const auto sender = from_[*end][way];
      if (!sender) break;
      path.emplace_back(*sender, *end);
      end = to_[*sender][1 - way];
      if (!end) break;
      path.emplace_back(*sender, *end);
    }
    for (std::size_t i = 0; i < path.size(); ++i)
      clear(path[i], i % 2 == 0 ? wanted : free);
    for (std::size_t i = 0; i < path.size(); ++i)
      set(path[i], i % 2 == 0 ? free : wanted);
  }

  void clear(RankPair pair, std::size_t way) {
    to_[pair.first][way].reset();
    from_[pair.second][way].reset();
  }

  std::vector<Ends> to_, from_;
};

}  // namespace

EtMessages messages_of(const EtRun& run, const std::vector<EtOrder>& orders) {
  const std::map<RankPair, Sizes> sizes = sizes_of(run, orders);
  if (sizes.empty()) return {};
  check_both_sides(run, sizes);
  TwoWays ways{run.ranks.size()};
  for (const auto& [pair, of] : sizes)
    if (!ways.add(pair))
      fail_of(run, pair.first,
              fmt::format("it sends to rank {}: a rank that sends to more than two others, or "
                          "receives from more, is not simulated; write such an exchange as a "
                          "collective",
                          pair.second));
  return std::move(ways).result();
}

}  // namespace sim
