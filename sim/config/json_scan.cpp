#include "sim/config/json_scan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

namespace sim {
namespace {

constexpr int max_depth = 64;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

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

}  // namespace

JsonScan::JsonScan(std::string_view text, std::string name) : text_{text}, name_{std::move(name)} {}

void JsonScan::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
    ++at_;
}

JsonScan::Kind JsonScan::peek() {
  skip_space();
  value_ = at_;
  switch (look()) {
    case '{':
      return Kind::object;
    case '[':
      return Kind::list;
    case '"':
      return Kind::text;
    case '-':
      return Kind::number;
    default:
      return is_digit(look()) ? Kind::number : Kind::word;
  }
}

void JsonScan::open(char bracket) {
  peek();
  if (look() != bracket) fail_expecting(bracket == '{' ? "an object" : "a list");
  if (++depth_ > max_depth) fail(fmt::format("nested deeper than {}", max_depth));
  ++at_;
}

void JsonScan::close(char bracket) {
  skip_space();
  if (look() != bracket) fail_expecting(bracket == '}' ? "',' or '}'" : "',' or ']'");
  ++at_;
  --depth_;
}

bool JsonScan::next_key(bool first) {
  skip_space();
  if (first ? look() == '}' : look() != ',') return false;
  if (!first) {
    ++at_;
    skip_space();
  }
  key_at_ = at_;
  if (look() != '"') fail_expecting("a key in double quotes");
  read_text(key_);
  skip_space();
  if (look() != ':') fail_expecting("':'");
  ++at_;
  skip_space();
  value_ = at_;
  return true;
}

bool JsonScan::next_item(bool first) {
  skip_space();
  if (first ? look() == ']' : look() != ',') return false;
  if (!first) ++at_;
  skip_space();
  value_ = at_;
  return true;
}

std::string JsonScan::text() {
  if (peek() != Kind::text) fail_expecting("text in double quotes");
  std::string result;
  read_text(result);
  return result;
}

void JsonScan::read_text(std::string& into) {
  into.clear();
  ++at_;
  while (true) {
    const std::size_t run = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20)
      ++at_;
    into.append(text_.substr(run, at_ - run));
    if (at_ >= text_.size()) fail_at(at_, "not valid JSON: the file ends within a string");
    if (text_[at_] == '"') break;
    if (text_[at_] != '\\')
      fail_at(at_, "not valid JSON: a string goes on over the end of the line or holds a tab");
    escape(into);
  }
  ++at_;
}

void JsonScan::escape(std::string& into) {
  ++at_;
  constexpr std::string_view names = "\"\\/bfnrt";
  constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
  const char c = look();
  if (const std::size_t which = names.find(c); c != '\0' && which != std::string_view::npos) {
    into += meanings[which];
    ++at_;
    return;
  }
  if (c != 'u') fail_at(at_, "not valid JSON: unknown escape in a string");
  std::uint32_t code = four_hex_digits();
  if (code >= 0xD800 && code <= 0xDBFF && text_.substr(at_).starts_with("\\u")) {
    ++at_;
    const std::uint32_t low = four_hex_digits();
    if (low >= 0xDC00 && low <= 0xDFFF) code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  if ((code >= 0xD800 && code <= 0xDFFF) || code == 0)
    fail_at(at_, "not valid JSON: half of a surrogate pair, or U+0000");
  append_utf8(into, code);
}

std::uint32_t JsonScan::four_hex_digits() {
  ++at_;
  const std::string_view hex = text_.substr(std::min(at_, text_.size()), 4);
  std::uint32_t code = 0;
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
  if (hex.size() < 4 || error != std::errc{} || end != hex.data() + 4)
    fail_expecting("four hexadecimal digits");
  at_ += 4;
  return code;
}

std::string_view JsonScan::number() {
  if (peek() != Kind::number) fail_expecting("a number");
  const auto digits = [&] {
    if (!is_digit(look())) fail_expecting("a digit");
    while (is_digit(look()))
      ++at_;
  };
  if (look() == '-') ++at_;
  if (look() == '0' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))
    fail("not valid JSON: a number must not begin with 0");
  digits();
  if (look() == '.') {
    ++at_;
    digits();
  }
  if (look() == 'e' || look() == 'E') {
    ++at_;
    if (look() == '+' || look() == '-') ++at_;
    digits();
  }
  return text_.substr(value_, at_ - value_);
}

std::int64_t JsonScan::integer(IntegerRange range) {
  const std::string_view written = number();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error != std::errc{} || end != written.data() + written.size())
    fail(fmt::format("{} is no whole number, or too large", written.substr(0, 40)));
  if (value < range.min || value > range.max)
    fail(fmt::format("{} is out of range; allowed: {} to {}", value, range.min, range.max));
  return value;
}

double JsonScan::real(RealRange range) {
  const std::string_view written = number();
  double value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  static_cast<void>(end);
  if (error != std::errc{} || !std::isfinite(value))
    fail(fmt::format("{} is too large or too small", written.substr(0, 40)));
  if (value < range.min || value > range.max)
    fail(fmt::format("{} is out of range; allowed: {} to {}", value, range.min, range.max));
  return value;
}

std::string_view JsonScan::bare_word() {
  peek();
  const std::size_t begin = at_;
  if (look() == '-') ++at_;
  while ((look() >= 'a' && look() <= 'z') || (look() >= 'A' && look() <= 'Z'))
    ++at_;
  return text_.substr(begin, at_ - begin);
}

bool JsonScan::boolean() {
  const std::string_view word = bare_word();
  if (word != "true" && word != "false") fail("expected true or false");
  return word == "true";
}

void JsonScan::skip() {
  switch (peek()) {
    case Kind::object:
      return object([this](std::string_view) { skip(); });
    case Kind::list:
      return list([this] { skip(); });
    case Kind::text:
      return read_text(scratch_);
    case Kind::number:
      if (!text_.substr(at_).starts_with("-I")) {
        static_cast<void>(number());
        return;
      }
      break;
    case Kind::word:
      break;
  }
  const std::string_view word = bare_word();
  for (const std::string_view known : {"true", "false", "null", "NaN", "Infinity", "-Infinity"})
    if (word == known) return;
  at_ = value_;
  fail_expecting("a value");
}

void JsonScan::finish() {
  skip_space();
  if (at_ < text_.size()) fail_at(at_, "not valid JSON: nothing may follow the value");
}

SourcePosition JsonScan::where() const {
  const std::string_view before = text_.substr(0, value_);
  const std::size_t line = before.rfind('\n');
  const std::size_t begin = line == std::string_view::npos ? 0 : line + 1;
  return {.file = name_,
          .line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          .column = static_cast<int>(value_ - begin) + 1};
}

void JsonScan::fail(const std::string& what) const {
  throw InputError(where(), what);
}

void JsonScan::unknown_key() const {
  fail_at(key_at_, fmt::format("unknown key \"{}\"", key_.substr(0, 60)));
}

void JsonScan::fail_at(std::size_t place, const std::string& what) const {
  JsonScan there = *this;
  there.value_ = std::min(place, text_.size());
  there.fail(what);
}

void JsonScan::fail_expecting(const char* wanted) const {
  if (at_ >= text_.size())
    fail_at(at_, fmt::format("not valid JSON: the file ends where {} is expected", wanted));
  fail_at(at_, fmt::format("expected {}", wanted));
}

std::string load_text(const std::string& path, std::size_t limit) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(SourcePosition{.file = path}, "cannot be opened");
  std::string text;
  std::vector<char> block(std::size_t{1} << 20);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > limit)
      throw InputError(SourcePosition{.file = path},
                       fmt::format("is larger than {} MiB", limit >> 20));
  }
  if (file.bad()) throw InputError(SourcePosition{.file = path}, "cannot be read");
  if (text.starts_with("\x1f\x8b"))
    throw InputError(SourcePosition{.file = path}, "is compressed; unpack it first (gunzip)");
  return text;
}

}  // namespace sim
