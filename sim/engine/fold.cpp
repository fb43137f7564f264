#include "sim/engine/fold.hpp"

#include <algorithm>
#include <bit>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"

namespace sim {
namespace {

using Colour = std::uint64_t;

// Odd, so that multiplying by it loses nothing.
constexpr Colour pattern_salt(std::uint32_t pattern) {
  return mix64(pattern) | 1;
}

// Classes numbered by first appearance, from 64-bit colours.
struct Classes {
  std::vector<std::uint32_t> of;     // class of each item
  std::vector<std::uint32_t> first;  // representative of each class
  std::vector<std::uint32_t> size;

  void assign(std::span<const Colour> colours) {
    const std::size_t capacity = std::bit_ceil(2 * colours.size() + 1);
    table_.assign(capacity, UINT32_MAX);
    of.resize(colours.size());
    first.clear();
    size.clear();
    for (std::uint32_t i = 0; i < colours.size(); ++i) {
      std::size_t at = colours[i] & (capacity - 1);
      while (table_[at] != UINT32_MAX && colours[first[table_[at]]] != colours[i])
        at = (at + 1) & (capacity - 1);
      if (table_[at] == UINT32_MAX) {
        table_[at] = static_cast<std::uint32_t>(first.size());
        first.push_back(i);
        size.push_back(0);
      }
      of[i] = table_[at];
      ++size[of[i]];
    }
  }

 private:
  std::vector<std::uint32_t> table_;
};

class Refinement {
 public:
  explicit Refinement(const System& whole) : whole_{whole} {
    for (const RankSlot& slot : whole.slots)
      slot_colours_.push_back(hash_combine(slot.program, slot.variant));
    for (const Channel& channel : whole.channels)
      channel_colours_.push_back(hash_combine(
          channel.purpose,
          hash_combine(channel.shape, hash_combine(channel.member_count, channel.pattern_count))));
    for (const Resource& resource : whole.resources)
      resource_colours_.push_back(mix64(static_cast<std::uint64_t>(resource.capacity)));
  }

  void run(const Control& control) {
    std::size_t before = 0;
    do {
      throw_if_stopped(control);
      before = total();
      recolour_channels();
      recolour_slots();
      recolour_resources();
      number();
    } while (total() != before);
  }

  Classes slots, channels, resources;

 private:
  std::size_t total() const {
    return slots.first.size() + channels.first.size() + resources.first.size();
  }

  void number() {
    slots.assign(slot_colours_);
    channels.assign(channel_colours_);
    resources.assign(resource_colours_);
  }

  // Sums of mixed values: the order of members and links does not matter, their number does.
  void recolour_channels() {
    for (std::size_t c = 0; c < whole_.channels.size(); ++c) {
      const Channel& channel = whole_.channels[c];
      const std::span<const std::uint32_t> members = whole_.members_of(channel);
      const bool ordered = channel.point_to_point;  // sender and receiver differ
      Colour sum = 0;
      for (std::size_t m = 0; m < members.size(); ++m)
        sum += mix64(slot_colours_[members[m]] ^ (ordered ? m + 1 : 0));
      for (std::uint32_t p = 0; p < channel.pattern_count; ++p) {
        const Colour salt = pattern_salt(p);
        for (const ResourceUse& use : whole_.uses_of(whole_.patterns_of(channel)[p]))
          sum += mix64(salt * use.weight ^ resource_colours_[use.resource]);
      }
      channel_colours_[c] = hash_combine(channel_colours_[c], sum);
    }
  }

  void recolour_slots() {
    for (std::size_t s = 0; s < whole_.slots.size(); ++s) {
      // A channel's colour says what it is for, so the sum needs no order.
      Colour sum = 0;
      for (const std::uint32_t channel : whole_.slots[s].group)
        if (channel != no_channel) sum += channel_colours_[channel];
      for (std::size_t lane = 0; lane < stream_count; ++lane)
        if (const std::uint32_t channel = whole_.slots[s].peer[lane]; channel != no_channel)
          sum += mix64(channel_colours_[channel] ^ (lane + 1));
      slot_colours_[s] = hash_combine(slot_colours_[s], sum);
    }
  }

  void recolour_resources() {
    loads_.assign(whole_.resources.size(), 0);
    for (std::size_t c = 0; c < whole_.channels.size(); ++c) {
      const Channel& channel = whole_.channels[c];
      for (std::uint32_t p = 0; p < channel.pattern_count; ++p) {
        const Colour salt = pattern_salt(p);
        for (const ResourceUse& use : whole_.uses_of(whole_.patterns_of(channel)[p]))
          loads_[use.resource] += mix64(salt * use.weight ^ channel_colours_[c]);
      }
    }
    for (std::size_t r = 0; r < loads_.size(); ++r)
      resource_colours_[r] = hash_combine(resource_colours_[r], loads_[r]);
  }

  const System& whole_;
  std::vector<Colour> slot_colours_, channel_colours_, resource_colours_, loads_;
};

class Quotient {
 public:
  Quotient(const System& whole, const Refinement& classes) : whole_{whole}, classes_{classes} {}

  System build() {
    folded_.variants = whole_.variants;
    folded_.requests = whole_.requests;
    folded_.group_shapes = whole_.group_shapes;
    folded_.costs = whole_.costs;
    folded_.is_priced = whole_.is_priced;
    folded_.peer_routes = whole_.peer_routes;
    folded_.role_rows = whole_.role_rows;
    for (std::size_t i = 0; i < classes_.slots.first.size(); ++i)
      add_slot(i);
    for (std::size_t i = 0; i < classes_.resources.first.size(); ++i) {
      Resource resource = whole_.resources[classes_.resources.first[i]];
      resource.represents = classes_.resources.size[i];
      folded_.resources.push_back(resource);
    }
    weight_.assign(folded_.resources.size(), 0);
    for (std::size_t i = 0; i < classes_.channels.first.size(); ++i)
      add_channel(i);
    return std::move(folded_);
  }

 private:
  void add_slot(std::size_t index) {
    RankSlot slot = whole_.slots[classes_.slots.first[index]];
    slot.represents = classes_.slots.size[index];
    for (std::uint32_t& channel : slot.group)
      if (channel != no_channel) channel = classes_.channels.of[channel];
    for (std::uint32_t& channel : slot.peer)
      if (channel != no_channel) channel = classes_.channels.of[channel];
    folded_.slots.push_back(slot);
  }

  void add_channel(std::size_t index) {
    const Channel& original = whole_.channels[classes_.channels.first[index]];
    Channel channel = original;
    channel.represents = classes_.channels.size[index];
    channel.first_member = static_cast<std::uint32_t>(folded_.members.size());
    channel.first_pattern = static_cast<std::uint32_t>(folded_.patterns.size());
    for (const std::uint32_t member : whole_.members_of(original)) {
      const std::uint32_t slot = classes_.slots.of[member];
      const auto begin = folded_.members.begin() + channel.first_member;
      const bool once = !original.point_to_point;  // a class arrives once at a communicator
      if (!once || std::find(begin, folded_.members.end(), slot) == folded_.members.end())
        folded_.members.push_back(slot);
    }
    channel.member_count =
        static_cast<std::uint32_t>(folded_.members.size()) - channel.first_member;
    for (const Pattern& pattern : whole_.patterns_of(original))
      add_pattern(pattern, channel);
    folded_.channels.push_back(channel);
  }

  // All channels of the class load a resource of a class together: the representative's weight on
  // the class, times the channels, over the resources. Equitability makes the division exact.
  void add_pattern(const Pattern& original, const Channel& channel) {
    touched_.clear();
    for (const ResourceUse& use : whole_.uses_of(original)) {
      const std::uint32_t resource = classes_.resources.of[use.resource];
      if (weight_[resource] == 0) touched_.push_back(resource);
      weight_[resource] += use.weight;
    }
    Pattern pattern = original;
    pattern.first_use = static_cast<std::uint32_t>(folded_.uses.size());
    pattern.use_count = pattern.shared_count = static_cast<std::uint32_t>(touched_.size());
    for (const std::uint32_t resource : touched_) {
      const std::uint64_t total = weight_[resource] * channel.represents;
      const std::uint64_t links = folded_.resources[resource].represents;
      SIM_CHECK(total % links == 0, total, links);
      folded_.uses.push_back({resource, total / links});
      weight_[resource] = 0;
    }
    folded_.patterns.push_back(pattern);
  }

  const System& whole_;
  const Refinement& classes_;
  System folded_;
  std::vector<std::uint64_t> weight_;
  std::vector<std::uint32_t> touched_;
};

}  // namespace

System fold(const System& whole, const Control& control) {
  Refinement classes{whole};
  classes.run(control);
  return Quotient{whole, classes}.build();
}

std::vector<std::uint32_t> representatives(const System& whole, const Control& control) {
  Refinement classes{whole};
  classes.run(control);
  std::vector<std::uint32_t> first;
  first.reserve(whole.resources.size());
  for (const std::uint32_t of : classes.resources.of)
    first.push_back(classes.resources.first[of]);
  return first;
}

}  // namespace sim
