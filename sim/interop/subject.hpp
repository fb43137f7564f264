// Sentences about a key that leave the key out: where the file does not have it, no caret shows it.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace sim {

// "NAME is 1" of "is 1", with what `name()` says; texts that begin otherwise, and names that are
// empty, leave it as it is.
template <class Name>
std::string with_subject(const std::string& text, const Name& name) {
  constexpr std::array<std::string_view, 9> verbs{
      "is ", "needs ", "has ", "does ", "gives ", "goes ", "asks ", "excludes ", "cannot "};
  if (std::ranges::none_of(verbs, [&](std::string_view verb) { return text.starts_with(verb); }))
    return text;
  const std::string subject{name()};
  return subject.empty() ? text : subject + ' ' + text;
}

}  // namespace sim
