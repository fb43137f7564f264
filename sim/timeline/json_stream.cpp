#include "sim/timeline/json_stream.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

namespace sim {
namespace {

constexpr std::size_t capacity = std::size_t{1} << 20;
constexpr std::size_t longest_number = 24;

}  // namespace

JsonStream::JsonStream(std::ostream& out) : out_{out}, buffer_(capacity) {}

void JsonStream::room(std::size_t count) {
  if (used_ + count > buffer_.size()) flush();
}

void JsonStream::flush() {
  out_.write(buffer_.data(), static_cast<std::streamsize>(used_));
  if (!out_) throw std::runtime_error("writing the trace failed: is the disk full?");
  written_ += used_;
  used_ = 0;
}

void JsonStream::text(std::string_view literal) {
  while (!literal.empty()) {
    room(1);
    const std::size_t count = std::min(literal.size(), buffer_.size() - used_);
    std::copy_n(literal.data(), count, buffer_.data() + used_);
    used_ += count;
    literal.remove_prefix(count);
  }
}

void JsonStream::integer(std::int64_t value) {
  room(longest_number);
  char* const at = buffer_.data() + used_;
  used_ += static_cast<std::size_t>(std::to_chars(at, at + longest_number, value).ptr - at);
}

void JsonStream::microseconds(Duration value) {
  constexpr std::int64_t ticks = 1'000'000;
  integer(value.count() / ticks);
  std::int64_t fraction = value.count() % ticks;
  std::array<char, 7> digits{'.', '0', '0', '0', '0', '0', '0'};
  for (std::size_t i = digits.size(); i-- > 1; fraction /= 10)
    digits[i] = static_cast<char>('0' + fraction % 10);
  text({digits.data(), digits.size()});
}

void JsonStream::quoted(std::string_view value) {
  constexpr std::string_view hex = "0123456789abcdef";
  text("\"");
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      const std::array escaped{'\\', c};
      text({escaped.data(), escaped.size()});
    } else if (byte < 0x20) {
      const std::array escaped{'\\', 'u', '0', '0', hex[byte >> 4U], hex[byte & 15U]};
      text({escaped.data(), escaped.size()});
    } else {
      text({&c, 1});
    }
  }
  text("\"");
}

}  // namespace sim
