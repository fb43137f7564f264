#include "sim/scripts/shell/shell_lexer.hpp"

#include <algorithm>
#include <utility>

namespace sim {
namespace {

constexpr int deepest_quotes = 64;

[[noreturn]] void never_closed(const ShellText& text, std::size_t at, const char* what) {
  throw ShellProblem{text.from[at], std::string{what} + " that opens here is never closed"};
}

std::size_t end_of_part(const ShellText& text, std::size_t at, int depth);

// Behind the '}' or ')' that closes what begins at `open`.
std::size_t end_of_nested(const ShellText& text, std::size_t open, char opens, char closes,
                          int depth) {
  if (depth > deepest_quotes) throw ShellProblem{text.from[open], "nested too deeply"};
  int level = 1;
  for (std::size_t at = open + 1; at < text.text.size();) {
    const char c = text.text[at];
    if (c == closes && --level == 0) return at + 1;
    if (c == opens) ++level;
    at = c == '\\' ? at + 2 : end_of_part(text, at, depth + 1);
  }
  never_closed(text, open, opens == '{' ? "the ${" : "the bracket");
}

std::size_t end_of_quote(const ShellText& text, std::size_t begin, int depth) {
  const char quote = text.text[begin];
  for (std::size_t at = begin + 1; at < text.text.size();) {
    const char c = text.text[at];
    if (c == quote) return at + 1;
    if (c == '\\' && quote != '\'')
      at += 2;
    else if (c == '$' && quote == '"')
      at = end_of_part(text, at, depth + 1);
    else
      ++at;
  }
  never_closed(text, begin, "the quote");
}

// One character where nothing special begins at `at`.
std::size_t end_of_part(const ShellText& text, std::size_t at, int depth) {
  const char c = text.text[at];
  if (c == '\'' || c == '"' || c == '`') return end_of_quote(text, at, depth);
  if (c != '$' || at + 1 >= text.text.size()) return at + 1;
  if (text.text[at + 1] == '{') return end_of_nested(text, at + 1, '{', '}', depth);
  if (text.text[at + 1] == '(') return end_of_nested(text, at + 1, '(', ')', depth);
  return at + 1;
}

class Lexer {
 public:
  explicit Lexer(const ShellText& source) : source_{source} {}

  std::vector<ShellToken> script() {
    while (skip_blanks())
      take_token();
    add(ShellToken::Kind::newline, at_, 0);
    add(ShellToken::Kind::end, at_, 0);
    return std::move(tokens_);
  }

  std::vector<ShellText> arguments() {
    std::vector<ShellText> words;
    while (skip_white_space())
      words.push_back(free_word(false));
    return words;
  }

 private:
  using Kind = ShellToken::Kind;

  bool more() const { return at_ < source_.text.size(); }
  char here() const { return source_.text[at_]; }
  bool at(std::string_view text) const {
    return std::string_view{source_.text}.substr(at_).starts_with(text);
  }
  ShellToken& add(Kind kind, std::size_t begin, std::size_t size) {
    tokens_.push_back(
        {kind, source_.part(std::min(begin, source_.text.size()), size), {}, false, {}});
    return tokens_.back();
  }

  void skip_line() {
    while (more() && here() != '\n')
      ++at_;
  }
  bool word_may_begin() const { return at_ == 0 || is_shell_blank(source_.text[at_ - 1]); }

  // Blanks, continued lines and comments; false at the end of the file. A comment ends the command
  // even where the line before was continued.
  bool skip_blanks() {
    bool continued = false;
    while (more()) {
      if (at("\\\n")) {
        continued = true;
        at_ += 2;
      } else if (here() == '#' && word_may_begin()) {
        lost_ = lost_ || continued;
        skip_line();
      } else if (here() == ' ' || here() == '\t' || here() == '\r') {
        ++at_;
      } else {
        return true;
      }
    }
    return false;
  }

  bool skip_white_space() {
    while (skip_blanks() && here() == '\n')
      ++at_;
    return more();
  }

  void take_token() {
    if (here() == '\n') {
      add(Kind::newline, at_++, 1);
      take_documents();
    } else if (at("((")) {
      take_arithmetic();
    } else if (here() == '<' || here() == '>' || at("&>")) {
      skip_redirection();
    } else if (std::string_view{";&|()"}.find(here()) != std::string_view::npos) {
      take_operator();
    } else {
      take_word();
    }
  }

  void take_operator() {
    for (const char* op : {";;", "&&", "||", "|&"})
      if (at(op)) {
        add(Kind::op, at_, 2);
        at_ += 2;
        return;
      }
    add(Kind::op, at_++, 1);
  }

  // "((" ... "))"; where no "))" closes it, two subshells.
  void take_arithmetic() {
    const std::size_t end = end_of_nested(source_, at_, '(', ')', 0);
    if (source_.text[end - 2] != ')') {
      // Each is searched to its end: many of them in each other would take the square of the time.
      if (++subshells_ > most_subshells) throw ShellProblem{source_.from[at_], "nested too deeply"};
      add(Kind::op, at_++, 1);
      return;
    }
    add(Kind::arithmetic, at_ + 2, end - at_ - 4);
    at_ = end;
  }

  // "> file", "2>&1", "<<END": the words behind are no arguments.
  void skip_redirection() {
    const bool of_error = drop_descriptor();
    const std::size_t begin = at_;
    if (at("<(") || at(">(")) {
      at_ = end_of_nested(source_, at_ + 1, '(', ')', 0);
      return;
    }
    while (more() && std::string_view{"<>&|-"}.find(here()) != std::string_view::npos)
      ++at_;
    const std::string_view op = std::string_view{source_.text}.substr(begin, at_ - begin);
    if (!skip_blanks() || here() == '\n') return;
    const std::size_t word = at_;
    skip_plain_word();
    const ShellText name = source_.part(word, at_ - word);
    if (op == "<<" || op == "<<-") return expect_document(name.text);
    if ((op == ">" || op == ">>") && !of_error)
      if (ShellRedirection* redirection = redirection_here()) redirection->target = name;
  }

  // That of the command whose last word was read; null: it is none of plain words.
  ShellRedirection* redirection_here() {
    if (tokens_.empty()) return nullptr;
    ShellToken& last = tokens_.back();
    if (last.kind != Kind::word && last.kind != Kind::array) return nullptr;
    if (!last.redirection) last.redirection = std::make_shared<ShellRedirection>();
    return last.redirection.get();
  }

  // "<<END": what stands between the end of this line and the line "END".
  void expect_document(std::string end) {
    const std::size_t size = end.size();
    std::erase_if(end, [](char c) { return c == '\'' || c == '"' || c == '\\'; });
    ShellRedirection* redirection = redirection_here();
    if (redirection != nullptr) {
      redirection->has_document = true;
      redirection->literal = end.size() < size;
    }
    documents_.push_back(
        {std::move(end), redirection != nullptr ? tokens_.back().redirection : nullptr});
  }

  // The 2 of "2>&1"; whether what is redirected is not the output.
  bool drop_descriptor() {
    if (tokens_.empty() || at_ == 0 || is_shell_blank(source_.text[at_ - 1])) return false;
    const ShellToken& last = tokens_.back();
    if (last.kind != Kind::word ||
        last.raw.text.find_first_not_of("0123456789") != std::string::npos)
      return false;
    const bool other = last.raw.text != "1";
    tokens_.pop_back();
    return other;
  }

  // The lines of the documents that this line has announced.
  void take_documents() {
    for (const Document& document : documents_) {
      const std::size_t first = at_;
      std::size_t last = at_;
      while (more()) {
        const std::size_t begin = at_;
        skip_line();
        std::string line = source_.text.substr(begin, at_ - begin);
        if (more()) ++at_;
        line.erase(0, std::min(line.find_first_not_of('\t'), line.size()));
        if (line == document.end) break;
        last = at_;
      }
      if (document.into) document.into->document = source_.part(first, last - first);
    }
    documents_.clear();
  }

  void skip_plain_word() {
    while (more() && !is_shell_blank(here()) &&
           std::string_view{";&|()<>"}.find(here()) == std::string_view::npos)
      skip_part();
  }
  void skip_part() {
    if (here() == '\\')
      at_ = std::min(at_ + 2, source_.text.size());
    else
      at_ = end_of_part(source_, at_, 0);
  }

  void take_word() {
    const std::size_t begin = at_;
    skip_plain_word();
    const bool lost = std::exchange(lost_, false);
    const std::string_view word = std::string_view{source_.text}.substr(begin, at_ - begin);
    if (word == "[[") {
      take_condition(begin);
    } else if (more() && here() == '(' && word.ends_with('=') && names_variable(word)) {
      ++at_;
      take_array(begin, word.size());
    } else {
      add(Kind::word, begin, at_ - begin).behind_comment = lost;
    }
  }

  static bool names_variable(std::string_view word) {
    word.remove_suffix(word.ends_with("+=") ? 2 : 1);
    return !word.empty() && shell_name_length(word) == word.size();
  }

  void take_array(std::size_t begin, std::size_t size) {
    const std::size_t index = tokens_.size();
    add(Kind::array, begin, size);
    while (skip_white_space() && here() != ')') {
      ShellText word = free_word(true);
      tokens_[index].elements.push_back(std::move(word));
    }
    lost_ = false;
    if (!more()) never_closed(source_, begin, "the array");
    ++at_;
  }

  // Up to a blank; `in_array`: or to a ')' that closes no '(' of the word.
  ShellText free_word(bool in_array) {
    const std::size_t begin = at_;
    int open = 0;
    while (more() && !is_shell_blank(here()) && !at("\\\n")) {
      if (here() == '(') ++open;
      if (here() == ')' && --open < 0 && in_array) break;
      skip_part();
    }
    // A continued line within the word, and no way to go on.
    if (at_ == begin) ++at_;
    return source_.part(begin, at_ - begin);
  }

  void take_condition(std::size_t begin) {
    const std::size_t index = tokens_.size();
    add(Kind::condition, begin, 2);
    while (skip_white_space() && !at("]]")) {
      const std::size_t first = at_;
      for (const char* op : {"&&", "||", "(", ")"})
        if (at_ == first && at(op)) at_ += std::string_view{op}.size();
      while (at_ == first || (more() && !is_shell_blank(here()) && !ends_term(first)))
        skip_part();
      ShellText word = source_.part(first, at_ - first);
      tokens_[index].elements.push_back(std::move(word));
    }
    if (!more()) never_closed(source_, begin, "the [[");
    at_ += 2;
  }
  // An operator is a word of its own; "(" and ")" only where they stand alone (a regular expression
  // has them inside).
  bool ends_term(std::size_t first) const {
    const std::string_view word = std::string_view{source_.text}.substr(first, at_ - first);
    return word == "(" || word == ")" || word == "&&" || word == "||";
  }

  static constexpr int most_subshells = 1000;

  const ShellText& source_;
  std::size_t at_ = 0;
  int subshells_ = 0;
  bool lost_ = false;  // a comment has ended a command that a '\' had continued
  struct Document {
    std::string end;
    std::shared_ptr<ShellRedirection> into;  // null: nobody reads it
  };
  std::vector<Document> documents_;
  std::vector<ShellToken> tokens_;
};

}  // namespace

std::size_t end_of_shell_part(const ShellText& text, std::size_t at) {
  return end_of_part(text, at, 0);
}

std::vector<ShellToken> shell_tokens(const ShellText& source) {
  return Lexer{source}.script();
}

std::vector<ShellText> argument_words(const ShellText& source) {
  return Lexer{source}.arguments();
}

}  // namespace sim
