#include <algorithm>
#include <array>
#include <utility>

#include "sim/scripts/python/python_lexer.hpp"
#include "sim/scripts/python/python_syntax.hpp"

namespace sim::python {
namespace {

struct NotRead {};  // the statement is left out

constexpr int most_nested = 60;

// Expressions, in the order of Python's grammar (The Python Language Reference, 6).
class ExpressionParser {
 public:
  using Kind = Expression::Kind;

  explicit ExpressionParser(const std::vector<Token>& tokens) : tokens_{tokens} {}

 protected:
  const Token& peek() const { return tokens_[at_]; }
  bool is(std::string_view sign) const {
    return peek().kind == Token::Kind::sign && peek().text == sign;
  }
  bool is_word(std::string_view word) const {
    return peek().kind == Token::Kind::name && peek().text == word;
  }
  Token take() {
    Token token = peek();
    if (token.kind != Token::Kind::end) ++at_;
    return token;
  }
  bool accept(std::string_view sign) { return is(sign) ? (++at_, true) : false; }
  bool accept_word(std::string_view word) { return is_word(word) ? (++at_, true) : false; }
  void expect(std::string_view sign) {
    if (!accept(sign)) throw NotRead{};
  }
  std::string name() {
    if (peek().kind != Token::Kind::name) throw NotRead{};
    return take().text;
  }

  // With "a, b" as a list.
  Expression expressions() {
    Expression first = expression();
    if (!is(",")) return first;
    Expression tuple{Kind::list, first.place, "", {}, {}};
    tuple.parts.push_back(std::move(first));
    while (accept(",")) {
      if (is("=") || is(")") || is(":") || peek().kind == Token::Kind::newline) break;
      tuple.parts.push_back(expression());
    }
    tuple.names.resize(tuple.parts.size());
    return tuple;
  }

  Expression expression() {
    if (++depth_ > most_nested) throw NotRead{};
    Expression value =
        is_word("lambda") || is_word("await") || is_word("yield") ? throw NotRead{} : any_of();
    if (accept_word("if")) {
      Expression choice{Kind::conditional, value.place, "", {}, {}};
      choice.parts.push_back(any_of());
      choice.parts.push_back(std::move(value));
      if (!accept_word("else")) throw NotRead{};
      choice.parts.push_back(expression());
      value = std::move(choice);
    }
    --depth_;
    return value;
  }

  std::size_t at_ = 0;
  int depth_ = 0;

 private:
  Expression any_of() { return joined(Kind::any, "or", &ExpressionParser::all_of); }
  Expression all_of() { return joined(Kind::all, "and", &ExpressionParser::negation); }
  Expression joined(Kind kind, std::string_view word, Expression (ExpressionParser::*part)()) {
    Expression value = (this->*part)();
    if (!is_word(word)) return value;
    Expression all{kind, value.place, "", {}, {}};
    all.parts.push_back(std::move(value));
    while (accept_word(word))
      all.parts.push_back((this->*part)());
    return all;
  }
  Expression negation() {
    int times = 0;
    const TextPlace place = peek().place;
    while (accept_word("not"))
      ++times;
    Expression value = comparison();
    return times % 2 == 0 ? value : unary("not", place, std::move(value));
  }

  std::string comparison_sign() {
    for (const char* sign : {"==", "!=", "<=", ">=", "<", ">"})
      if (accept(sign)) return sign;
    if (accept_word("in")) return "in";
    if (accept_word("is")) return accept_word("not") ? "is not" : "is";
    if (is_word("not") && tokens_[at_ + 1].text == "in") {
      at_ += 2;
      return "not in";
    }
    return "";
  }
  Expression comparison() {
    Expression left = binary(0);
    Expression all{Kind::all, left.place, "", {}, {}};
    for (std::string sign; !(sign = comparison_sign()).empty();) {
      Expression right = binary(0);
      Expression one{Kind::comparison, left.place, sign, {}, {}};
      one.parts.push_back(std::move(left));
      one.parts.push_back(right);
      all.parts.push_back(std::move(one));
      left = std::move(right);
    }
    if (all.parts.empty()) return left;
    return all.parts.size() == 1 ? std::move(all.parts.front()) : all;
  }

  static constexpr std::array<std::array<std::string_view, 5>, 4> levels{
      {{"|", "&", "^", "<<", ""}, {"+", "-", "", "", ""}, {"*", "/", "//", "%", "@"}, {}}};
  Expression binary(std::size_t level) {
    if (level + 1 == levels.size()) return signed_value();
    Expression value = binary(level + 1);
    int signs = 0;
    for (bool more = true; more;) {
      more = false;
      if (++signs > most_nested) throw NotRead{};
      for (const std::string_view sign : levels[level]) {
        if (sign.empty() || !accept(sign)) continue;
        Expression pair{Kind::binary, value.place, std::string{sign}, {}, {}};
        pair.parts.push_back(std::move(value));
        pair.parts.push_back(binary(level + 1));
        value = std::move(pair);
        more = true;
        break;
      }
    }
    return value;
  }
  static Expression unary(std::string sign, TextPlace place, Expression value) {
    Expression made{Kind::unary, place, std::move(sign), {}, {}};
    made.parts.push_back(std::move(value));
    return made;
  }
  Expression signed_value() {
    const TextPlace place = peek().place;
    std::string signs;
    while (is("-") || is("+") || is("~")) {
      if (signs.size() > most_nested) throw NotRead{};
      signs += take().text;
    }
    Expression value = power();
    for (; !signs.empty(); signs.pop_back())
      value = unary(std::string{signs.back()}, place, std::move(value));
    return value;
  }
  Expression power() {
    Expression value = postfix();
    if (!accept("**")) return value;
    if (++depth_ > most_nested) throw NotRead{};
    Expression made{Kind::binary, value.place, "**", {}, {}};
    made.parts.push_back(std::move(value));
    made.parts.push_back(signed_value());
    --depth_;
    return made;
  }

  Expression postfix() {
    Expression value = atom();
    for (int parts = 0;; ++parts) {
      if (parts > most_nested) throw NotRead{};
      Expression outer{Kind::attribute, value.place, "", {}, {}};
      if (accept(".")) {
        outer.text = name();
        outer.parts.push_back(std::move(value));
      } else if (is("(")) {
        outer.kind = Kind::call;
        outer.parts.push_back(std::move(value));
        outer.names.emplace_back();
        arguments(outer);
      } else if (accept("[")) {
        outer.kind = Kind::subscript;
        outer.parts.push_back(std::move(value));
        outer.parts.push_back(expressions());
        expect("]");  // no slices
      } else {
        return value;
      }
      value = std::move(outer);
    }
  }

  void arguments(Expression& call) {
    expect("(");
    while (!is(")")) {
      std::string key;
      if (accept("**")) {
        key = "**";
      } else if (accept("*")) {
        key = "*";
      } else if (peek().kind == Token::Kind::name && tokens_[at_ + 1].kind == Token::Kind::sign &&
                 tokens_[at_ + 1].text == "=") {
        key = take().text;
        expect("=");
      }
      Expression value = expression();
      if (is_word("for")) value = comprehension(std::move(value), Kind::list);
      call.parts.push_back(std::move(value));
      call.names.push_back(std::move(key));
      if (!accept(",")) break;
    }
    expect(")");
  }

  Expression comprehension(Expression value, Kind) {
    Expression made{Kind::comprehension, value.place, "", {}, {}};
    made.parts.push_back(std::move(value));
    if (!accept_word("for")) throw NotRead{};
    made.parts.push_back(target());
    if (!accept_word("in")) throw NotRead{};
    made.parts.push_back(any_of());
    while (accept_word("if"))
      made.parts.push_back(any_of());
    return made;
  }

 protected:
  // target() is what a loop assigns: a name, or a list of them.
  Expression target() {
    const bool bracket = accept("(");
    Expression first{Kind::name, peek().place, name(), {}, {}};
    if (!is(",")) return bracket ? throw NotRead{} : first;
    Expression list{Kind::list, first.place, "", {}, {}};
    list.parts.push_back(std::move(first));
    while (accept(","))
      list.parts.push_back({Kind::name, peek().place, name(), {}, {}});
    if (bracket) expect(")");
    list.names.resize(list.parts.size());
    return list;
  }

 private:
  Expression bracketed(std::string_view end) {
    Expression list{Kind::list, take().place, "", {}, {}};
    bool comma = false;
    while (!is(end)) {
      list.names.emplace_back(accept("*") ? "*" : "");
      list.parts.push_back(expression());
      if (list.parts.size() == 1 && is_word("for"))
        list = comprehension(std::move(list.parts.front()), Kind::list);
      if (!accept(",")) break;
      comma = true;
    }
    expect(end);
    const bool plain = end == ")" && !comma && list.kind == Kind::list && list.parts.size() == 1;
    return plain ? std::move(list.parts.front()) : list;
  }

  // A dict, or a set, which is a list here.
  Expression braces() {
    Expression made{Kind::dict, take().place, "", {}, {}};
    while (!is("}")) {
      if (accept("**")) {
        made.parts.emplace_back();
        made.parts.push_back(any_of());
      } else {
        made.parts.push_back(expression());
        if (is_word("for") || (!is(":") && made.parts.size() % 2 == 1)) return set_of(made);
        expect(":");
        made.parts.push_back(expression());
        if (is_word("for")) throw NotRead{};
      }
      if (!accept(",")) break;
    }
    expect("}");
    return made;
  }
  Expression set_of(Expression& begun) {
    if (begun.parts.size() != 1) throw NotRead{};
    Expression set{Kind::list, begun.place, "", {}, {}};
    if (is_word("for")) {
      set = comprehension(std::move(begun.parts.front()), Kind::list);
    } else {
      set.parts.push_back(std::move(begun.parts.front()));
      while (accept(",") && !is("}"))
        set.parts.push_back(expression());
      set.names.resize(set.parts.size());
    }
    expect("}");
    return set;
  }

  Expression strings() {
    Expression made{Kind::string, peek().place, "", {}, {}};
    while (peek().kind == Token::Kind::string || peek().kind == Token::Kind::format) {
      if (peek().kind == Token::Kind::format) made.kind = Kind::unread;
      made.text += take().text;
    }
    return made;
  }

  Expression atom() {
    const TextPlace place = peek().place;
    switch (peek().kind) {
      case Token::Kind::string:
      case Token::Kind::format:
        return strings();
      case Token::Kind::number:
        return {Kind::number, place, take().text, {}, {}};
      case Token::Kind::name: {
        if (is_word("not")) throw NotRead{};
        const std::string word = take().text;
        if (word == "None") return {Kind::none, place, "", {}, {}};
        if (word == "True") return {Kind::boolean, place, "true", {}, {}};
        if (word == "False") return {Kind::boolean, place, "", {}, {}};
        return {Kind::name, place, word, {}, {}};
      }
      default:
        if (is("(")) return bracketed(")");
        if (is("[")) return bracketed("]");
        if (is("{")) return braces();
        throw NotRead{};
    }
  }

  const std::vector<Token>& tokens_;
};

class StatementParser : private ExpressionParser {
 public:
  StatementParser(std::string_view text, const std::vector<Token>& tokens)
      : ExpressionParser{tokens}, text_{text} {}

  std::vector<Statement> module() {
    std::vector<Statement> all;
    while (peek().kind != Token::Kind::end)
      statement(all);
    return all;
  }

 private:
  using Form = Statement::Kind;

  // Appends the statements of one line, or of a line and its block.
  void statement(std::vector<Statement>& into) {
    while (peek().kind == Token::Kind::newline || peek().kind == Token::Kind::indent ||
           peek().kind == Token::Kind::dedent)
      take();  // indentation that no block has
    if (peek().kind == Token::Kind::end) return;
    const Token begin = peek();
    const std::size_t from = at_;
    Statement made;
    made.place = begin.place;
    std::string_view line = text_.substr(begin.from, 60);
    made.line = line.substr(0, line.find('\n'));
    const int nested = depth_, blocks = blocks_;
    try {
      one(made);
    } catch (const NotRead&) {
      depth_ = nested;
      blocks_ = blocks;
      at_ = from;
      Statement left;
      left.place = made.place;
      left.line = made.line;
      made = std::move(left);
      skip();
    }
    into.push_back(std::move(made));
  }

  void one(Statement& made) {
    if (peek().kind == Token::Kind::name) {
      const std::string word = peek().text;
      if (word == "def") return take(), definition(made);
      if (word == "if") return take(), condition(made);
      if (word == "for") return take(), loop(made);
      if (word == "from") return take(), import_from(made);
      if (word == "return") return take(), give(made);
      if (word == "raise") return made.kind = Form::raise, skip();
      if (word == "try") return take(), attempt(made);
      if (word == "with") return made.kind = Form::block, skip_head(), block(made.body);
      if (word == "pass" || word == "assert" || word == "import" || word == "global")
        return made.kind = Form::pass, skip();
      if (word == "break") return made.kind = Form::leave, skip();
      if (word == "continue") return made.kind = Form::next, skip();
      if (word == "class" || word == "while" || word == "async" || word == "del" ||
          word == "elif" || word == "else" || word == "except" || word == "finally")
        throw NotRead{};
    }
    if (is("@")) return made.kind = Form::pass, skip_line();
    simple(made);
  }

  void simple(Statement& made) {
    made.kind = Form::expression;
    made.expressions.push_back(expressions());
    if (accept(":")) {  // of an annotation
      static_cast<void>(expressions());
      if (!is("=")) made.kind = Form::pass;
    }
    while (accept("=")) {
      made.kind = Form::assign;
      made.expressions.push_back(expressions());
    }
    for (const std::string sign : {"+", "-", "*", "/", "//", "%", "|"})
      if (made.kind == Form::expression && accept(sign + "=")) {
        made.kind = Form::augment;
        made.text = sign;
        made.expressions.push_back(expressions());
      }
    end_of_line();
  }
  void end_of_line() {
    if (peek().kind == Token::Kind::newline) {
      take();
    } else if (!accept(";") && peek().kind != Token::Kind::end) {
      throw NotRead{};
    }
  }

  // ---- Lines that are not read.
  void skip_line() {
    while (peek().kind != Token::Kind::newline && peek().kind != Token::Kind::end)
      take();
    take();
  }
  void skip_block() {
    int depth = 0;
    do {
      const Token token = take();
      depth += token.kind == Token::Kind::indent ? 1 : token.kind == Token::Kind::dedent ? -1 : 0;
      if (token.kind == Token::Kind::end) return;
    } while (depth > 0);
  }
  void skip() {
    skip_line();
    if (peek().kind == Token::Kind::indent) skip_block();
  }
  // To the colon that ends the head of a block.
  void skip_head() {
    int depth = 0;
    while (peek().kind != Token::Kind::newline && peek().kind != Token::Kind::end) {
      if (is("(") || is("[") || is("{")) ++depth;
      if (is(")") || is("]") || is("}")) --depth;
      if (depth == 0 && is(":")) return;
      take();
    }
    throw NotRead{};
  }

  // ": line" or ": indented lines".
  void block(std::vector<Statement>& into) {
    expect(":");
    if (peek().kind != Token::Kind::newline) return statement(into);
    take();
    if (peek().kind != Token::Kind::indent) throw NotRead{};
    if (++blocks_ > most_nested) throw NotRead{};
    take();
    while (peek().kind != Token::Kind::dedent && peek().kind != Token::Kind::end)
      statement(into);
    if (peek().kind == Token::Kind::dedent) take();
    --blocks_;
  }

  void condition(Statement& made) {
    made.kind = Form::condition;
    made.expressions.push_back(expression());
    block(made.body);
    if (is_word("elif")) {
      if (++blocks_ > most_nested) throw NotRead{};
      Statement inner;
      inner.place = peek().place;
      inner.line = "elif";
      take();
      condition(inner);
      made.other.push_back(std::move(inner));
      --blocks_;
    } else if (accept_word("else")) {
      block(made.other);
    }
  }
  void loop(Statement& made) {
    made.kind = Form::loop;
    made.expressions.push_back(target());
    if (!accept_word("in")) throw NotRead{};
    made.expressions.push_back(expressions());
    block(made.body);
  }
  void attempt(Statement& made) {
    made.kind = Form::attempt;
    block(made.body);
    bool first = true;
    while (is_word("except") || is_word("else") || is_word("finally")) {
      const bool handles = is_word("except");
      skip_head();
      std::vector<Statement> ignored;
      block(handles && first ? made.other : ignored);
      first = first && !handles;
    }
  }
  void give(Statement& made) {
    made.kind = Form::give;
    if (peek().kind != Token::Kind::newline && peek().kind != Token::Kind::end)
      made.expressions.push_back(expressions());
    end_of_line();
  }

  void import_from(Statement& made) {
    made.kind = Form::import;
    while (is(".") || is("..."))
      made.name += take().text;
    while (peek().kind == Token::Kind::name && !is_word("import")) {
      made.name += take().text;
      if (accept(".")) made.name += '.';
    }
    if (!accept_word("import")) throw NotRead{};
    if (accept("*")) {
      made.imports.push_back({"*", "*"});
      return end_of_line();
    }
    const bool bracket = accept("(");
    while (peek().kind == Token::Kind::name) {
      Statement::Import one{name(), ""};
      one.as = accept_word("as") ? name() : one.name;
      made.imports.push_back(std::move(one));
      if (!accept(",")) break;
    }
    if (bracket) expect(")");
    end_of_line();
  }

  void definition(Statement& made) {
    made.kind = Form::function;
    made.name = name();
    expect("(");
    while (!is(")")) {
      Parameter one;
      if (accept("/")) {
      } else if (accept("**")) {
        one.name = "**" + name();
      } else if (accept("*")) {
        one.name = peek().kind == Token::Kind::name ? "*" + name() : "";
      } else {
        one.name = name();
      }
      if (accept(":")) static_cast<void>(expression());
      if (accept("=")) one.fallback.push_back(expression());
      if (!one.name.empty()) made.parameters.push_back(std::move(one));
      if (!accept(",")) break;
    }
    expect(")");
    if (is("-")) throw NotRead{};
    if (accept("->")) static_cast<void>(expression());
    block(made.body);
  }

  std::string_view text_;
  int blocks_ = 0;
};

}  // namespace

std::vector<Statement> parse_module(std::string_view text) {
  const std::vector<Token> tokens = tokens_of(text);
  return StatementParser{text, tokens}.module();
}

}  // namespace sim::python
