// JSON (RFC 8259) by recursive descent. Our own, because a position is wanted for every value and
// key, which nlohmann's parser does not give; the tests hold the two against each other.
#include <fmt/format.h>

#include <cstdint>
#include <optional>

#include "sim/config/json_string.hpp"
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
    if (const auto problem = read_json_string(text_, at_, result); !problem.empty()) fail(problem);
    return result;
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
