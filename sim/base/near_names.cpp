#include "sim/base/near_names.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/base/short_names.hpp"

namespace sim {
namespace {

constexpr std::size_t longest = 64;  // no name of ours is longer
constexpr double least_like = 0.2;   // less is chance: a pair or two of long names

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// The pairs of neighbouring letters, sorted.
std::vector<std::pair<char, char>> pairs_of(std::string_view word) {
  std::vector<std::pair<char, char>> pairs;
  for (std::size_t i = 0; i + 1 < word.size(); ++i)
    pairs.emplace_back(lower(word[i]), lower(word[i + 1]));
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

// Dice's coefficient of the pairs of two words: 1 for the same, 0 for no pair in common.
double likeness(std::string_view a, std::string_view b) {
  const auto first = pairs_of(a);
  const auto second = pairs_of(b);
  std::vector<std::pair<char, char>> shared;
  std::set_intersection(first.begin(), first.end(), second.begin(), second.end(),
                        std::back_inserter(shared));
  const std::size_t all = first.size() + second.size();
  return all == 0 ? 0 : 2 * static_cast<double>(shared.size()) / static_cast<double>(all);
}

std::string listed(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names)
    text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

}  // namespace

std::vector<std::string_view> near_names(std::string_view word,
                                         const std::vector<std::string_view>& candidates,
                                         std::size_t most) {
  std::vector<std::pair<double, std::string_view>> scored;
  if (word.size() > longest) return {};
  for (const std::string_view candidate : candidates)
    if (const double like = likeness(word, candidate.substr(0, longest)); like >= least_like)
      scored.emplace_back(like, candidate);
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string_view> names;
  for (const auto& [like, name] : scored)
    if (names.size() < most) names.push_back(name);
  return names;
}

std::string choices_text(std::string_view word, const std::vector<std::string_view>& candidates) {
  const std::string_view whole = whole_name(word);
  const bool known = std::find(candidates.begin(), candidates.end(), whole) != candidates.end();
  const std::string_view meant = known ? whole : nearest_name(word, candidates);
  if (!meant.empty()) return "did you mean '" + std::string{meant} + "'?";
  if (candidates.size() <= most_names) return "allowed: " + listed(candidates);
  const std::vector<std::string_view> near = near_names(word, candidates);
  if (!near.empty()) return "nearest of " + std::to_string(candidates.size()) + ": " + listed(near);
  return "allowed: " + listed({candidates.begin(), candidates.begin() + most_names}) + " and " +
         std::to_string(candidates.size() - most_names) + " more";
}

}  // namespace sim
