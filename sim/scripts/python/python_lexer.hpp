// Python's tokens, with its indentation as tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/config/tree.hpp"

namespace sim::python {

struct Token {
  enum class Kind : std::uint8_t {
    name,
    number,
    string,
    format,
    sign,
    newline,
    indent,
    dedent,
    end
  };
  Kind kind = Kind::end;
  TextPlace place;
  std::string text;  // of strings: what they say; of formats (f"..."): nothing
  std::size_t from = 0;
};

// tokens_of() makes what is no token of Python a sign that no rule of its grammar has.
std::vector<Token> tokens_of(std::string_view text);

}  // namespace sim::python
