// Command-line flags as they are kept in files: a list of "--flag value", or the arrays of a bash
// script, NAME=( --flag value ), with comments, quotes and '\' at line ends. The tree is one
// object:
// "--flag" to true (no value follows), to a text, or to a list of several.
//
// NAME=value assignments of the same file stand in for $NAME and ${NAME}. Any other expansion stays
// in the text as it is written: whoever asks for that value has to refuse it. What such a list may
// hold besides flags (a launcher, an array that lies elsewhere) is refused here.
#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/parsers.hpp"

namespace sim {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The length of the shell name at the front of `text`.
std::size_t name_length(std::string_view text) {
  std::size_t length = 0;
  while (length < text.size() && is_name_char(text[length]))
    ++length;
  return length > 0 && text.front() >= '0' && text.front() <= '9' ? 0 : length;
}

struct Token {
  TextPlace place;
  std::string text;
  bool begins_line = false;  // first of a line that no '\' continues
  bool quoted = false;
};

class Tokens {
 public:
  explicit Tokens(const Tree& tree) : tree_{tree}, source_{tree.source()} {}

  bool next(Token& token) {
    if (!skip_space()) return false;
    token = {place_, {}, line_begins_, false};
    line_begins_ = false;
    while (at_ < source_.size() && !is_space(source_[at_]))
      take_part(token);
    return true;
  }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

  void advance() {
    ++place_.byte;
    if (source_[at_++] == '\n') place_ = {place_.line + 1, 0};
  }
  bool at_continuation() const {
    const std::string_view rest = source_.substr(at_);
    return rest.starts_with("\\\n") || rest.starts_with("\\\r\n");
  }
  void skip_continuation() {
    while (source_[at_] != '\n')
      advance();
    advance();
  }

  bool skip_space() {
    while (at_ < source_.size()) {
      if (at_continuation()) {
        skip_continuation();
      } else if (source_[at_] == '#') {
        while (at_ < source_.size() && source_[at_] != '\n')
          advance();
      } else if (is_space(source_[at_])) {
        if (source_[at_] == '\n') line_begins_ = true;
        advance();
      } else {
        return true;
      }
    }
    return false;
  }

  void take_part(Token& token) {
    const char c = source_[at_];
    if (at_continuation()) {
      skip_continuation();
    } else if (c == '\'' || c == '"') {
      take_quoted(token, c);
    } else {
      if (c == '\\' && at_ + 1 < source_.size()) advance();
      token.text += source_[at_];
      advance();
    }
  }

  void take_quoted(Token& token, char quote) {
    const TextPlace begin = place_;
    token.quoted = true;
    advance();
    while (at_ < source_.size() && source_[at_] != quote) {
      if (quote == '"' && source_[at_] == '\\' && at_ + 1 < source_.size()) advance();
      token.text += source_[at_];
      advance();
    }
    if (at_ >= source_.size()) tree_.fail(begin, "the quote that opens here is never closed");
    advance();
  }

  const Tree& tree_;
  std::string_view source_;
  std::size_t at_ = 0;
  TextPlace place_{1, 0};
  bool line_begins_ = true;
};

class FlagsTree {
 public:
  explicit FlagsTree(Tree& tree) : tree_{tree} {}

  void parse() {
    Tokens tokens{tree_};
    for (Token token; tokens.next(token);)
      take(token);
    close_array();
    tree_.open({1, 0}, ValueKind::object);
    for (const Flag& flag : flags_)
      add(flag);
    tree_.close();
    if (flags_.empty()) tree_.fail({1, 0}, "there is no --flag in this file");
  }

 private:
  struct Flag {
    Token name;
    std::vector<Token> values;
  };

  void take(Token token) {
    if (token.begins_line && !in_array_ && takes_assignment(token)) return;
    if (in_array_ && !token.quoted && token.text.ends_with(')') &&
        token.text.find('(') == std::string::npos) {
      token.text.pop_back();
      if (!token.text.empty()) take_word(token);
      close_array();
      return;
    }
    take_word(token);
  }

  void close_array() {
    in_array_ = false;
    expects_value_ = false;
  }

  // "NAME=value", "NAME=(" and "NAME+=(".
  bool takes_assignment(const Token& token) {
    if (token.text == "export") return true;
    const std::string_view text = token.text;
    const std::size_t name = name_length(text);
    if (name == 0) return false;
    std::string_view rest = text.substr(name);
    if (rest.starts_with("+=")) rest.remove_prefix(1);
    if (!rest.starts_with('=')) return false;
    rest.remove_prefix(1);
    if (rest.starts_with('(')) {
      arrays_.insert(std::string{text.substr(0, name)});
      in_array_ = true;
      rest.remove_prefix(1);
      if (!rest.empty()) take(Token{token.place, std::string{rest}, false, token.quoted});
    } else {
      variables_[std::string{text.substr(0, name)}] = expanded(rest);
    }
    return true;
  }

  void take_word(Token token) {
    token.text = expanded(token.text);
    // The elements of an array that this file holds are in the list already.
    if (token.text.starts_with("${") && token.text.ends_with("[@]}")) {
      if (!arrays_.contains(token.text.substr(2, token.text.size() - 6)))
        tree_.fail(token.place, fmt::format("the arguments in {} are not in this file: paste them, "
                                            "too",
                                            token.text));
      return;
    }
    if (token.text.starts_with("--") && token.text.size() > 2) {
      take_flag(token);
    } else if (expects_value_) {
      flags_.back().values.push_back(token);
    } else {
      tree_.fail(token.place, fmt::format("'{}' is no flag: paste only the arguments, \"--flag "
                                          "value\", or bash arrays of them",
                                          token.text));
    }
  }

  void take_flag(const Token& token) {
    Token name = token;
    const std::size_t equals = token.text.find('=');
    name.text = token.text.substr(0, equals);
    flags_.push_back({name, {}});
    expects_value_ = equals == std::string::npos;
    if (!expects_value_)
      flags_.back().values.push_back({token.place, token.text.substr(equals + 1), false, false});
  }

  // $NAME and ${NAME} of names that this file assigns.
  std::string expanded(std::string_view text) const {
    std::string result;
    while (!text.empty()) {
      const std::size_t dollar = std::min(text.find('$'), text.size());
      result += text.substr(0, dollar);
      text.remove_prefix(dollar);
      if (text.empty()) break;
      const bool braced = text.starts_with("${");
      const std::string_view inner = text.substr(braced ? 2 : 1);
      const std::size_t length = name_length(inner);
      const auto found = variables_.find(std::string{inner.substr(0, length)});
      const bool closed = !braced || inner.substr(length).starts_with('}');
      if (found == variables_.end() || !closed) {
        result += '$';
        text.remove_prefix(1);
        continue;
      }
      result += found->second;
      if (result.size() > Tree::max_bytes) tree_.fail({1, 0}, "the variables expand to no end");
      text.remove_prefix(length + (braced ? 3 : 1));
    }
    return result;
  }

  void add(const Flag& flag) {
    tree_.add_key(flag.name.place, flag.name.text);
    if (flag.values.size() > 1) tree_.open(flag.values.front().place, ValueKind::list);
    for (const Token& value : flag.values)
      tree_.add_scalar(value.place, ValueKind::plain, value.text);
    if (flag.values.size() > 1) tree_.close();
    if (flag.values.empty()) tree_.add_scalar(flag.name.place, ValueKind::plain, "true");
  }

  Tree& tree_;
  std::vector<Flag> flags_;
  std::map<std::string, std::string> variables_;
  std::set<std::string> arrays_;
  bool in_array_ = false;
  bool expects_value_ = false;
};

}  // namespace

void parse_flags_into(Tree& tree) {
  FlagsTree{tree}.parse();
}

}  // namespace sim
