#include "sim/scripts/shell/shell_condition.hpp"

#include <algorithm>
#include <array>

#include "sim/scripts/shell/shell_arithmetic.hpp"

namespace sim {
namespace {

constexpr int deepest_condition = 32;

class Condition {
 public:
  Condition(const std::vector<ShellText>& words, ShellVariables& variables, ShellExpander& expander)
      : words_{words}, variables_{variables}, expander_{expander} {}

  ShellTruth whole() {
    const ShellTruth truth = either();
    return at_ == words_.size() ? truth : unknown();
  }

 private:
  bool more() const { return at_ < words_.size(); }
  bool at(std::string_view text) const { return more() && words_[at_].text == text; }
  bool take(std::string_view text) {
    if (!at(text)) return false;
    ++at_;
    return true;
  }

  // The condition as it is written.
  ShellTruth unknown() const {
    std::string shown;
    for (const ShellText& word : words_)
      shown += (shown.empty() ? "" : " ") + word.text;
    return {std::nullopt, "[ " + shown + " ]"};
  }

  ShellTruth either() {
    ShellTruth left = both();
    while (take("||") || take("-o")) {
      const ShellTruth right = both();
      if (left.value.value_or(false) || right.value.value_or(false))
        left = {true, ""};
      else if (left.value)
        left = right;
    }
    return left;
  }
  ShellTruth both() {
    ShellTruth left = term();
    while (take("&&") || take("-a")) {
      const ShellTruth right = term();
      if (!left.value.value_or(true) || !right.value.value_or(true))
        left = {false, ""};
      else if (left.value)
        left = right;
    }
    return left;
  }

  ShellTruth term() {
    if (take("!")) return depth_++ > deepest_condition ? unknown() : negated(term());
    if (take("(")) {
      if (depth_++ > deepest_condition) return unknown();
      const ShellTruth inner = either();
      return take(")") ? inner : unknown();
    }
    if (!more()) return unknown();
    const ShellText& first = words_[at_++];
    if (first.text.size() == 2 && first.text.front() == '-' && more() &&
        !is_binary(words_[at_].text))
      return unary(first.text[1], words_[at_++]);
    if (more() && is_binary(words_[at_].text)) {
      const std::string op = words_[at_++].text;
      if (!more()) return unknown();
      return binary(op, first, words_[at_++]);
    }
    return is_empty(first, false);
  }

  static bool is_binary(std::string_view text) {
    constexpr std::array<std::string_view, 13> known{"=",   "==",  "!=",  "=~",  "<",   ">",  "-eq",
                                                     "-ne", "-lt", "-le", "-gt", "-ge", "-nt"};
    return std::ranges::find(known, text) != known.end();
  }

  // Whether the text is empty, or is not.
  ShellTruth is_empty(const ShellText& word, bool empty) {
    const ShellText text = expander_.text(word, ShellUnset::all_are_empty);
    if (const std::optional<std::string> why = variables_.unknowns.first(text.text))
      return {std::nullopt, *why};
    return {text.empty() == empty, ""};
  }

  ShellTruth unary(char test, const ShellText& word) {
    if (test == 'z' || test == 'n') return is_empty(word, test == 'z');
    if (test != 'v') return unknown();  // files
    return {variables_.find(word.text) != nullptr, ""};
  }

  ShellTruth binary(const std::string& op, const ShellText& left, const ShellText& right) {
    const bool numbers = op.size() == 3 && op.front() == '-';
    const ShellUnset unset = numbers ? ShellUnset::unknown : ShellUnset::variables_are_empty;
    const ShellText a = expander_.text(left, unset), b = expander_.text(right, unset);
    for (const ShellText* side : {&a, &b})
      if (const std::optional<std::string> why = variables_.unknowns.first(side->text))
        return {std::nullopt, *why};
    if (op == "=" || op == "==" || op == "!=") {
      const bool pattern = right.text.find_first_of("\"'") == std::string::npos;
      const bool equal = pattern ? matches_pattern(a.text, b.text) : a.text == b.text;
      return {equal == (op != "!="), ""};
    }
    if (!numbers || op == "-nt") return unknown();
    return compared(op, a.text, b.text);
  }

  ShellTruth compared(const std::string& op, const std::string& a, const std::string& b) const {
    const auto number = [](const std::string& text) {
      return shell_arithmetic(text, [](const std::string&) { return std::nullopt; });
    };
    const std::optional<std::int64_t> x = number(a), y = number(b);
    if (!x || !y) return unknown();
    if (op == "-eq") return {*x == *y, ""};
    if (op == "-ne") return {*x != *y, ""};
    if (op == "-lt") return {*x < *y, ""};
    if (op == "-le") return {*x <= *y, ""};
    if (op == "-gt") return {*x > *y, ""};
    return {*x >= *y, ""};
  }

  const std::vector<ShellText>& words_;
  ShellVariables& variables_;
  ShellExpander& expander_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

ShellTruth negated(ShellTruth truth) {
  if (truth.value) truth.value = !*truth.value;
  return truth;
}

ShellTruth shell_condition(const std::vector<ShellText>& words, ShellVariables& variables,
                           ShellExpander& expander) {
  return Condition{words, variables, expander}.whole();
}

}  // namespace sim
