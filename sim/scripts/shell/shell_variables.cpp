#include "sim/scripts/shell/shell_variables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/config/characters.hpp"
#include "sim/scripts/shell/shell_arithmetic.hpp"

namespace sim {
namespace {

constexpr int deepest_expansion = 32;

using Origin = ShellUnknowns::Origin;

ShellVariable single(ShellText value) {
  return {{std::move(value)}, {}, false};
}

// "$@" and "${NAME[@]}": as many fields as there are values, none without any.
bool is_all_of(std::string_view text) {
  return text == "$@" || text == "${@}" ||
         (text.starts_with("${") && text.ends_with("[@]}") &&
          shell_name_length(text.substr(2)) == text.size() - 6);
}

// ${NAME%pattern} and its kin: the shortest or longest front or back that the pattern matches.
ShellText without_match(const ShellText& value, char side, bool longest, std::string_view pattern) {
  const std::size_t size = value.text.size();
  const std::string_view text = value.text;
  for (std::size_t i = 0; i <= size; ++i) {
    const std::size_t length = longest ? size - i : i;
    const bool front = side == '#';
    const std::string_view part = front ? text.substr(0, length) : text.substr(size - length);
    if (matches_pattern(part, pattern))
      return front ? value.part(length) : value.part(0, size - length);
  }
  return value;
}

// ${NAME/a/b}: `word` is "a/b"; a plain text, without patterns.
ShellText replaced(const ShellText& value, const ShellText& word, bool all) {
  const std::size_t slash = word.text.find('/');
  const std::string from = word.text.substr(0, slash);
  const ShellText to = slash == std::string::npos ? ShellText{} : word.part(slash + 1);
  ShellText made;
  bool done = from.empty();
  for (std::size_t at = 0; at < value.text.size();) {
    if (done || value.text.compare(at, from.size(), from) != 0) {
      made.add(value.part(at, 1));
      ++at;
      continue;
    }
    made.add(to);
    at += from.size();
    done = !all;
  }
  return made;
}

}  // namespace

void ShellVariables::define(const std::string& name, const std::string& value) {
  ShellText text;
  text.add(value, 0);
  defined_[name] = single(std::move(text));
}

void ShellVariables::set(const std::string& name, ShellVariable value) {
  variables_[name] = std::move(value);
}

void ShellVariables::unset(const std::string& name) {
  variables_.erase(name);
}

const ShellVariable* ShellVariables::find(const std::string& name) const {
  if (const auto given = defined_.find(name); given != defined_.end()) return &given->second;
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

std::map<std::string, ShellVariable> ShellVariables::all() const {
  std::map<std::string, ShellVariable> all = defined_;
  all.insert(variables_.begin(), variables_.end());
  return all;
}

// Fields are what a word becomes, field by field. `whole`: one text, no splitting.
class ShellExpander::Fields {
 public:
  explicit Fields(bool whole) : whole_{whole} {}

  void quoted(const ShellText& text) {
    current_.add(text);
    open_ = true;
  }
  void literal(char c, std::uint32_t at) {
    current_.add(c, at);
    open_ = true;
  }
  // split() is for an expansion outside quotes: its blanks end fields.
  void split(const ShellText& text) {
    if (whole_) return quoted(text);
    for (std::size_t i = 0; i < text.text.size(); ++i) {
      if (is_shell_blank(text.text[i]))
        end();
      else
        literal(text.text[i], text.from[i]);
    }
  }
  void open() { open_ = true; }  // "" is a field
  void end() {
    if (open_) fields_.push_back(std::move(current_));
    current_ = {};
    open_ = false;
  }
  bool whole() const { return whole_; }
  std::vector<ShellText> take() {
    end();
    return std::move(fields_);
  }
  ShellText take_text() { return std::move(current_); }

 private:
  bool whole_;
  bool open_ = false;
  ShellText current_;
  std::vector<ShellText> fields_;
};

std::vector<ShellText> ShellExpander::fields(const ShellText& raw) {
  Fields out{false};
  expand(raw, false, out);
  return out.take();
}

ShellText ShellExpander::text(const ShellText& raw, ShellUnset unset) {
  const ShellUnset before = std::exchange(unset_, unset);
  Fields out{true};
  expand(raw, false, out);
  unset_ = before;
  return out.take_text();
}

ShellText ShellExpander::document(const ShellText& raw) {
  Fields out{true};
  expand(raw, true, out);
  return out.take_text();
}

// The memory of a value beside its text counts, too: arrays that double hold many empty ones.
void ShellExpander::count(const ShellText& made) {
  made_ += made.text.size() + sizeof(ShellText);
  if (made_ > most_shell_text) throw ShellProblem{made.at(), "the variables expand to no end"};
}

// `quoted`: inside double quotes.
void ShellExpander::expand(const ShellText& raw, bool quoted, Fields& out) {
  if (++depth_ > deepest_expansion) throw ShellProblem{raw.at(), "nested too deeply"};
  const std::string& text = raw.text;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '\\' && at + 1 < text.size()) {
      if (text[at + 1] != '\n') {
        const bool stays =
            quoted && std::string_view{"$`\"\\"}.find(text[at + 1]) == std::string_view::npos;
        if (stays) out.literal('\\', raw.from[at]);
        out.literal(text[at + 1], raw.from[at + 1]);
      }
      at += 2;
    } else if (c == '$' && at + 1 < text.size()) {
      at = expand_dollar(raw, at, quoted, out);
    } else if (c == '`' || (!quoted && (c == '\'' || c == '"'))) {
      const std::size_t end = end_of_shell_part(raw, at);
      const ShellText inner = raw.part(at + 1, end - at - 2);
      if (c == '`') expand_substitution(inner, quoted, out);
      if (c != '`' && !is_all_of(inner.text)) out.open();
      if (c == '\'') out.quoted(inner);
      if (c == '"') expand(inner, true, out);
      at = end;
    } else {
      out.literal(c, raw.from[at++]);
    }
  }
  --depth_;
}

std::size_t ShellExpander::expand_dollar(const ShellText& raw, std::size_t at, bool quoted,
                                         Fields& out) {
  const std::string_view rest = std::string_view{raw.text}.substr(at + 1);
  dollar_ = raw.from[at];
  if (rest.front() == '{' || rest.front() == '(') {
    const std::size_t end = end_of_shell_part(raw, at);
    const ShellText inner = raw.part(at + 2, end - at - 3);
    if (rest.front() == '{') {
      expand_braces(inner, quoted, out);
    } else if (inner.text.starts_with('(') && inner.text.ends_with(')')) {
      const std::optional<std::int64_t> number = arithmetic(inner.part(1, inner.text.size() - 2));
      if (!number)
        put_unknown(fmt::format("$({})", inner.text), raw.from[at], out);
      else
        put_number(*number, raw.from[at], out);
    } else {
      expand_substitution(inner, quoted, out);
    }
    return end;
  }
  if ((rest.front() == '\'' || rest.front() == '"') && !quoted) return at + 1;  // $'...': as '...'
  std::size_t length = shell_name_length(rest);
  if (length == 0 && (is_digit(rest.front()) ||
                      std::string_view{"@*#?$!-"}.find(rest.front()) != std::string_view::npos))
    length = 1;
  if (length == 0) {
    out.literal('$', raw.from[at]);
    return at + 1;
  }
  put_variable(std::string{rest.substr(0, length)}, raw.from[at], quoted, out);
  return at + 1 + length;
}

void ShellExpander::put_unknown(const std::string& shown, std::uint32_t at, Fields& out,
                                Origin origin) {
  ShellText mark;
  mark.add(variables_.unknowns.mark(shown, origin), std::min(at, dollar_));
  out.quoted(mark);
}

void ShellExpander::put_number(std::int64_t number, std::uint32_t at, Fields& out) {
  ShellText text;
  text.add(fmt::format("{}", number), at);
  out.quoted(text);
}

// The single value of a variable; nullopt where nothing sets it.
std::optional<ShellText> ShellExpander::value(const std::string& name) const {
  if (const ShellVariable* variable = variables_.find(name))
    return variable->values.empty() ? ShellText{} : variable->values.front();
  if (!is_digit(name.front()) || variables_.arguments == nullptr) return std::nullopt;
  const std::vector<ShellText>& given = *variables_.arguments;
  const std::size_t number = name.size() > 3 ? 0 : std::stoul(name);
  if (number < 1 || number > given.size()) return ShellText{};
  return given[number - 1];
}

void ShellExpander::put_all(const ShellVariable& variable, bool quoted, Fields& out) {
  for (std::size_t i = 0; i < variable.values.size(); ++i) {
    count(variable.values[i]);
    if (i > 0) out.whole() ? out.literal(' ', variable.values[i].at()) : out.end();
    quoted ? out.quoted(variable.values[i]) : out.split(variable.values[i]);
  }
}

void ShellExpander::put_text(const ShellText& value, const std::string& name, std::uint32_t at,
                             bool quoted, Fields& out) {
  count(value);
  if (is_empty(variables_.unknowns.origin(value.text), name, at)) return;
  quoted ? out.quoted(value) : out.split(value);
}

void ShellExpander::put_variable(const std::string& name, std::uint32_t at, bool quoted,
                                 Fields& out) {
  if (name == "@" || name == "*") {  // a script that is read has no arguments
    if (variables_.arguments != nullptr) put_all({*variables_.arguments, {}, true}, quoted, out);
    return;
  }
  if (name == "#")
    return put_number(variables_.arguments == nullptr
                          ? 0
                          : static_cast<std::int64_t>(variables_.arguments->size()),
                      at, out);
  if (const std::optional<ShellText> found = value(name))
    return put_text(*found, name, at, quoted, out);
  const bool argument = is_digit(name.front()) && name != "0";
  const Origin origin = argument                           ? Origin::argument
                        : is_shell_name_char(name.front()) ? Origin::unset
                                                           : Origin::something;
  if (!is_empty(origin, name, at)) put_unknown("$" + name, at, out, origin);
}

bool ShellExpander::is_empty(Origin origin, const std::string& name, std::uint32_t at) {
  if (unset_ == ShellUnset::unknown || origin == Origin::something) return false;
  if (origin == Origin::argument) return unset_ == ShellUnset::all_are_empty;
  variables_.taken_as_empty.try_emplace(name, at);
  return true;
}

// expand_braces() expands what is between "${" and "}".
void ShellExpander::expand_braces(const ShellText& inner, bool quoted, Fields& out) {
  const std::string& text = inner.text;
  const std::uint32_t at = inner.at();
  const auto unknown = [&] { put_unknown("${" + text + "}", at, out); };
  const bool counts = text.size() > 1 && text.front() == '#';
  const std::size_t skipped = counts || text.starts_with('!') ? 1 : 0;
  const std::string_view rest = std::string_view{text}.substr(skipped);
  std::size_t length = shell_name_length(rest);
  while (length < rest.size() && is_digit(rest[length]))
    ++length;
  if (length == 0 && (rest.starts_with('@') || rest.starts_with('*'))) length = 1;
  if (length == 0) return unknown();
  const std::string name{rest.substr(0, length)};
  const ShellText behind = inner.part(skipped + length);
  if (text.front() == '!') {
    const std::optional<ShellText> other = value(name);
    if (!other || shell_name_length(other->text) != other->text.size() || !behind.empty() ||
        other->empty())
      return unknown();
    return put_variable(other->text, at, quoted, out);
  }
  if (behind.text.starts_with('[')) return expand_element(name, behind, counts, quoted, out);
  if (!counts) return expand_operator(name, behind, quoted, out);
  const std::optional<ShellText> found = value(name);
  if (!found || ShellUnknowns::has_mark(found->text)) return unknown();
  put_number(static_cast<std::int64_t>(found->text.size()), at, out);
}

// ${NAME[@]}, ${#NAME[@]}, ${NAME[2]}, ${NAME[$KEY]}.
void ShellExpander::expand_element(const std::string& name, const ShellText& behind, bool counts,
                                   bool quoted, Fields& out) {
  const auto unknown = [&] {
    put_unknown(fmt::format("${{{}{}{}}}", counts ? "#" : "", name, behind.text), behind.at(), out,
                counts ? Origin::something : Origin::unset);
  };
  const std::size_t close = behind.text.find(']');
  const ShellVariable* variable = variables_.find(name);
  if (close == std::string::npos || variable == nullptr) return unknown();
  const ShellText subscript = behind.part(1, close - 1);
  const ShellText rest = behind.part(close + 1);
  if (subscript.text == "@" || subscript.text == "*") {
    if (counts)
      return put_number(static_cast<std::int64_t>(variable->values.size()), behind.at(), out);
    if (rest.empty() || rest.text.front() == '-' || rest.text.starts_with(":-"))
      return put_all(*variable, quoted && subscript.text == "@", out);
    return unknown();
  }
  if (counts || !rest.empty()) return unknown();
  if (!variable->keys.empty()) {
    const ShellText key = this->text(subscript);
    const auto found = std::ranges::find(variable->keys, key.text);
    if (ShellUnknowns::has_mark(key.text))
      return put_unknown(*variables_.unknowns.first(key.text), behind.at(), out);
    if (found == variable->keys.end()) return;
    const auto index = static_cast<std::size_t>(found - variable->keys.begin());
    return put_text(variable->values[index], name, behind.at(), quoted, out);
  }
  const std::optional<std::int64_t> index = arithmetic(subscript);
  if (!index) return unknown();
  const auto count = static_cast<std::int64_t>(variable->values.size());
  const std::int64_t at = *index < 0 ? *index + count : *index;
  if (at < 0 || at >= count) return;
  put_text(variable->values[static_cast<std::size_t>(at)], name, behind.at(), quoted, out);
}

// ${NAME:-2} and the like; `rest`: what is behind the name.
void ShellExpander::expand_operator(const std::string& name, const ShellText& rest, bool quoted,
                                    Fields& out) {
  if (rest.empty()) return put_variable(name, dollar_, quoted, out);
  const bool or_empty = rest.text.front() == ':';
  const char op = rest.text.size() > (or_empty ? 1U : 0U) ? rest.text[or_empty ? 1 : 0] : ' ';
  const std::optional<ShellText> found = value(name);
  const bool all = name == "@" || name == "*";
  const bool has = !all && found && variables_.unknowns.origin(found->text) == Origin::something &&
                   !(or_empty && found->empty());
  if (std::string_view{"-=+?"}.find(op) == std::string_view::npos)
    return expand_change(name, rest, quoted, out);
  const ShellText word = rest.part(or_empty ? 2 : 1);
  if (op == '+') {
    if (has) expand(word, quoted, out);
  } else if (has) {
    put_text(*found, name, rest.at(), quoted, out);
  } else if (op == '?') {
    put_unknown("$" + name, rest.at(), out, Origin::unset);
  } else {
    if (op == '=' && !variables_.is_defined(name)) variables_.set(name, single(text(word)));
    expand(word, quoted, out);
  }
}

// ${NAME%.sh}, ${NAME##*/}, ${NAME/a/b}, ${NAME:0:3}, ${NAME,,}.
void ShellExpander::expand_change(const std::string& name, const ShellText& rest, bool quoted,
                                  Fields& out) {
  const std::optional<ShellText> found = value(name);
  const auto unknown = [&] {
    put_unknown(fmt::format("${{{}{}}}", name, rest.text), rest.at(), out);
  };
  if (!found || ShellUnknowns::has_mark(found->text)) return unknown();
  const char op = rest.text.front();
  const bool twice = rest.text.size() > 1 && rest.text[1] == op;
  const ShellText word = text(rest.part(twice ? 2 : 1));
  ShellText made = *found;
  if (ShellUnknowns::has_mark(word.text)) return unknown();
  if (op == '%' || op == '#') {
    if (made.text.size() > 10'000) return unknown();
    made = without_match(made, op, twice, word.text);
  } else if ((op == ',' || op == '^') && twice) {
    for (char& c : made.text)
      c = static_cast<char>(op == ',' ? std::tolower(static_cast<unsigned char>(c))
                                      : std::toupper(static_cast<unsigned char>(c)));
  } else if (op == '/') {
    made = replaced(made, word, twice);
  } else {
    return unknown();
  }
  put_text(made, name, rest.at(), quoted, out);
}

// The output of a command: of `expr` and `echo`, which only calculate and show.
void ShellExpander::expand_substitution(const ShellText& raw, bool quoted, Fields& out) {
  const std::string& text = raw.text;
  const auto unknown = [&] { put_unknown("$(" + text + ")", raw.at(), out); };
  const std::size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string::npos || text[begin] == '#') return;  // `# a comment`
  if (text.compare(begin, 3, "cat") == 0 && text.find("<<") != std::string::npos) {
    const std::vector<ShellToken> tokens = shell_tokens(raw);
    const auto reads = std::ranges::find_if(tokens, [](const ShellToken& token) {
      return token.redirection && token.redirection->has_document;
    });
    if (reads == tokens.end()) return unknown();
    const ShellRedirection& lines = *reads->redirection;
    ShellText made = lines.literal ? lines.document : document(lines.document);
    while (made.text.ends_with('\n'))
      made = made.part(0, made.text.size() - 1);
    return quoted ? out.quoted(made) : out.split(made);
  }
  const bool echo = text.starts_with("echo "), expr = text.starts_with("expr ");
  if ((!echo && !expr) || text.find_first_of("|;&<>") != std::string::npos) return unknown();
  const ShellText arguments = raw.part(5);
  if (expr) {
    ShellText plain;
    for (const ShellText& field : fields(arguments))
      plain.add(field), plain.add(' ', raw.at());
    const std::optional<std::int64_t> number = arithmetic(plain);
    return number ? put_number(*number, raw.at(), out) : unknown();
  }
  bool first = true;
  for (const ShellText& field : fields(arguments)) {
    if (!first)
      out.split([&] {
        ShellText blank;
        blank.add(' ', raw.at());
        return blank;
      }());
    quoted ? out.quoted(field) : out.split(field);
    first = false;
  }
}

std::optional<std::int64_t> ShellExpander::arithmetic(const ShellText& raw) {
  const ShellText plain = text(raw);
  if (ShellUnknowns::has_mark(plain.text)) return std::nullopt;
  return shell_arithmetic(plain.text, [&](const std::string& name) -> std::optional<std::string> {
    const std::optional<ShellText> found = value(name);
    if (!found || ShellUnknowns::has_mark(found->text)) return std::nullopt;
    return found->text;
  });
}

}  // namespace sim
