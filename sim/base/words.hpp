// Enumerations and their words. The word of an enumerator is the same in YAML, in reports and in
// traces; each enumeration lists its words once, in a `words_of` overload found by its type.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace sim {

template <class Enum>
struct Word {
  Enum value;
  std::string_view text;
};
// Aggregates deduce their arguments without this in GCC, and in Clang from 17 only.
template <class Enum>
Word(Enum, std::string_view) -> Word<Enum>;

// REQUIRES: `constexpr auto words_of(Enum)` returns a std::array<Word<Enum>, N>, found by ADL.
template <class Enum>
constexpr std::string_view word(Enum value) {
  for (const auto& entry : words_of(Enum{}))
    if (entry.value == value) return entry.text;
  return "?";
}

template <class Enum>
constexpr std::optional<Enum> from_word(std::string_view text) {
  for (const auto& entry : words_of(Enum{}))
    if (entry.text == text) return entry.value;
  return std::nullopt;
}

}  // namespace sim
