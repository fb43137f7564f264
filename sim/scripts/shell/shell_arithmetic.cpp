#include "sim/scripts/shell/shell_arithmetic.hpp"

#include <array>

#include "sim/config/characters.hpp"
#include "sim/scripts/shell/shell_text.hpp"

namespace sim {
namespace {

constexpr std::int64_t largest = 1LL << 53;
constexpr int deepest_arithmetic = 64;
constexpr int most_operands = 10'000;  // variables may name variables

using ValueOf = std::function<std::optional<std::string>(const std::string& name)>;
using Number = std::optional<std::int64_t>;

struct Operator {
  std::string_view text;
  int binds = 0;
};
constexpr std::array operators{
    Operator{"||", 1}, Operator{"&&", 2}, Operator{"==", 3}, Operator{"!=", 3}, Operator{"<=", 4},
    Operator{">=", 4}, Operator{"**", 7}, Operator{"<", 4},  Operator{">", 4},  Operator{"=", 3},
    Operator{"+", 5},  Operator{"-", 5},  Operator{"*", 6},  Operator{"/", 6},  Operator{"%", 6}};

// Both are at most 2^53 in size.
Number calculated(std::string_view op, std::int64_t a, std::int64_t b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a != 0 && std::abs(b) > largest / std::abs(a) ? Number{} : Number{a * b};
  if (op == "/" || op == "%") return b == 0 ? Number{} : Number{op == "/" ? a / b : a % b};
  if (op == "**") {
    std::int64_t power = 1;
    if (b < 0 || b > 64) return std::nullopt;
    for (std::int64_t i = 0; i < b; ++i) {
      const Number next = calculated("*", power, a);
      if (!next) return std::nullopt;
      power = *next;
    }
    return power;
  }
  if (op == "==" || op == "=") return a == b;  // = is that of expr
  if (op == "!=") return a != b;
  if (op == "<") return a < b;
  if (op == ">") return a > b;
  if (op == "<=") return a <= b;
  if (op == ">=") return a >= b;
  return op == "&&" ? a != 0 && b != 0 : a != 0 || b != 0;
}

class Parser {
 public:
  Parser(std::string_view text, const ValueOf& value_of, int depth, int& operands)
      : text_{text}, value_of_{value_of}, depth_{depth}, operands_{operands} {}

  Number whole() {
    const Number value = choice();
    skip_blanks();
    return text_.empty() ? value : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (!text_.empty() && is_shell_blank(text_.front()))
      text_.remove_prefix(1);
  }
  bool take(char c) {
    skip_blanks();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }

  // a ? b : c
  Number choice() {
    const Number condition = binary(1);
    if (!take('?')) return condition;
    if (++depth_ > deepest_arithmetic) return std::nullopt;
    const Number first = choice();
    if (!take(':')) return std::nullopt;
    const Number second = choice();
    if (!condition) return std::nullopt;
    return *condition != 0 ? first : second;
  }

  const Operator* next_operator() {
    skip_blanks();
    for (const Operator& op : operators)
      if (text_.starts_with(op.text)) return &op;
    return nullptr;
  }

  Number binary(int least) {
    Number left = unary();
    for (const Operator* op = next_operator(); op != nullptr && op->binds >= least;
         op = next_operator()) {
      text_.remove_prefix(op->text.size());
      const Number right = binary(op->binds + 1);
      if (!left || !right) return std::nullopt;
      left = calculated(op->text, *left, *right);
      if (left && std::abs(*left) > largest) return std::nullopt;
    }
    return left;
  }

  Number unary() {
    if (++depth_ > deepest_arithmetic) return std::nullopt;
    Number value;
    if (take('-')) {
      value = unary();
      if (value) value = -*value;
    } else if (take('+')) {
      value = unary();
    } else if (take('!')) {
      value = unary();
      if (value) value = *value == 0;
    } else if (take('(')) {
      value = choice();
      if (!take(')')) value.reset();
    } else {
      value = operand();
    }
    --depth_;
    return value;
  }

  Number operand() {
    skip_blanks();
    if (++operands_ > most_operands) return std::nullopt;
    if (!text_.empty() && is_digit(text_.front())) return number();
    const std::size_t length = shell_name_length(text_);
    if (length == 0) return std::nullopt;
    const std::string name{text_.substr(0, length)};
    text_.remove_prefix(length);
    const std::optional<std::string> value = value_of_(name);
    if (!value || depth_ >= deepest_arithmetic) return std::nullopt;
    return Parser{*value, value_of_, depth_ + 8, operands_}.whole();
  }

  // 010 is 8 in a shell, which nobody means here: not known.
  Number number() {
    std::int64_t value = 0;
    const bool octal = text_.size() > 1 && text_.front() == '0' && is_digit(text_[1]);
    for (; !text_.empty() && is_digit(text_.front()); text_.remove_prefix(1)) {
      value = value * 10 + (text_.front() - '0');
      if (value > largest) return std::nullopt;
    }
    if (octal || (!text_.empty() && is_shell_name_char(text_.front()))) return std::nullopt;
    return value;
  }

  std::string_view text_;
  const ValueOf& value_of_;
  int depth_;
  int& operands_;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view text, const ValueOf& value_of) {
  int operands = 0;
  return Parser{text, value_of, 0, operands}.whole();
}

}  // namespace sim
