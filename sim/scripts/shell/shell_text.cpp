#include "sim/scripts/shell/shell_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sim {
namespace {

// The number of the mark that begins at `at`, and where it ends.
struct Mark {
  std::size_t number = 0, end = 0;
};
Mark mark_at(std::string_view text, std::size_t at) {
  Mark mark;
  for (mark.end = at + 1; mark.end < text.size() && text[mark.end] != '\x02'; ++mark.end)
    mark.number = mark.number * 10 + static_cast<std::size_t>(text[mark.end] - '0');
  mark.end = std::min(text.size(), mark.end + 1);
  return mark;
}

// Whether c is one of the characters of "[abc]", "[a-c]", "[!abc]"; `pattern` begins behind the
// bracket and is moved behind its end.
bool takes_set(std::string_view& pattern, char c) {
  const bool inverted = pattern.starts_with('!') || pattern.starts_with('^');
  if (inverted) pattern.remove_prefix(1);
  bool found = false;
  for (bool first = true; !pattern.empty() && (first || pattern.front() != ']'); first = false) {
    const char low = pattern.front();
    const bool range = pattern.size() > 2 && pattern[1] == '-' && pattern[2] != ']';
    const char high = range ? pattern[2] : low;
    found = found || (c >= low && c <= high);
    pattern.remove_prefix(range ? 3 : 1);
  }
  if (!pattern.empty()) pattern.remove_prefix(1);
  return found != inverted;
}

}  // namespace

std::string ShellUnknowns::mark(const std::string& shown, Origin origin) {
  const Unknown unknown{shown, origin};
  const auto known = std::ranges::find(all_, unknown);
  const auto number = static_cast<std::size_t>(known - all_.begin());
  if (known == all_.end()) all_.push_back(unknown);
  return fmt::format("\x01{}\x02", number);
}

std::string ShellUnknowns::shown(std::string_view text) const {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '\x01') {
      result += text[at++];
      continue;
    }
    const Mark mark = mark_at(text, at);
    if (mark.number < all_.size()) result += all_[mark.number].shown;
    at = mark.end;
  }
  return result;
}

std::optional<std::string> ShellUnknowns::first(std::string_view text) const {
  const std::size_t at = text.find('\x01');
  if (at == std::string_view::npos) return std::nullopt;
  const Mark mark = mark_at(text, at);
  return shown(text.substr(at, mark.end - at));
}

bool ShellUnknowns::is_mark(std::string_view text) {
  return text.starts_with('\x01') && mark_at(text, 0).end == text.size();
}

ShellUnknowns::Origin ShellUnknowns::origin(std::string_view text) const {
  if (!is_mark(text)) return Origin::something;
  const std::size_t number = mark_at(text, 0).number;
  return number < all_.size() ? all_[number].origin : Origin::something;
}

bool is_shell_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::size_t shell_name_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && is_shell_name_char(text[length]))
    ++length;
  return length > 0 && text.front() >= '0' && text.front() <= '9' ? 0 : length;
}

bool is_shell_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Backtracks to the last star only: linear in the text for each star.
bool matches_pattern(std::string_view text, std::string_view pattern) {
  std::optional<std::string_view> star_pattern;
  std::string_view star_text;
  while (!text.empty() || !pattern.empty()) {
    std::string_view rest = pattern;
    bool one = false;
    if (!rest.empty() && rest.front() == '*') {
      pattern.remove_prefix(1);
      star_pattern = pattern;
      star_text = text;
      continue;
    }
    if (!rest.empty() && !text.empty()) {
      const char c = rest.front();
      rest.remove_prefix(1);
      one = c == '?' || (c == '[' ? takes_set(rest, text.front()) : c == text.front());
    }
    if (one) {
      pattern = rest;
      text.remove_prefix(1);
    } else if (star_pattern && !star_text.empty()) {
      star_text.remove_prefix(1);
      text = star_text;
      pattern = *star_pattern;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace sim
