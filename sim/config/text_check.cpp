#include "sim/config/text_check.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace sim {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<std::uint8_t>(text[at]) : std::uint8_t{0};
}

// Length of the UTF-8 sequence at `at`, 0 if it is not one (RFC 3629, section 4: no overlong forms,
// no surrogates, nothing above U+10FFFF).
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const std::uint8_t lead = byte_at(text, at);
  const std::uint8_t second = byte_at(text, at + 1);
  const auto continues = [&](std::size_t n) { return (byte_at(text, at + n) & 0xC0U) == 0x80U; };
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool narrow = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F);
    return continues(1) && continues(2) && !narrow ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool narrow = (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F);
    return continues(1) && continues(2) && continues(3) && !narrow ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::optional<BadByte> find_bad_byte(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::uint8_t byte = byte_at(text, at);
    if (byte >= 0x80) {
      const std::size_t length = sequence_length(text, at);
      if (length == 0) return BadByte{at, fmt::format("byte 0x{:02x} is not UTF-8 text", byte)};
      // U+0080 to U+009F: control characters of ISO 8859, which no editor writes on purpose.
      if (byte == 0xC2 && byte_at(text, at + 1) < 0xA0 && byte_at(text, at + 1) != 0x85)
        return BadByte{
            at, fmt::format("control character U+{:04X} in a text file", byte_at(text, at + 1))};
      at += length;
      continue;
    }
    const bool allowed = (byte >= 0x20 && byte != 0x7F) || byte == '\t' || byte == '\n' ||
                         (byte == '\r' && byte_at(text, at + 1) == '\n');
    if (!allowed)
      return BadByte{at, fmt::format("control character U+{:04X} in a text file", byte)};
    ++at;
  }
  return std::nullopt;
}

}  // namespace sim
