#include "sim/config/json_string.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace sim {
namespace {

constexpr std::string_view half_pair = "half of a surrogate pair";

void append_utf8(std::string& into, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { into += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0U | (code >> 6));
  } else if (code < 0x10000) {
    put(0xE0U | (code >> 12));
    put(0x80U | ((code >> 6) & 0x3FU));
  } else {
    put(0xF0U | (code >> 18));
    put(0x80U | ((code >> 12) & 0x3FU));
    put(0x80U | ((code >> 6) & 0x3FU));
  }
  put(0x80U | (code & 0x3FU));
}

// Behind the 'u' of an escape.
std::string_view read_four_hex_digits(std::string_view text, std::size_t& at, std::uint32_t& code) {
  const std::string_view hex = text.substr(std::min(at, text.size()), 4);
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
  if (hex.size() < 4 || error != std::errc{} || end != hex.data() + 4)
    return "expected four hexadecimal digits";
  at += 4;
  return {};
}

std::string_view read_unicode_escape(std::string_view text, std::size_t& at, std::string& into) {
  std::uint32_t code = 0;
  if (const auto problem = read_four_hex_digits(text, at, code); !problem.empty()) return problem;
  if (code >= 0xD800 && code <= 0xDBFF && text.substr(at).starts_with("\\u")) {
    at += 2;
    std::uint32_t low = 0;
    if (const auto problem = read_four_hex_digits(text, at, low); !problem.empty()) return problem;
    if (low < 0xDC00 || low > 0xDFFF) return half_pair;
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  if (code >= 0xD800 && code <= 0xDFFF) return half_pair;
  if (code == 0) return "the character U+0000 is not supported";
  append_utf8(into, code);
  return {};
}

}  // namespace

std::string_view read_json_escape(std::string_view text, std::size_t& at, std::string& into) {
  constexpr std::string_view names = "\"\\/bfnrt";
  constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
  const std::string_view rest = text.substr(at);
  if (rest.starts_with('u')) return read_unicode_escape(text, ++at, into);
  const std::size_t which = rest.empty() ? std::string_view::npos : names.find(rest.front());
  if (which == std::string_view::npos) return "unknown escape in a string";
  into += meanings[which];
  ++at;
  return {};
}

std::string_view read_json_string(std::string_view text, std::size_t& at, std::string& into) {
  ++at;
  while (true) {
    // Runs without escapes are nearly everything: they are copied at once.
    const std::size_t run = at;
    while (at < text.size() && text[at] != '"' && text[at] != '\\' &&
           static_cast<unsigned char>(text[at]) >= 0x20)
      ++at;
    into += text.substr(run, at - run);
    if (at >= text.size()) return "the file ends within a string";
    if (text[at] != '"' && text[at] != '\\')
      return "a string goes on over the end of the line or holds a tab";
    if (text[at++] == '"') return {};
    if (const auto problem = read_json_escape(text, at, into); !problem.empty()) return problem;
  }
}

}  // namespace sim
