// The text that a file may consist of: UTF-8 without control characters.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sim {

struct BadByte {
  std::size_t offset = 0;
  std::string problem;
};

// The first byte that makes `text` something else than UTF-8 text with tabs and line ends.
std::optional<BadByte> find_bad_byte(std::string_view text);

}  // namespace sim
