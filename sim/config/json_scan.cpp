#include "sim/config/json_scan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>

#include "sim/config/characters.hpp"
#include "sim/config/gzip.hpp"
#include "sim/config/json_string.hpp"
#include "sim/config/shipped_only.hpp"

namespace sim {
namespace {

constexpr int max_depth = 64;

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
  if (const auto problem = read_json_string(text_, at_, into); !problem.empty())
    fail_at(at_, fmt::format("not valid JSON: {}", problem));
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
  check_readable(path);
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
  return is_gzip(text) ? unpack_gzip(text, path, limit) : text;
}

}  // namespace sim
