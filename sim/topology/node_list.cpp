#include "sim/topology/node_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>

#include "sim/base/printable.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {
namespace {

constexpr std::size_t most_digits = 9;
constexpr std::size_t longest_name = 253;  // of a host in the DNS (RFC 1035, section 2.3.4)
constexpr auto most_names_of_list = static_cast<std::size_t>(most_nodes);

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Letters of a host's name, with what sites put into names of their own.
bool is_name_letter(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
         c == '.';
}

class NodeListParser {
 public:
  explicit NodeListParser(std::string_view text) : text_{text} {}

  std::vector<std::string> parse() {
    do {
      add_names();
    } while (take(','));
    if (at_ < text_.size())
      fail(
          fmt::format("'{}' is no part of a name; allowed: letters, digits, '-', '_' and '.', "
                      "ranges in brackets, commas",
                      printable(text_.substr(at_, 1))));
    return std::move(names_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument(fmt::format("list of nodes, column {}: {}", at_ + 1, what));
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ')
      ++at_;
  }

  // One name with all that its brackets make of it.
  void add_names() {
    skip_blanks();
    std::vector<std::string> made{""};
    const std::size_t first = at_;
    while (at_ < text_.size()) {
      if (is_name_letter(text_[at_])) {
        for (std::string& name : made)
          name += text_[at_];
        ++at_;
      } else if (take('[')) {
        made = with_numbers(made);
      } else {
        break;
      }
      if (made.front().size() > longest_name)
        fail(fmt::format("a name has more than {} letters", longest_name));
    }
    if (at_ == first) fail("a name is missing");
    skip_blanks();
    check_count(names_.size() + made.size());
    names_.insert(names_.end(), made.begin(), made.end());
  }

  void check_count(std::size_t count) const {
    if (count > most_names_of_list) fail(fmt::format("more than {} names", most_names_of_list));
  }

  std::vector<std::string> with_numbers(const std::vector<std::string>& names) {
    std::vector<std::string> numbers;
    do {
      add_range(numbers);
    } while (take(','));
    if (!take(']')) fail("expected ',', '-' or ']' in brackets");
    check_count(names.size() * numbers.size());
    std::vector<std::string> made;
    made.reserve(names.size() * numbers.size());
    for (const std::string& name : names)
      for (const std::string& number : numbers)
        made.push_back(name + number);
    return made;
  }

  void add_range(std::vector<std::string>& numbers) {
    const std::string_view low = digits();
    const int first = value_of(low);
    const int last = take('-') ? value_of(digits()) : first;
    if (last < first) fail(fmt::format("the range ends at {}, before its start {}", last, first));
    check_count(numbers.size() + static_cast<std::size_t>(last - first) + 1);
    for (int number = first; number <= last; ++number)
      numbers.push_back(fmt::format("{:0{}}", number, low.size()));
  }

  std::string_view digits() {
    const std::size_t first = at_;
    while (at_ < text_.size() && is_digit(text_[at_]))
      ++at_;
    if (at_ == first) fail("expected a number");
    if (at_ - first > most_digits)
      fail(fmt::format("a number has more than {} digits", most_digits));
    return text_.substr(first, at_ - first);
  }

  static int value_of(std::string_view digits) {
    int value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> names_;
};

// A name as what stands before the digits at its end, and these digits.
struct NumberedName {
  std::string_view stem, digits;
  int number = 0;
};

std::optional<NumberedName> numbered(std::string_view name) {
  std::size_t first = name.size();
  while (first > 0 && name.size() - first < most_digits && is_digit(name[first - 1]))
    --first;
  if (first == name.size()) return std::nullopt;
  NumberedName made{.stem = name.substr(0, first), .digits = name.substr(first)};
  std::from_chars(made.digits.data(), made.digits.data() + made.digits.size(), made.number);
  return made;
}

// Whether `next` is what a range from `first` has `steps` behind it.
bool continues(const NumberedName& first, const NumberedName& next, int steps) {
  return first.stem == next.stem && next.number == first.number + steps &&
         next.digits == fmt::format("{:0{}}", next.number, first.digits.size());
}

// How many of the names from `at` on are one range.
std::size_t length_of_range(std::span<const std::string> names, std::size_t at,
                            const NumberedName& first) {
  std::size_t length = 1;
  for (; at + length < names.size(); ++length) {
    const std::optional<NumberedName> next = numbered(names[at + length]);
    if (!next || !continues(first, *next, static_cast<int>(length))) break;
  }
  return length;
}

}  // namespace

std::vector<std::string> expand_node_list(std::string_view text) {
  return NodeListParser{text}.parse();
}

std::string node_list_of(std::span<const std::string> names) {
  std::string text;
  for (std::size_t at = 0; at < names.size();) {
    if (at > 0) text += ',';
    const std::optional<NumberedName> first = numbered(names[at]);
    if (!first) {
      text += names[at++];
      continue;
    }
    // All ranges in a row with this stem.
    std::string ranges;
    std::size_t count = 0, end = at;
    while (end < names.size()) {
      const std::optional<NumberedName> low = numbered(names[end]);
      if (!low || low->stem != first->stem) break;
      const std::size_t length = length_of_range(names, end, *low);
      ranges += fmt::format("{}{}", count > 0 ? "," : "", low->digits);
      if (length > 1) ranges += fmt::format("-{}", numbered(names[end + length - 1])->digits);
      end += length;
      count += length;
    }
    text += count == 1 ? names[at] : fmt::format("{}[{}]", first->stem, ranges);
    at = end;
  }
  return text;
}

}  // namespace sim
