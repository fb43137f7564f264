#include "tests/fuzz/support/mutate.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <vector>

#include "sim/base/random.hpp"

namespace fuzz {
namespace {

// Values at the edge of what numbers, words and texts can be.
constexpr std::array<std::string_view, 22> edges = {"0",
                                                    "-1",
                                                    "1",
                                                    "3",
                                                    "2147483648",
                                                    "9223372036854775807",
                                                    "18446744073709551616",
                                                    "1e308",
                                                    "1e-308",
                                                    "1e999",
                                                    "0.1",
                                                    "nan",
                                                    "inf",
                                                    "null",
                                                    "true",
                                                    "[]",
                                                    "{}",
                                                    "\"\"",
                                                    "''",
                                                    "\xff\xfe",
                                                    "\x1b[31m",
                                                    "99999999999999999999 GiB"};

struct Span {
  std::size_t begin = 0, size = 0;
};

class Mutation {
 public:
  Mutation(std::string_view text, std::uint64_t seed) : text_{text}, seed_{seed} {}

  std::string result() {
    for (std::uint64_t left = 1 + below(4); left > 0; --left)
      if (!text_.empty()) make_mistake();
    return std::move(text_);
  }

 private:
  std::uint64_t below(std::uint64_t sides) {
    return sim::hash_combine(seed_, draw_++) % std::max<std::uint64_t>(sides, 1);
  }

  void make_mistake() {
    const std::size_t at = below(text_.size());
    switch (below(12)) {
      case 0:
        text_[at] = static_cast<char>(text_[at] ^ (1 << below(8)));
        return;
      case 1:
        text_.insert(at, 1, static_cast<char>(below(256)));
        return;
      case 2:
        text_.erase(at, 1 + below(20));
        return;
      case 3:
        text_.resize(at);
        return;
      case 4:
        text_.insert(below(text_.size()), text_.substr(at, 1 + below(60)));
        return;
      case 5:
        return take_line(true);
      case 6:
        return take_line(false);
      case 7: {
        const Span line = line_at(at);
        text_.insert(line.begin, below(2) == 0 ? "  " : "\t");
        return;
      }
      case 8:
      case 9:
        return replace(word(true), std::string{edges[below(edges.size())]});
      default: {
        const Span other = word(below(2) == 0);
        return replace(word(false), text_.substr(other.begin, other.size));
      }
    }
  }

  // Takes a line away, or puts it where another one begins, too.
  void take_line(bool away) {
    const Span line = line_at(below(text_.size()));
    const std::string copy = text_.substr(line.begin, line.size);
    if (away) text_.erase(line.begin, line.size);
    if (away || text_.empty()) return;
    text_.insert(line_at(below(text_.size())).begin, copy);
  }

  void replace(Span word, const std::string& by) { text_.replace(word.begin, word.size, by); }

  // With its line break.
  Span line_at(std::size_t at) const {
    const std::size_t before = at == 0 ? std::string::npos : text_.rfind('\n', at - 1);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    const std::size_t end = std::min(text_.find('\n', at), text_.size() - 1) + 1;
    return {begin, end - begin};
  }

  // A word, or a number, behind a place that is drawn; empty where none follows.
  Span word(bool number) {
    const auto belongs = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
    };
    const auto begins = [&](char c) {
      return number ? std::isdigit(static_cast<unsigned char>(c)) != 0 : belongs(c);
    };
    const auto end = text_.end();
    auto first = text_.begin() + static_cast<std::ptrdiff_t>(below(text_.size()));
    first = std::find_if_not(first, end, belongs);  // not the rest of one
    first = std::find_if(first, end, begins);
    const auto last = std::find_if_not(first, end, belongs);
    return {static_cast<std::size_t>(first - text_.begin()),
            static_cast<std::size_t>(last - first)};
  }

  std::string text_;
  std::uint64_t seed_, draw_ = 0;
};

std::uint64_t variable(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

std::string mutated(std::string_view text, std::uint64_t seed) {
  return Mutation{text, seed}.result();
}

Draws draws(std::uint64_t count_in_ci) {
  return {.count = count_in_ci * variable("STEPCAST_MUTATIONS", 1),
          .seed = variable("STEPCAST_MUTATIONS_SEED", 1)};
}

}  // namespace fuzz
