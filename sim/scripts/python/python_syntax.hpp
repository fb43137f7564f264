// Python's statements and expressions as a tree, as far as recipes need them. What is not read is a
// statement or an expression of the kind `unread`: never a guess.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/config/tree.hpp"

namespace sim::python {

struct Expression {
  enum class Kind : std::uint8_t {
    none,
    boolean,        // text: "true" or empty
    number,         // text
    string,         // text
    name,           // text
    attribute,      // of parts[0]: text
    subscript,      // parts[0] of parts[1]
    call,           // parts[0] with the others; names: of keywords, "" by position, "*", "**"
    list,           // and tuples; names: "*" for what is spread
    dict,           // keys and values in turn; a spread dict has an `unread` for its key
    unary,          // text: the operator
    binary,         // text: the operator
    comparison,     // one; chains are an `all` of them
    all,            // and
    any,            // or
    conditional,    // parts[1] if parts[0] else parts[2]
    comprehension,  // parts[0] for parts[1] in parts[2] if parts[3..]
    unread
  };
  Kind kind = Kind::unread;
  TextPlace place;
  std::string text;
  std::vector<Expression> parts;
  std::vector<std::string> names;
};

struct Parameter {
  std::string name;                  // "*" and "**" for those that take the rest
  std::vector<Expression> fallback;  // one or none
};

struct Statement {
  enum class Kind : std::uint8_t {
    expression,  // expressions[0]
    assign,      // the last of expressions to each of the others
    augment,     // expressions[0] text= expressions[1]
    condition,   // if expressions[0]: body, else: other
    loop,        // for expressions[0] in expressions[1]: body
    function,    // def name(parameters): body
    import,      // from name import imports; "*": all
    give,        // return, with expressions[0] or without
    raise,
    attempt,  // try: body, except: other
    block,    // with: body
    leave,    // break
    next,     // continue
    pass,
    unread
  };
  struct Import {
    std::string name, as;
  };
  Kind kind = Kind::unread;
  TextPlace place;
  std::string line;  // its beginning, for messages
  std::string name, text;
  std::vector<Expression> expressions;
  std::vector<Parameter> parameters;
  std::vector<Import> imports;
  std::vector<Statement> body, other;
};

// Never throws on any text.
std::vector<Statement> parse_module(std::string_view text);

}  // namespace sim::python
