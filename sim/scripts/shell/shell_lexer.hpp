// The words, operators and array literals of a shell script. What is meant by quotes and '$' inside
// a word is left to ShellExpander.
//
// Read more freely than a shell does: inside an array literal, and in a file that is nothing but
// arguments, '(', '|' and '*' are characters like any other ("--moe-layer-freq ([0]*3+[1]*58)").
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/scripts/shell/shell_text.hpp"

namespace sim {

// ShellRedirection is where the output of a command goes and what it reads, as they are written.
struct ShellRedirection {
  ShellText target;    // of "> FILE"; or empty
  ShellText document;  // the lines of "<<END"; or empty
  bool has_document = false;
  bool literal = false;  // END is quoted: no '$' in the document means anything
};

struct ShellToken {
  enum class Kind : std::uint8_t {
    word,        // raw: as it is written, with its quotes
    array,       // raw: "NAME=" or "NAME+="; elements
    condition,   // [[ ... ]]; elements
    arithmetic,  // (( ... )); raw: what is between
    op,          // raw: ; ;; && || | & ( )
    newline,
    end,
  };
  Kind kind = Kind::end;
  ShellText raw;
  std::vector<ShellText> elements;
  bool behind_comment = false;  // the line before is a comment in a command that '\' continued
  // redirection is set on the last word or array in front of it; null: none.
  std::shared_ptr<ShellRedirection> redirection{};

  bool is(Kind k, std::string_view text) const { return kind == k && raw.text == text; }
  bool is_word(std::string_view text) const { return is(Kind::word, text); }
  bool is_op(std::string_view text) const { return is(Kind::op, text); }
};

struct ShellProblem {
  std::uint32_t at = 0;  // offset in the file
  std::string what;
};

// Throws ShellProblem where a quote or bracket is never closed.
std::vector<ShellToken> shell_tokens(const ShellText& source);
// The same of a list of arguments: words only.
std::vector<ShellText> argument_words(const ShellText& source);

// The end of the quoted string, "${...}", "$(...)" or backticks that begins at `at`.
std::size_t end_of_shell_part(const ShellText& text, std::size_t at);

}  // namespace sim
