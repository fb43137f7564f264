// JSON (RFC 8259) by recursive descent. Our own, because a position is wanted for every value and
// key, which nlohmann's parser does not give; the tests hold the two against each other.
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>

#include "sim/config/parsers.hpp"

namespace sim {
namespace {

class JsonParser {
 public:
  explicit JsonParser(Tree& tree) : tree_{tree}, text_{tree.source()} {}

  void parse() {
    skip_space();
    value();
    skip_space();
    if (at_ < text_.size()) fail("nothing may follow the value");
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  TextPlace place() const { return {line_, static_cast<std::int32_t>(at_ - line_begin_)}; }
  [[noreturn]] void fail(std::string_view what) const {
    tree_.fail(place(), fmt::format("not valid JSON: {}", what));
  }
  [[noreturn]] void fail_expecting(std::string_view wanted) const {
    if (at_ >= text_.size()) fail(fmt::format("the file ends where {} is expected", wanted));
    fail(fmt::format("expected {}", wanted));
  }

  void skip_space() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        line_begin_ = at_ + 1;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }

  void value() {  // nested at most Tree::max_depth deep: Tree::open() refuses more
    const char c = peek();
    if (c == '{') return object();
    if (c == '[') return list();
    if (c == '"') {
      const TextPlace begin = place();
      tree_.add_scalar(begin, ValueKind::quoted, string());
      return;
    }
    if (c == '-' || (c >= '0' && c <= '9')) return number();
    for (const std::string_view word : {"true", "false", "null"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      const bool null = word == "null";
      const NodeIndex node =
          tree_.add_scalar(place(), null ? ValueKind::null : ValueKind::plain, word);
      tree_.node(node).json = true;
      at_ += word.size();
      return;
    }
    fail_expecting("a value");
  }

  void object() {
    tree_.open(place(), ValueKind::object);
    ++at_;
    skip_space();
    if (peek() != '}') {
      while (true) {
        if (peek() != '"') fail_expecting("a key in double quotes");
        const TextPlace begin = place();
        tree_.add_key(begin, string());
        skip_space();
        if (peek() != ':') fail_expecting("':'");
        ++at_;
        skip_space();
        value();
        skip_space();
        if (peek() != ',') break;
        ++at_;
        skip_space();
      }
    }
    if (peek() != '}') fail_expecting("',' or '}'");
    ++at_;
    tree_.close();
  }

  void list() {
    tree_.open(place(), ValueKind::list);
    ++at_;
    skip_space();
    if (peek() != ']') {
      while (true) {
        value();
        skip_space();
        if (peek() != ',') break;
        ++at_;
        skip_space();
      }
    }
    if (peek() != ']') fail_expecting("',' or ']'");
    ++at_;
    tree_.close();
  }

  void digits() {
    if (peek() < '0' || peek() > '9') fail_expecting("a digit");
    while (peek() >= '0' && peek() <= '9')
      ++at_;
  }

  void number() {
    const TextPlace begin = place();
    const std::size_t first = at_;
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
      if (peek() >= '0' && peek() <= '9') fail("a number must not begin with 0");
    } else {
      digits();
    }
    if (peek() == '.') {
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    const NodeIndex node =
        tree_.add_scalar(begin, ValueKind::plain, text_.substr(first, at_ - first));
    tree_.node(node).json = true;
  }

  std::string string() {
    std::string result;
    ++at_;
    while (true) {
      // Runs without escapes are nearly everything: they are copied at once.
      const std::size_t run = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<unsigned char>(text_[at_]) >= 0x20)
        ++at_;
      result += text_.substr(run, at_ - run);
      if (at_ >= text_.size()) fail("the file ends within a string");
      if (text_[at_] == '"') break;
      if (text_[at_] != '\\') fail("a string goes on over the end of the line or holds a tab");
      escape(result);
    }
    ++at_;
    return result;
  }

  void escape(std::string& result) {
    ++at_;
    const char c = peek();
    constexpr std::string_view names = "\"\\/bfnrt";
    constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    if (c == 'u') {
      unicode_escape(result);
    } else if (const std::size_t which = names.find(c); which != std::string_view::npos) {
      result += meanings[which];
      ++at_;
    } else {
      fail("unknown escape in a string");
    }
  }

  std::uint32_t four_hex_digits() {
    ++at_;
    const std::string_view hex = text_.substr(std::min(at_, text_.size()), 4);
    std::uint32_t code = 0;
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    if (hex.size() < 4 || error != std::errc{} || end != hex.data() + 4)
      fail_expecting("four hexadecimal digits");
    at_ += 4;
    return code;
  }

  void unicode_escape(std::string& result) {
    std::uint32_t code = four_hex_digits();
    if (code >= 0xD800 && code <= 0xDBFF && text_.substr(at_).starts_with("\\u")) {
      ++at_;
      const std::uint32_t low = four_hex_digits();
      if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (code >= 0xD800 && code <= 0xDFFF) fail("half of a surrogate pair");
    if (code == 0) fail("the character U+0000 is not supported");
    append_utf8(result, code);
  }

  static void append_utf8(std::string& result, std::uint32_t code) {
    const auto put = [&](std::uint32_t byte) { result += static_cast<char>(byte); };
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

  Tree& tree_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::int32_t line_ = 1;
  std::size_t line_begin_ = 0;
};

}  // namespace

void parse_json_into(Tree& tree) {
  JsonParser{tree}.parse();
}

}  // namespace sim
