#include "sim/config/foreign/foreign_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <set>
#include <vector>

#include "sim/config/gzip.hpp"

namespace sim {
namespace {

constexpr std::size_t head_bytes = std::size_t{1} << 20;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}
bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

bool is_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// Dashes as underscores, but for those in front.
std::string plain(std::string_view word) {
  const std::size_t front = std::min(word.find_first_not_of('-'), word.size());
  std::string text{word};
  std::replace(text.begin() + static_cast<std::ptrdiff_t>(front), text.end(), '-', '_');
  return text;
}

// The words of a text in the forms that rows of the table name, and the numbers beside them.
class Words {
 public:
  explicit Words(std::string_view text) : text_{text.substr(0, head_bytes)} {
    while (at_ < text_.size()) {
      if (text_[at_] == '#' && (at_ == 0 || text_[at_ - 1] <= ' '))
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (is_word(text_[at_]))
        take_word();
      else
        ++at_;
    }
  }

  bool has(std::string_view needle) const {
    if (needle.starts_with('~')) return text_.find(needle.substr(1)) != std::string_view::npos;
    return words_.contains(needle);
  }
  // The number that is set for a key; empty: none.
  std::string number_of(std::string_view key) const {
    const std::string name = plain(key);
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? "" : found->second;
  }

 private:
  void take_word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_]))
      ++at_;
    std::string word = plain(text_.substr(begin, std::min<std::size_t>(at_ - begin, 200)));
    for (std::size_t dot = word.find('.'); dot != std::string::npos; dot = word.find('.', dot + 1))
      words_.insert(word.substr(0, dot + 1));
    std::size_t next = at_;
    if (next < text_.size() && (text_[next] == '"' || text_[next] == '\'')) ++next;
    next = skip_blanks(next);
    const char mark = next < text_.size() ? text_[next] : '\0';
    if (mark == ':' || mark == '=') {
      words_.insert(word + mark);
      take_number(word, next + 1);
    } else if (word.starts_with("--")) {
      take_number(word, next);
    }
    words_.insert(std::move(word));
  }

  std::size_t skip_blanks(std::size_t at) const {
    while (at < text_.size() && is_blank(text_[at]))
      ++at;
    return at;
  }

  void take_number(const std::string& word, std::size_t at) {
    at = skip_blanks(at);
    std::size_t end = at;
    while (end < text_.size() && end - at < 24 && is_word(text_[end]))
      ++end;
    const std::string_view value = text_.substr(at, end - at);
    const std::size_t next = skip_blanks(end);
    const bool part = next < text_.size() && std::string_view{"*/+%"}.find(text_[next]) !=
                                                 std::string_view::npos;  // of an expression
    if (!value.empty() && is_number(value) && !part) numbers_.try_emplace(word, value);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::set<std::string, std::less<>> words_;
  std::map<std::string, std::string> numbers_;
};

bool matches(const ForeignFormat& format, const Words& words) {
  const auto has = [&](std::string_view needle) { return words.has(needle); };
  if (!std::ranges::all_of(format.all, has)) return false;
  return static_cast<std::size_t>(std::ranges::count_if(format.some, has)) >= format.least;
}

// The number of a setting, however deep it lies: "a.b.size" is set as that, or as size.
std::string value_of(const Words& words, std::string_view key) {
  std::string value = words.number_of(key);
  const std::size_t dot = key.rfind('.');
  if (value.empty() && dot != std::string_view::npos) value = words.number_of(key.substr(dot + 1));
  if (value.empty()) value = words.number_of(fmt::format("--{}", key));
  return value;
}

}  // namespace

const ForeignFormat* foreign_format_of(std::string_view text, bool launches) {
  const Words words{text};
  for (const auto rows : {foreign_jobs(), foreign_files(), foreign_launches()}) {
    if (!launches && rows.data() == foreign_launches().data()) continue;
    for (const ForeignFormat& format : rows)
      if (matches(format, words)) return &format;
  }
  return nullptr;
}

std::string foreign_text(const ForeignFormat& format, std::string_view file,
                         std::string_view text) {
  std::string message = fmt::format("{}: this is {}. {}", file, format.name, format.instead);
  if (format.keys.empty()) return message;
  const Words words{text};
  std::string found, names;
  for (const SameKey& key : format.keys) {
    const std::string value = value_of(words, key.theirs);
    if (!value.empty()) found += fmt::format("\n    {}: {}  # {}", key.ours, value, key.theirs);
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", key.ours, key.theirs);
  }
  if (found.empty() && format.use != ForeignUse::any_job) found = "\n    keys: " + names;
  message += found;
  return message;
}

bool reads_format(const ForeignFormat& format, std::span<const std::string> arguments) {
  return std::ranges::any_of(format.readers, [&](std::string_view reader) {
    while (!reader.empty()) {
      const std::size_t end = std::min(reader.find(' '), reader.size());
      if (std::ranges::find(arguments, reader.substr(0, end)) == arguments.end()) return false;
      reader.remove_prefix(std::min(end + 1, reader.size()));
    }
    return true;
  });
}

std::string head_of_file(const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  std::string text(head_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return is_gzip(text) ? head_of_gzip(text, head_bytes) : text;
}

}  // namespace sim
