#include "sim/rows/run_words.hpp"

#include <fmt/format.h>

#include <charconv>

#include "sim/rows/run_scenario.hpp"

namespace sim {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_torch_fsdp(std::string_view shard_strategy) {
  const std::string strategy = lower_case(shard_strategy);
  return contains(strategy, "fsdp") && !contains(strategy, "megatron");
}

std::optional<int> number_behind(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  int value = 0;
  const char* const begin = text.data() + at + words.size();
  if (std::from_chars(begin, text.data() + text.size(), value).ec != std::errc{})
    return std::nullopt;
  return value >= 1 && value <= 1'000'000 ? std::optional{value} : std::nullopt;
}

std::optional<std::pair<int, int>> version_behind(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  const char* const end = text.data() + text.size();
  std::pair<int, int> version{};
  const auto [dot, error] = std::from_chars(text.data() + at + words.size(), end, version.first);
  if (error != std::errc{} || dot == end || *dot != '.') return std::nullopt;
  if (std::from_chars(dot + 1, end, version.second).ec != std::errc{}) return std::nullopt;
  return version;
}

std::int64_t needed(const RunCells& cells, std::string_view column) {
  const std::optional<std::int64_t> value = cells.whole(column);
  if (!value) throw NotSimulated(fmt::format("{} is empty", column));
  if (*value < 1) throw NotSimulated(fmt::format("{} is {}", column, *value));
  return *value;
}

std::int64_t needed(const RunCells& cells, std::string_view column, std::int64_t if_empty) {
  return cells[column].empty() ? if_empty : needed(cells, column);
}

std::optional<bool> truth(const RunCells& cells, std::string_view column) {
  const std::string text = lower_case(cells[column]);
  if (text.empty()) return std::nullopt;
  if (text == "true") return true;
  if (text == "false") return false;
  throw NotSimulated(
      fmt::format("{} is '{}'; allowed: True, False or empty", column, cells[column]));
}

}  // namespace sim
