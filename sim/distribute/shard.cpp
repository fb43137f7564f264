#include "sim/distribute/shard.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <stdexcept>

namespace sim {
namespace {

constexpr std::uint32_t most_shards = 1'000'000;

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// SplitMix64: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014), fig. 16.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

bool Shard::owns(std::uint64_t unit) const {
  return count == 1 || (unit % count + mixed(unit / count) % count) % count == index;
}

Shard parse_shard(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto index = number_of(std::string_view{text}.substr(0, slash));
  const auto count = slash == std::string::npos
                         ? std::nullopt
                         : number_of(std::string_view{text}.substr(slash + 1));
  if (!index || !count || *count < 1 || *count > most_shards)
    throw std::invalid_argument(fmt::format("'{}' is no part such as 0/8 or 7/8", text));
  if (*index >= *count)
    throw std::invalid_argument(
        fmt::format("'{}': the parts of {} are 0/{} to {}/{} (for Slurm: --array=0-{})", text,
                    *count, *count, *count - 1, *count, *count - 1));
  return {*index, *count};
}

std::string to_text(const Shard& shard) {
  return fmt::format("{}/{}", shard.index, shard.count);
}

std::string shard_path(const std::string& path, const Shard& shard) {
  return shard.whole() ? path : fmt::format("{}.{}-of-{}", path, shard.index, shard.count);
}

}  // namespace sim
