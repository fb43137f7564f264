// Names for a message: of many that are allowed the few that a wrong one may have been meant for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sim {

inline constexpr std::size_t most_names = 3;  // in a message

// The candidates most like `word`, best first, by the pairs of neighbouring letters that both have;
// those alike in the order given. At most `most`, and none that is like it by chance alone.
std::vector<std::string_view> near_names(std::string_view word,
                                         const std::vector<std::string_view>& candidates,
                                         std::size_t most = most_names);

// The allowed names in place of the unknown `word`, as the end of a sentence: "did you mean 'a'?",
// "allowed: a, b, c" where there are no more, "nearest of 33: a, b, c", or "allowed: a, b, c and 30
// more" where nothing is near.
std::string choices_text(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace sim
