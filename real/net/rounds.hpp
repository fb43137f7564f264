// Algorithms as the state machine that runs them sees them: messages in rounds. Room-internal.
//
// Invariants:
//  1. A message is in one round of its sender and in one of its receiver, with the same bytes; both
//     list the messages of a pair in the same order. The round numbers may differ.
//  2. What a round receives is not what it sends.
//  3. Messages of more than `slice_bytes` are cut into slices, so that a rank reduces one slice
//  while
//     the next is on its way. Of a pair of ranks such a message is alone in its round.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "real/net/collectives.hpp"

namespace real {

// A slice and the operands it meets stay in a core's second-level cache (1 to 2 MiB on server cores
// since 2017; two slices are under way per message).
inline constexpr std::size_t slice_bytes = 256 * 1024;

struct Outgoing {
  int to = 0;  // world rank
  std::span<const std::byte> data;
};

struct Incoming {
  int from = 0;
  std::size_t bytes = 0;
  std::byte* result = nullptr;
  // Reduced: result = received (op) with, which may be result; null: the message goes to `result`.
  const std::byte* with = nullptr;
};

struct Round {
  std::vector<Outgoing> sends;
  std::vector<Incoming> receives;  // reduced in this order
  // Sums that are final after this round, for an average to divide.
  std::vector<std::span<std::byte>> complete;

  void send(int to, std::span<const std::byte> data) {
    if (!data.empty()) sends.push_back({to, data});
  }
  void receive(int from, std::span<std::byte> into) {
    if (!into.empty()) receives.push_back({from, into.size(), into.data(), nullptr});
  }
  void reduce(int from, const std::byte* with, std::span<std::byte> result) {
    if (!result.empty()) receives.push_back({from, result.size(), result.data(), with});
  }
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual int rounds() const = 0;
  virtual void fill(int round, Round& out) = 0;  // `out` comes empty
};

// A buffer of elements, by element; parts as sim/collective splits them: they differ by one element
// at most, the larger ones first.
struct Elements {
  std::byte* data = nullptr;
  std::int64_t count = 0;
  std::int64_t size = 4;  // bytes of one

  std::int64_t begin_of(std::int64_t parts, std::int64_t index) const {
    const std::int64_t rest = count % parts;
    return index * (count / parts) + (index < rest ? index : rest);
  }
  Elements range(std::int64_t begin, std::int64_t end) const {
    return {data + begin * size, end - begin, size};
  }
  Elements part(std::int64_t parts, std::int64_t index) const {
    return range(begin_of(parts, index), begin_of(parts, index + 1));
  }
  std::span<std::byte> bytes() const { return {data, static_cast<std::size_t>(count * size)}; }
};

// Exchange is what every algorithm needs to know: the communicator, this rank's position in it, and
// the buffer that it works on in place.
struct Exchange {
  std::span<const int> members;
  int position = 0;
  Elements buffer{};  // all-reduce, all-gather, broadcast: the output; reduce(-scatter): the input
  Elements own{};     // reduce-scatter: the output; reduce: at the root the output
  int members_per_node = 1;
  int root = 0;

  int ranks() const { return static_cast<int>(members.size()); }
  int member(int at) const { return members[static_cast<std::size_t>(at)]; }
};

std::unique_ptr<Schedule> ring_all_reduce(const Exchange& exchange);
std::unique_ptr<Schedule> ring_reduce_scatter(const Exchange& exchange);
std::unique_ptr<Schedule> ring_all_gather(const Exchange& exchange);
std::unique_ptr<Schedule> tree_all_reduce(const Exchange& exchange);
std::unique_ptr<Schedule> halving_doubling_all_reduce(const Exchange& exchange);
std::unique_ptr<Schedule> hierarchical_all_reduce(const Exchange& exchange);
// Broadcast and reduce, pipelined over a chain (ring) or a binary tree.
std::unique_ptr<Schedule> rooted_broadcast(const Exchange& exchange, CollectiveAlgorithm algorithm);
std::unique_ptr<Schedule> rooted_reduce(const Exchange& exchange, CollectiveAlgorithm algorithm);
std::unique_ptr<Schedule> ring_shift(const Exchange& exchange, std::span<const std::byte> input);
std::unique_ptr<Schedule> pairwise_all_to_all(const Exchange& exchange, const std::byte* input);

// The ring over consecutive places of `members`, as a part of several algorithms. After
// ranks() - 1 rounds of reduce-scatter, position i holds the sum of part (i + shift) mod p.
class Ring {
 public:
  // REQUIRES: `members` outlives the ring.
  Ring(std::span<const int> members, int position) : members_{members}, position_{position} {}
  int ranks() const { return static_cast<int>(members_.size()); }
  int steps() const { return ranks() - 1; }
  // Step `step` of an in-place reduce-scatter, after which position i holds part (i + 1) mod p.
  void reduce_scatter(int step, const Elements& buffer, Round& out) const;
  // Step `step` of an all-gather that starts with part (i + shift) mod p at position i.
  void all_gather(int step, int shift, const Elements& buffer, Round& out) const;
  int part(int offset) const { return ((position_ + offset) % ranks() + ranks()) % ranks(); }
  int next() const { return members_[static_cast<std::size_t>(part(1))]; }
  int previous() const { return members_[static_cast<std::size_t>(part(-1))]; }

 private:
  std::span<const int> members_;
  int position_;
};

// result[i] = a[i] (op) b[i] on fp32; result may be a or b. A maximum with a NaN is NaN.
void reduce_floats(Reduction reduction, const std::byte* a, const std::byte* b, std::byte* result,
                   std::size_t bytes);
void divide_floats(std::span<std::byte> data, int divisor);

}  // namespace real
