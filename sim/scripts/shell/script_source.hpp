// A script as text whose characters know their place, and the lines of those places.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "sim/config/tree.hpp"
#include "sim/scripts/shell/shell_text.hpp"

namespace sim {

// The text with '\n' for the '\r\n' of Windows.
inline ShellText source_of(const Tree& tree) {
  ShellText source;
  const std::string_view text = tree.source();
  source.text.reserve(text.size());
  source.from.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r' || i + 1 >= text.size() || text[i + 1] != '\n')
      source.add(text[i], static_cast<std::uint32_t>(i));
  return source;
}

// Lines and bytes of offsets.
class Places {
 public:
  explicit Places(std::string_view text) {
    begins_.push_back(0);
    for (std::size_t at = text.find('\n'); at != std::string_view::npos;
         at = text.find('\n', at + 1))
      begins_.push_back(static_cast<std::uint32_t>(at + 1));
  }
  TextPlace of(std::uint32_t offset) const {
    const auto after = std::ranges::upper_bound(begins_, offset);
    const auto line = static_cast<std::int32_t>(after - begins_.begin());
    const std::uint32_t begin = begins_[static_cast<std::size_t>(line) - 1];
    return {line, static_cast<std::int32_t>(offset - begin)};
  }
  std::uint32_t offset(TextPlace place) const {
    const auto line = static_cast<std::size_t>(std::max(place.line, 1)) - 1;
    return begins_[std::min(line, begins_.size() - 1)] +
           static_cast<std::uint32_t>(std::max(place.byte, 0));
  }

 private:
  std::vector<std::uint32_t> begins_;
};

}  // namespace sim
