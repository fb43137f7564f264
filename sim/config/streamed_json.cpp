#include "sim/config/streamed_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

#include "sim/config/characters.hpp"
#include "sim/config/json_string.hpp"

namespace sim {
namespace {

constexpr std::size_t streamed_block = std::size_t{1} << 20;
constexpr int deepest_value = 64;
constexpr std::size_t longest_number = 512;
constexpr std::size_t longest_word = 32;
constexpr std::size_t longest_escape = 16;

// Characters that end a run of plain ones in a string.
constexpr std::array<bool, 256> run_ends = [] {
  std::array<bool, 256> ends{};
  for (std::size_t c = 0; c < 0x20; ++c)
    ends[c] = true;
  ends['"'] = ends['\\'] = true;
  return ends;
}();

const char* end_of_run(const char* at) {
  while (!run_ends[static_cast<unsigned char>(*at)])
    ++at;
  return at;
}

}  // namespace

StreamedJson::StreamedJson(ByteSource& source) : source_{source} {
  buffer_.resize(streamed_block + 1);
  begin_ = at_ = end_ = value_ = buffer_.data();
  refill();
}

void StreamedJson::refill() {
  const Place here = place_of(at_);
  if (value_ != nullptr && value_ < at_) {
    last_value_ = position_of(value_);
    value_ = nullptr;
  }
  const auto done = static_cast<std::uint64_t>(at_ - begin_);
  const auto left = static_cast<std::size_t>(end_ - at_);
  before_ += done;
  line_ = here.line;
  line_begin_ = here.line_begin;
  std::copy(at_, end_, buffer_.data());
  begin_ = at_ = buffer_.data();
  if (value_ != nullptr) value_ = at_;
  std::size_t filled = left;
  while (filled < streamed_block && !ended_) {
    const std::size_t count = source_.read(buffer_.data() + filled, streamed_block - filled);
    ended_ = count == 0;
    filled += count;
  }
  end_ = begin_ + filled;
  buffer_[filled] = '\0';
}

void StreamedJson::skip_space() {
  while (true) {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')
      ++at_;
    if (at_ < end_ || ended_) return;
    refill();
  }
}

StreamedJson::Kind StreamedJson::peek() {
  skip_space();
  mark_value();
  switch (*at_) {
    case '{':
      return Kind::object;
    case '[':
      return Kind::list;
    case '"':
      return Kind::text;
    case '-':
      return Kind::number;
    default:
      return is_digit(*at_) ? Kind::number : Kind::word;
  }
}

void StreamedJson::open(char bracket) {
  peek();
  if (*at_ != bracket) fail_expecting(bracket == '{' ? "an object" : "a list");
  if (++depth_ > deepest_value) fail(fmt::format("nested deeper than {}", deepest_value));
  ++at_;
}

void StreamedJson::close(char bracket) {
  skip_space();
  if (*at_ != bracket) fail_expecting(bracket == '}' ? "',' or '}'" : "',' or ']'");
  ++at_;
  --depth_;
}

bool StreamedJson::next_key(bool first) {
  skip_space();
  if (first ? *at_ == '}' : *at_ != ',') return false;
  if (!first) {
    ++at_;
    skip_space();
  }
  if (*at_ != '"') fail_expecting("a key in double quotes");
  key_.clear();
  read_text(&key_);
  skip_space();
  if (*at_ != ':') fail_expecting("':'");
  ++at_;
  skip_space();
  mark_value();
  return true;
}

bool StreamedJson::next_item(bool first) {
  skip_space();
  if (first ? *at_ == ']' : *at_ != ',') return false;
  if (!first) ++at_;
  skip_space();
  mark_value();
  return true;
}

void StreamedJson::text_into(std::string& text) {
  if (peek() != Kind::text) fail_expecting("text in double quotes");
  text.clear();
  read_text(&text);
}

// nullptr: what it says is of no use, and its escapes are not looked at.
void StreamedJson::read_text(std::string* into) {
  ++at_;
  while (true) {
    const char* const stop = end_of_run(at_);
    if (into != nullptr) into->append(at_, stop);
    at_ = stop;
    if (at_ == end_) {
      if (ended_) fail_expecting("the end of a string");
      refill();
    } else if (*at_ == '"') {
      ++at_;
      return;
    } else if (*at_ != '\\') {
      fail_here("not valid JSON: a string goes on over the end of the line or holds a tab");
    } else {
      ensure(longest_escape);
      ++at_;
      if (into == nullptr) {
        if (at_ < end_) ++at_;
        continue;
      }
      const std::string_view rest{at_, static_cast<std::size_t>(end_ - at_)};
      std::size_t length = 0;
      const std::string_view problem = read_json_escape(rest, length, *into);
      at_ += std::min(length, rest.size());
      if (!problem.empty()) fail_here(fmt::format("not valid JSON: {}", problem));
    }
  }
}

void StreamedJson::skip_digits() {
  if (!is_digit(*at_)) fail_expecting("a digit");
  while (is_digit(*at_))
    ++at_;
}

std::string_view StreamedJson::number() {
  if (peek() != Kind::number) fail_expecting("a number");
  ensure(longest_number);
  const char* const begin = at_;
  if (*at_ == '-') ++at_;
  if (*at_ == '0' && is_digit(at_[1])) fail("not valid JSON: a number must not begin with 0");
  skip_digits();
  if (*at_ == '.') {
    ++at_;
    skip_digits();
  }
  if (*at_ == 'e' || *at_ == 'E') {
    ++at_;
    if (*at_ == '+' || *at_ == '-') ++at_;
    skip_digits();
  }
  const auto length = static_cast<std::size_t>(at_ - begin);
  if (length >= longest_number)
    fail(fmt::format("a number of more than {} characters", longest_number));
  return {begin, length};
}

std::int64_t StreamedJson::integer(IntegerRange range) {
  const std::string_view written = number();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error != std::errc{} || end != written.data() + written.size())
    fail(fmt::format("{} is no whole number, or too large", written.substr(0, 40)));
  if (value < range.min || value > range.max)
    fail(fmt::format("{} is out of range; allowed: {} to {}", value, range.min, range.max));
  return value;
}

double StreamedJson::real(RealRange range) {
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

std::string_view StreamedJson::word() {
  peek();
  ensure(longest_word);
  const char* const begin = at_;
  if (*at_ == '-') ++at_;
  while ((*at_ >= 'a' && *at_ <= 'z') || (*at_ >= 'A' && *at_ <= 'Z'))
    ++at_;
  return {begin, static_cast<std::size_t>(at_ - begin)};
}

void StreamedJson::skip() {
  switch (peek()) {
    case Kind::object:
      return object([this](std::string_view) { skip(); });
    case Kind::list:
      return list([this] { skip(); });
    case Kind::text:
      return read_text(nullptr);
    case Kind::number:
      ensure(2);
      if (at_[0] == '-' && at_[1] == 'I') break;
      static_cast<void>(number());
      return;
    case Kind::word:
      break;
  }
  const std::string_view written = word();
  for (const std::string_view known : {"true", "false", "null", "NaN", "Infinity", "-Infinity"})
    if (written == known) return;
  at_ -= written.size();
  fail_expecting("a value");
}

void StreamedJson::finish() {
  skip_space();
  if (at_ < end_) fail_here("not valid JSON: nothing may follow the value");
}

StreamedJson::Place StreamedJson::place_of(const char* at) const {
  const auto* const begin =
      std::find(std::make_reverse_iterator(at), std::make_reverse_iterator(begin_), '\n').base();
  if (begin == begin_) return {line_, line_begin_};
  return {line_ + static_cast<int>(std::count(begin_, at, '\n')),
          before_ + static_cast<std::uint64_t>(begin - begin_)};
}

SourcePosition StreamedJson::position_of(const char* at) const {
  const Place place = place_of(at);
  const std::uint64_t column =
      before_ + static_cast<std::uint64_t>(at - begin_) - place.line_begin + 1;
  constexpr std::uint64_t most = std::numeric_limits<int>::max();
  return {.file = source_.name(),
          .line = place.line,
          .column = static_cast<int>(std::min(column, most))};
}

SourcePosition StreamedJson::where() const {
  return value_ == nullptr ? last_value_ : position_of(value_);
}

void StreamedJson::fail(const std::string& what) const {
  throw InputError(where(), what);
}

void StreamedJson::fail_here(const std::string& what) const {
  throw InputError(position_of(at_), what);
}

void StreamedJson::fail_expecting(const char* wanted) const {
  if (at_ >= end_)
    fail_here(fmt::format("not valid JSON: the file ends where {} is expected, after {}", wanted,
                          size_text(consumed())));
  fail_here(fmt::format("expected {}", wanted));
}

}  // namespace sim
