// A part of the work for a worker that talks to nobody: task i of n of a Slurm array.
#pragma once

#include <cstdint>
#include <string>

namespace sim {

struct Shard {
  std::uint32_t index = 0;  // 0 .. count - 1
  std::uint32_t count = 1;
  // owns(): among `count` units in a row each shard has one; which one looks random, so that no
  // shard has all units that are alike in something.
  bool owns(std::uint64_t unit) const;
  bool whole() const { return count == 1; }
  bool operator==(const Shard&) const = default;
};

// "2/8": the third of eight. Throws std::invalid_argument that says what is wrong.
Shard parse_shard(const std::string& text);
std::string to_text(const Shard& shard);

// FILE, or FILE.2-of-8 for a part: all tasks of an array are given the same FILE.
std::string shard_path(const std::string& path, const Shard& shard);

}  // namespace sim
