// Text of a shell script of which every character knows where in the file it stands, so that a
// mistake in what a variable holds is shown where it is written.
//
// Unknown text (an unset variable, the output of a command) is a mark, \x01 number \x02: no source
// holds these bytes, and a mark is never split at its blanks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

struct ShellText {
  std::string text;
  std::vector<std::uint32_t> from;  // offset in the file of each byte

  void add(char c, std::uint32_t at) {
    text += c;
    from.push_back(at);
  }
  void add(const ShellText& other) {
    text += other.text;
    from.insert(from.end(), other.from.begin(), other.from.end());
  }
  void add(std::string_view bytes, std::uint32_t at) {
    text += bytes;
    from.insert(from.end(), bytes.size(), at);
  }
  ShellText part(std::size_t begin, std::size_t size = std::string::npos) const {
    size = std::min(size, text.size() - begin);
    const auto first = from.begin() + static_cast<std::ptrdiff_t>(begin);
    return {text.substr(begin, size), {first, first + static_cast<std::ptrdiff_t>(size)}};
  }
  std::uint32_t at(std::uint32_t fallback = 0) const { return from.empty() ? fallback : from[0]; }
  bool empty() const { return text.empty(); }
};

// The words of what is not known, by the number in their mark.
class ShellUnknowns {
 public:
  // Origin is what a shell would see in the place of a mark: something, or nothing because nothing
  // sets the variable, or nothing because the script was called without that argument.
  enum class Origin : std::uint8_t { something, unset, argument };
  // "$NAME" or "$(command)": what is shown in place of the mark.
  std::string mark(const std::string& shown, Origin origin = Origin::something);
  static bool has_mark(std::string_view text) {
    return text.find('\x01') != std::string_view::npos;
  }
  // The text without marks.
  std::string shown(std::string_view text) const;
  // first() is what the first mark shows; nothing without one.
  std::optional<std::string> first(std::string_view text) const;
  // Whether the text is one mark and nothing else.
  static bool is_mark(std::string_view text);
  // something, too, where the text is not one mark.
  Origin origin(std::string_view text) const;

 private:
  struct Unknown {
    std::string shown;
    Origin origin = Origin::something;
    bool operator==(const Unknown&) const = default;
  };
  std::vector<Unknown> all_;
};

bool is_shell_name_char(char c);
// The length of the variable's name at the front of `text`; 0: none.
std::size_t shell_name_length(std::string_view text);
bool is_shell_blank(char c);
// Whether a word begins as a long option does: --name.
inline bool is_flag(std::string_view word) {
  return word.size() > 2 && word.starts_with("--");
}

// Whether `text` is matched by a pattern of *, ? and [abc] (case, [[ a == b* ]], ${a#b*}).
bool matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace sim
