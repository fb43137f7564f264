#include "sim/scripts/python/python_lexer.hpp"

#include <algorithm>
#include <array>

#include "sim/config/characters.hpp"

namespace sim::python {
namespace {

constexpr std::array<std::string_view, 22> long_signs{
    "**=", "//=", ">>=", "<<=", "...", "==", "!=", "<=", ">=", "->", "+=",
    "-=",  "*=",  "/=",  "%=",  "|=",  "&=", "^=", "**", "//", ":=", "<<"};
constexpr std::string_view no_token = "?";

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_{text} {}

  std::vector<Token> read() {
    while (at_ < text_.size()) {
      if (fresh_line_ && !begin_line()) continue;
      token();
    }
    if (!tokens_.empty() && tokens_.back().kind != Token::Kind::newline)
      add(Token::Kind::newline, "");
    for (; indents_.size() > 1; indents_.pop_back())
      add(Token::Kind::dedent, "");
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void step() {
    if (text_[at_++] != '\n') return;
    ++line_;
    line_start_ = at_;
  }
  void add(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, place_, std::move(text), from_});
  }
  void mark() {
    place_ = {line_, static_cast<std::int32_t>(at_ - line_start_)};
    from_ = at_;
  }
  void skip_comment() {
    while (at_ < text_.size() && peek() != '\n')
      step();
  }

  // False: the line is blank, and read.
  bool begin_line() {
    std::size_t width = 0;
    for (; peek() == ' ' || peek() == '\t'; step())
      width = peek() == '\t' ? (width / 8 + 1) * 8 : width + 1;
    if (peek() == '#') skip_comment();
    if (at_ >= text_.size()) return false;
    if (peek() == '\n' || peek() == '\r') {
      step();
      return false;
    }
    mark();
    fresh_line_ = false;
    if (width > indents_.back()) {
      indents_.push_back(width);
      add(Token::Kind::indent, "");
    }
    for (; width < indents_.back(); indents_.pop_back())
      add(Token::Kind::dedent, "");
    return true;
  }

  void token() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\r' || (peek() == '\\' && peek(1) == '\n'))
      step();
    if (at_ >= text_.size()) return;
    if (peek() == '#') return skip_comment();
    mark();
    const char c = peek();
    if (c == '\n') {
      step();
      if (depth_ > 0) return;
      fresh_line_ = true;
      return add(Token::Kind::newline, "");
    }
    if (c == '"' || c == '\'') return string("");
    if (starts_name(c)) return name();
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number();
    sign();
  }

  void name() {
    std::string word;
    for (; in_name(peek()); step())
      word += peek();
    std::string lower = word;
    std::ranges::transform(lower, lower.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool quote = peek() == '"' || peek() == '\'';
    if (quote && (lower == "f" || lower == "r" || lower == "b" || lower == "u" || lower == "rf" ||
                  lower == "fr" || lower == "rb" || lower == "br"))
      return string(lower);
    add(Token::Kind::name, std::move(word));
  }

  void number() {
    std::string digits;
    while (in_name(peek()) || peek() == '.' ||
           ((peek() == '-' || peek() == '+') && !digits.empty() &&
            (digits.back() == 'e' || digits.back() == 'E') && digits.find('x') == digits.npos)) {
      if (peek() != '_') digits += peek();
      step();
    }
    add(Token::Kind::number, std::move(digits));
  }

  void string(std::string_view prefix) {
    const char quote = peek();
    const bool triple = peek(1) == quote && peek(2) == quote;
    const int quotes = triple ? 3 : 1;
    for (int i = 0; i < quotes; ++i)
      step();
    const bool raw = prefix.find('r') != std::string_view::npos;
    std::string content;
    while (at_ < text_.size()) {
      if (peek() == quote && (!triple || (peek(1) == quote && peek(2) == quote))) {
        for (int i = 0; i < quotes; ++i)
          step();
        const bool format = prefix.find('f') != std::string_view::npos;
        return add(format ? Token::Kind::format : Token::Kind::string, format ? "" : content);
      }
      if (peek() == '\n' && !triple) break;
      if (peek() == '\\' && !raw) {
        step();
        if (at_ >= text_.size()) break;
        if (peek() != '\n') content += peek() == 'n' ? '\n' : peek() == 't' ? '\t' : peek();
      } else {
        content += peek();
      }
      step();
    }
    add(Token::Kind::sign, std::string{no_token});
  }

  void sign() {
    const std::string_view rest = text_.substr(at_);
    std::string_view found = rest.substr(0, 1);
    for (const std::string_view candidate : long_signs)
      if (found.size() == 1 && rest.starts_with(candidate)) found = candidate;
    for (std::size_t i = 0; i < found.size(); ++i)
      step();
    constexpr std::string_view opening = "([{", closing = ")]}";
    if (opening.find(found) != std::string_view::npos) ++depth_;
    if (closing.find(found) != std::string_view::npos && depth_ > 0) --depth_;
    add(Token::Kind::sign, std::string{found});
  }

  std::string_view text_;
  std::size_t at_ = 0, line_start_ = 0, from_ = 0;
  std::int32_t line_ = 1;
  TextPlace place_;
  int depth_ = 0;  // of brackets, within which line breaks are blanks
  bool fresh_line_ = true;
  std::vector<std::size_t> indents_{0};
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text) {
  return Lexer{text}.read();
}

}  // namespace sim::python
