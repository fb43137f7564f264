// The variables of a shell script and what stands for them: "$NAME", "${NAME:-2}", "$((TP * 2))".
// No command is run: what only a command knows becomes a mark (ShellUnknowns).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/scripts/shell/shell_lexer.hpp"

namespace sim {

struct ShellVariable {
  std::vector<ShellText> values;  // one, or those of an array
  std::vector<std::string> keys;  // of an associative array, parallel to `values`
  bool array = false;
};

class ShellVariables {
 public:
  // define() sets a variable, whatever the script assigns to it ("1": the first argument).
  void define(const std::string& name, const std::string& value);
  bool is_defined(const std::string& name) const { return defined_.contains(name); }

  void set(const std::string& name, ShellVariable value);
  void unset(const std::string& name);
  const ShellVariable* find(const std::string& name) const;
  // all() has the variables by name, those given from outside among them.
  std::map<std::string, ShellVariable> all() const;

  // The arguments of the function that is running; nullptr: those of the script, not known.
  const std::vector<ShellText>* arguments = nullptr;
  ShellUnknowns unknowns;
  // Names that a condition took as empty because nothing sets them, and where.
  std::map<std::string, std::uint32_t> taken_as_empty;

 private:
  std::map<std::string, ShellVariable> variables_;
  std::map<std::string, ShellVariable> defined_;
};

// How much text all expansions of a script may make together.
constexpr std::size_t most_shell_text = std::size_t{16} << 20;

// ShellUnset says what an unset variable is, or an argument that is not given: a mark, or nothing.
enum class ShellUnset : std::uint8_t { unknown, variables_are_empty, all_are_empty };

class ShellExpander {
 public:
  explicit ShellExpander(ShellVariables& variables) : variables_{variables} {}

  // The fields that a word becomes: split at blanks where it is not quoted.
  std::vector<ShellText> fields(const ShellText& raw);
  // As one text, as in an assignment.
  ShellText text(const ShellText& raw, ShellUnset unset = ShellUnset::unknown);
  // The lines of a document ("<<END"), where quotes are characters like any other.
  ShellText document(const ShellText& raw);
  // The value of "TP * 2"; nullopt where it is not known.
  std::optional<std::int64_t> arithmetic(const ShellText& raw);

 private:
  class Fields;
  void expand(const ShellText& raw, bool quoted, Fields& out);
  std::size_t expand_dollar(const ShellText& raw, std::size_t at, bool quoted, Fields& out);
  void expand_braces(const ShellText& inner, bool quoted, Fields& out);
  void expand_operator(const std::string& name, const ShellText& rest, bool quoted, Fields& out);
  void expand_substitution(const ShellText& raw, bool quoted, Fields& out);
  void put_variable(const std::string& name, std::uint32_t at, bool quoted, Fields& out);
  void expand_element(const std::string& name, const ShellText& behind, bool counts, bool quoted,
                      Fields& out);
  void expand_change(const std::string& name, const ShellText& rest, bool quoted, Fields& out);
  void put_all(const ShellVariable& variable, bool quoted, Fields& out);
  void put_text(const ShellText& value, const std::string& name, std::uint32_t at, bool quoted,
                Fields& out);
  void put_number(std::int64_t number, std::uint32_t at, Fields& out);
  void put_unknown(const std::string& shown, std::uint32_t at, Fields& out,
                   ShellUnknowns::Origin origin = ShellUnknowns::Origin::something);
  // Whether what has this origin is read as empty; then it is noted.
  bool is_empty(ShellUnknowns::Origin origin, const std::string& name, std::uint32_t at);
  std::optional<ShellText> value(const std::string& name) const;
  void count(const ShellText& made);

  ShellVariables& variables_;
  std::size_t made_ = 0;
  std::uint32_t dollar_ = 0;  // offset of the '$' that is read
  int depth_ = 0;
  ShellUnset unset_ = ShellUnset::unknown;
};

}  // namespace sim
