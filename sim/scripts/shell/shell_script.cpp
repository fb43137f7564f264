#include "sim/scripts/shell/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "sim/scripts/shell/shell_arithmetic.hpp"
#include "sim/scripts/shell/shell_condition.hpp"
#include "sim/scripts/shell/shell_files.hpp"

namespace sim {
namespace {

constexpr int deepest_command = 48;
constexpr std::size_t most_tokens = 2'000'000;  // of functions that call each other
constexpr std::size_t most_variables = 2000;    // that hold flags
constexpr std::size_t most_commands = 20'000;

using Kind = ShellToken::Kind;

// Whether what is read runs. maybe: it hangs on what is not known.
enum class Runs : std::uint8_t { no, maybe, yes };

// Whether a text begins with a flag, behind blanks.
bool holds_flags(std::string_view text) {
  while (!text.empty() && is_shell_blank(text.front()))
    text.remove_prefix(1);
  return is_flag(text);
}

// "NAME=value" and "NAME+=value" of a word as it is written.
struct Assignment {
  std::string name;
  bool append = false;
  std::size_t value = 0;  // where it begins
};
std::optional<Assignment> assignment(std::string_view raw) {
  const std::size_t length = shell_name_length(raw);
  if (length == 0) return std::nullopt;
  const std::string_view rest = raw.substr(length);
  const bool append = rest.starts_with("+=");
  if (!append && !rest.starts_with('=')) return std::nullopt;
  return Assignment{std::string{raw.substr(0, length)}, append, length + (append ? 2 : 1)};
}

// Every flag of the text with `mark` behind its name: whether it is given is not known.
ShellText with_marked_flags(const ShellText& text, const std::string& mark) {
  ShellText made;
  bool in_flag = false;
  for (std::size_t i = 0; i < text.text.size(); ++i) {
    const char c = text.text[i];
    const bool begins = i == 0 || is_shell_blank(text.text[i - 1]);
    if (begins && text.text.compare(i, 2, "--") == 0) in_flag = true;
    if (in_flag && (is_shell_blank(c) || c == '=')) {
      made.add(mark, text.from[i - 1]);
      in_flag = false;
    }
    made.add(c, text.from[i]);
  }
  if (in_flag) made.add(mark, text.from.back());
  return made;
}

class Script {
 public:
  Script(std::vector<ShellToken> tokens, ShellVariables& variables, const ShellFiles& files)
      : tokens_{std::move(tokens)}, variables_{variables}, expander_{variables}, files_{files} {}

  ShellOutcome run() {
    while (here().kind != Kind::end) {
      run_list(Runs::yes);
      if (here().kind != Kind::end) ++at_;  // a word like `fi` or an operator without its begin
    }
    return finished();
  }

  ShellOutcome run_commands(const std::vector<std::vector<ShellText>>& commands,
                            const std::vector<ShellFile>& present) {
    for (const ShellFile& file : present)
      written_.write(file.path, file.text);
    for (const std::vector<ShellText>& words : commands)
      if (!words.empty()) execute(words.front().at(), words, Runs::yes, nullptr);
    return finished();
  }

 private:
  // finished() also runs scripts that are written and not started here: somebody else starts them.
  ShellOutcome finished() {
    for (const ShellText& script : written_.take_rest())
      run_inner(script, "a script that is written here", Runs::yes);
    return std::move(outcome_);
  }

  const ShellToken& here() const { return tokens_[at_]; }
  bool ends_command() const {
    const ShellToken& token = here();
    return token.kind == Kind::newline || token.kind == Kind::end ||
           (token.kind == Kind::op && token.raw.text != "(");
  }
  void skip_newlines() {
    while (here().kind == Kind::newline || here().is_op(";") || here().is_op("&"))
      ++at_;
  }

  // Words that end a list where a command could begin.
  bool at_end_of_list() const {
    const ShellToken& token = here();
    if (token.kind == Kind::end || token.is_op(")") || token.is_op(";;")) return true;
    if (token.kind != Kind::word) return false;
    constexpr std::array<std::string_view, 8> ends{"then", "elif", "else", "fi",
                                                   "do",   "done", "esac", "}"};
    return std::ranges::find(ends, token.raw.text) != ends.end();
  }

  // Commands up to the word that ends them; the truth of the last one.
  ShellTruth run_list(Runs runs) {
    ShellTruth last{true, ""};
    for (skip_newlines(); !at_end_of_list(); skip_newlines()) {
      const std::size_t before = at_;
      last = run_chain(runs);
      if (at_ == before) ++at_;  // an operator that begins nothing
    }
    return last;
  }

  // a && b || c, and what a pipe leads to.
  ShellTruth run_chain(Runs runs) {
    ShellTruth truth = run_pipe(runs);
    while (here().is_op("&&") || here().is_op("||")) {
      const bool wants = here().is_op("&&");
      if (!truth.value && ran_program_) truth.value = true;  // else the script would not go on
      ++at_;
      while (here().kind == Kind::newline)
        ++at_;
      const std::string why = std::exchange(why_, truth.value ? why_ : truth.why);
      const Runs next =
          !truth.value ? std::min(runs, Runs::maybe) : (*truth.value == wants ? runs : Runs::no);
      const ShellTruth right = run_pipe(next);
      why_ = why;
      if (next == runs) truth = right;
    }
    return truth;
  }

  ShellTruth run_pipe(Runs runs) {
    ShellTruth truth = run_command(runs);
    while (here().is_op("|") || here().is_op("|&")) {
      ++at_;
      while (here().kind == Kind::newline)
        ++at_;
      run_command(runs);
      truth = {std::nullopt, "the output of a pipe"};
    }
    return truth;
  }

  ShellTruth run_command(Runs runs) {
    if (++steps_ > most_tokens) throw ShellProblem{here().raw.at(), "the script runs to no end"};
    if (++depth_ > deepest_command) throw ShellProblem{here().raw.at(), "nested too deeply"};
    ShellTruth truth = command(runs);
    --depth_;
    return truth;
  }

  ShellTruth command(Runs runs) {
    const ShellToken& token = here();
    ran_program_ = false;
    if (token.kind == Kind::condition) {
      ++at_;
      return runs == Runs::no ? ShellTruth{} : condition(token.elements);
    }
    if (token.kind == Kind::arithmetic) {
      ++at_;
      return runs == Runs::no ? ShellTruth{} : calculate(token.raw, runs);
    }
    if (token.is_op("(")) return group(runs, [](const ShellToken& t) { return t.is_op(")"); });
    if (token.kind != Kind::word) return simple(runs);
    const std::string& word = token.raw.text;
    if (word == "{") return group(runs, [](const ShellToken& t) { return t.is_word("}"); });
    if (word == "if") return run_if(runs);
    if (word == "case") return run_case(runs);
    if (word == "while" || word == "until") return run_while(runs);
    if (word == "for" || word == "select") return run_for(runs);
    if (word == "!") {
      ++at_;
      return negated(run_command(runs));
    }
    if (word == "time") {
      ++at_;
      return run_command(runs);
    }
    if (names_function()) return define_function(runs);
    return simple(runs);
  }

  template <class Ends>
  ShellTruth group(Runs runs, Ends ends) {
    ++at_;
    ShellTruth truth = run_list(runs);
    if (ends(here())) ++at_;
    return truth;
  }

  ShellTruth condition(const std::vector<ShellText>& words) {
    return shell_condition(words, variables_, expander_);
  }

  // (( NAME = a + b )), (( NAME > 2 )).
  ShellTruth calculate(const ShellText& raw, Runs runs) {
    const std::size_t begin = std::min(raw.text.find_first_not_of(" \t\n"), raw.text.size());
    const std::string_view text = std::string_view{raw.text}.substr(begin);
    const std::size_t length = shell_name_length(text);
    std::size_t equals = length;
    while (equals < text.size() && is_shell_blank(text[equals]))
      ++equals;
    const bool sets = length > 0 && text.substr(equals).starts_with('=') &&
                      !text.substr(equals).starts_with("==");
    if (sets) {
      const std::optional<std::int64_t> number = expander_.arithmetic(raw.part(begin + equals + 1));
      const std::string name{text.substr(0, length)};
      ShellText value;
      value.add(number ? fmt::format("{}", *number) : variables_.unknowns.mark("$" + name),
                raw.at());
      assign(name, false, value, runs);
      return {true, ""};
    }
    if (raw.text.find("++") != std::string::npos || raw.text.find("--") != std::string::npos ||
        raw.text.find("+=") != std::string::npos || raw.text.find("-=") != std::string::npos) {
      if (length > 0) forget(std::string{text.substr(0, length)}, raw.at());
      return {std::nullopt, "(( " + raw.text + " ))"};
    }
    const std::optional<std::int64_t> number = expander_.arithmetic(raw);
    if (!number) return {std::nullopt, "(( " + raw.text + " ))"};
    return {*number != 0, ""};
  }

  // ---- if, case, loops.

  // Takes the word if it stands here.
  bool take(std::string_view word) {
    if (!here().is_word(word)) return false;
    ++at_;
    return true;
  }

  // Branches says what runs behind a condition, and what is left for its else.
  struct Branches {
    Runs then = Runs::no, rest = Runs::no;
  };
  static Branches branches(const ShellTruth& truth, Runs runs) {
    if (runs == Runs::no) return {};
    if (!truth.value) return {Runs::maybe, Runs::maybe};
    return *truth.value ? Branches{runs, Runs::no} : Branches{Runs::no, runs};
  }

  ShellTruth run_if(Runs runs) {
    const std::string why = why_;
    Runs rest = runs;
    do {
      ++at_;  // if, elif
      const ShellTruth truth = run_list(rest);
      if (!truth.value && rest != Runs::no) why_ = truth.why;
      const Branches next = branches(truth, rest);
      take("then");
      run_list(next.then);
      rest = next.rest;
    } while (here().is_word("elif"));
    if (take("else")) run_list(rest);
    take("fi");
    why_ = why;
    return {true, ""};
  }

  ShellTruth run_case(Runs runs) {
    const std::string why = why_;
    ++at_;
    ShellText word;
    if (here().kind == Kind::word) {
      if (runs != Runs::no) word = expander_.text(here().raw);
      ++at_;
    }
    skip_newlines();
    take("in");
    const std::optional<std::string> unknown = variables_.unknowns.first(word.text);
    if (unknown) why_ = *unknown;
    Runs rest = runs;
    for (skip_newlines(); !here().is_word("esac") && here().kind != Kind::end; skip_newlines()) {
      const bool matches = case_patterns(word, rest != Runs::no) && !unknown;
      const Runs now = unknown ? std::min(rest, Runs::maybe) : matches ? rest : Runs::no;
      const std::size_t before = at_;
      run_list(now);
      if (matches) rest = Runs::no;
      if (here().is_op(";;")) ++at_;
      if (at_ == before) ++at_;
    }
    take("esac");
    why_ = why;
    return {true, ""};
  }

  // "a|b)"; whether one of them matches.
  bool case_patterns(const ShellText& word, bool evaluate) {
    bool matches = false;
    if (here().is_op("(")) ++at_;
    while (here().kind == Kind::word || here().is_op("|")) {
      if (here().kind == Kind::word && evaluate)
        matches = matches || matches_pattern(word.text, expander_.text(here().raw).text);
      ++at_;
    }
    if (here().is_op(")")) ++at_;
    return matches;
  }

  ShellTruth run_while(Runs runs) {
    const std::string why = why_;
    const bool until = here().raw.text == "until";
    ++at_;
    ShellTruth truth = run_list(runs);
    if (until) truth = negated(truth);
    if (!truth.value && runs != Runs::no) why_ = truth.why;
    take("do");
    ++loops_;
    run_list(branches(truth, runs).then);
    --loops_;
    take("done");
    why_ = why;
    return {true, ""};
  }

  // The body is read once, with the variable not known where there is more than one value.
  ShellTruth run_for(Runs runs) {
    ++at_;
    std::vector<ShellText> values;
    std::string name;
    if (here().kind == Kind::arithmetic) {
      name = here().raw.text.substr(0, shell_name_length(here().raw.text));
      ++at_;
    } else if (here().kind == Kind::word) {
      name = here().raw.text;
      ++at_;
      skip_newlines();
      if (take("in")) values = rest_of_command(runs);
    }
    if (runs != Runs::no && shell_name_length(name) == name.size() && !name.empty()) {
      ShellText value;
      value.add(variables_.unknowns.mark("$" + name), here().raw.at());
      set(name, {{values.size() == 1 ? values.front() : value}, {}, false});
    }
    skip_newlines();
    take("do");
    if (values.size() != 1) ++loops_;
    run_list(runs);
    if (values.size() != 1) --loops_;
    take("done");
    return {true, ""};
  }

  std::vector<ShellText> rest_of_command(Runs runs) {
    std::vector<ShellText> fields;
    for (; !ends_command(); ++at_) {
      if (runs == Runs::no || here().kind != Kind::word) continue;
      for (ShellText& field : expander_.fields(here().raw))
        fields.push_back(std::move(field));
    }
    return fields;
  }

  // ---- Functions.

  bool names_function() const {
    if (here().raw.text == "function") return true;
    return tokens_[at_ + 1].is_op("(") && at_ + 2 < tokens_.size() && tokens_[at_ + 2].is_op(")");
  }

  ShellTruth define_function(Runs runs) {
    take("function");
    const std::string name = here().raw.text;
    ++at_;
    if (here().is_op("(")) ++at_;
    if (here().is_op(")")) ++at_;
    while (here().kind == Kind::newline)
      ++at_;
    if (runs != Runs::no) functions_[name] = at_;
    return here().kind == Kind::end ? ShellTruth{} : run_command(Runs::no);
  }

  ShellTruth call(std::size_t body, std::vector<ShellText> words, Runs runs) {
    words.erase(words.begin());
    const std::vector<ShellText>* before = std::exchange(variables_.arguments, &words);
    const std::size_t back = std::exchange(at_, body);
    ShellTruth truth = run_command(runs);
    at_ = back;
    variables_.arguments = before;
    return truth;
  }

  // ---- Assignments.

  void set(const std::string& name, ShellVariable value) {
    variables_.set(name, std::move(value));
    for (const ShellText& text : variables_.find(name)->values)
      if (holds_flags(text.text)) return note_flags(name);
  }
  void note_flags(const std::string& name) {
    std::erase_if(outcome_.flags, [&](const auto& entry) { return entry.first == name; });
    if (outcome_.flags.size() >= most_variables)
      throw ShellProblem{here().raw.at(),
                         fmt::format("more than {} variables hold flags", most_variables)};
    outcome_.flags.emplace_back(name, variables_.find(name)->values);
  }

  // forget() makes a variable unknown, after something that cannot be followed.
  void forget(const std::string& name, std::uint32_t at) {
    ShellText value;
    value.add(variables_.unknowns.mark("$" + name), at);
    set(name, {{value}, {}, false});
  }

  std::string mark_of(const std::string& name) {
    const bool names =
        why_.size() > 1 && why_.front() == '$' && why_.find_first_of("({") == std::string::npos;
    return variables_.unknowns.mark(names ? why_ : "$" + name);
  }

  // In a loop, what counts up is not known.
  void assign_word(const Assignment& to, const ShellText& raw, Runs runs) {
    ShellText value = expander_.text(raw.part(to.value));
    const bool number = value.text.find_first_not_of("0123456789") == std::string::npos;
    if (loops_ > 0 && number && raw.text.find(to.name, to.value) != std::string::npos)
      return forget(to.name, raw.at());
    assign(to.name, to.append, std::move(value), runs);
  }

  void assign(const std::string& name, bool append, ShellText value, Runs runs) {
    if (runs == Runs::no || variables_.is_defined(name)) return;
    const ShellVariable* old = variables_.find(name);
    const ShellText before = old != nullptr && !old->values.empty() ? old->values[0] : ShellText{};
    // The nearest variable that a person can give.
    if (ShellUnknowns::is_mark(value.text)) {
      const std::string shown = variables_.unknowns.shown(value.text);
      const bool plain = shown.find_first_of("({") == std::string::npos;
      const ShellUnknowns::Origin origin = variables_.unknowns.origin(value.text);
      const bool positional = plain && shown.size() > 1 && shown[1] >= '0' && shown[1] <= '9';
      if (!plain || positional) {
        const std::uint32_t at = value.at();
        value = {};
        value.add(variables_.unknowns.mark("$" + name, origin), at);
      }
    }
    if (old != nullptr && old->array) {
      ShellVariable array = *old;
      if (append)
        array.values.empty() ? array.values.push_back(value) : array.values[0].add(value);
      else
        array = {{value}, {}, false};
      return set(name, std::move(array));
    }
    if (append) {
      ShellText whole = before;
      whole.add(runs == Runs::maybe || loops_ > 0 ? with_marked_flags(value, mark_of(name))
                                                  : value);
      return set(name, {{whole}, {}, false});
    }
    if (runs == Runs::yes || value.text == before.text) return set(name, {{value}, {}, false});
    assign_maybe(name, before, value);
  }

  // Flags stay, as ones of which it is not known whether they are given; a value is not known.
  void assign_maybe(const std::string& name, const ShellText& before, const ShellText& value) {
    const std::string mark = mark_of(name);
    if (holds_flags(before.text) || holds_flags(value.text)) {
      ShellText both = before;
      if (!both.empty()) both.add(' ', value.at());
      both.add(with_marked_flags(value, mark));
      return set(name, {{both}, {}, false});
    }
    ShellText unknown;
    unknown.add(mark, value.at());
    set(name, {{unknown}, {}, false});
  }

  void assign_array(const ShellToken& token, Runs runs) {
    if (runs == Runs::no) return;
    const Assignment to = *assignment(token.raw.text);
    if (variables_.is_defined(to.name)) return;
    ShellVariable made{{}, {}, true};
    const ShellVariable* old = variables_.find(to.name);
    const bool maybe = runs == Runs::maybe || (loops_ > 0 && to.append);
    if (old != nullptr && (to.append || runs == Runs::maybe)) made = *old;
    made.array = true;
    const std::string mark = maybe ? mark_of(to.name) : "";
    for (const ShellText& element : token.elements) {
      if (element.text.starts_with('[') && element.text.find("]=") != std::string::npos) {
        const std::size_t equals = element.text.find("]=");
        made.keys.push_back(expander_.text(element.part(1, equals - 1)).text);
        made.values.push_back(expander_.text(element.part(equals + 2)));
        continue;
      }
      for (const ShellText& field : expander_.fields(element))
        made.values.push_back(maybe ? with_marked_flags(field, mark) : field);
    }
    if (made.keys.size() != made.values.size()) made.keys.clear();
    set(to.name, std::move(made));
  }

  // ---- Commands.

  ShellTruth simple(Runs runs) {
    bool only_assignments = true, any = false;
    const bool loose = here().kind == Kind::word && here().raw.text.starts_with('-');
    const std::uint32_t at = here().raw.at();
    if (loose && here().behind_comment && !outcome_.lost && runs != Runs::no) outcome_.lost = at;
    std::vector<ShellText> words;
    std::shared_ptr<const ShellRedirection> redirection;
    std::size_t begin = at_;
    for (; !ends_command(); ++at_) {
      const ShellToken& token = here();
      if (token.redirection) redirection = token.redirection;
      if (only_assignments && token.kind == Kind::array) {
        assign_array(token, runs);
      } else if (const auto to = assignment(token.raw.text);
                 only_assignments && to && token.kind == Kind::word) {
        if (runs != Runs::no) assign_word(*to, token.raw, runs);
      } else {
        if (only_assignments) begin = at_;
        only_assignments = false;
        if (begin == at_ && token.kind == Kind::word && declares(token.raw.text)) {
          declare(runs);
          return {true, ""};
        }
        if (token.is_op("("))
          throw ShellProblem{token.raw.at(), "'(' needs quotes here, for the shell too"};
        if (runs != Runs::no) take_words(token, words);
      }
      any = true;
    }
    if (!any && !ends_command()) ++at_;
    if (words.empty() || runs == Runs::no) return {true, ""};
    if (loose) {
      outcome_.loose.insert(outcome_.loose.end(), words.begin(), words.end());
      return {true, ""};
    }
    return execute(at, std::move(words), runs, redirection.get());
  }

  void take_words(const ShellToken& token, std::vector<ShellText>& words) {
    if (token.kind == Kind::array) {
      words.push_back(token.raw);
      return;
    }
    if (token.kind != Kind::word) return;
    for (ShellText& field : expander_.fields(token.raw))
      words.push_back(std::move(field));
  }

  static bool declares(std::string_view word) {
    constexpr std::array<std::string_view, 5> known{"export", "declare", "local", "readonly",
                                                    "typeset"};
    return std::ranges::find(known, word) != known.end();
  }

  void declare(Runs runs) {
    for (++at_; !ends_command(); ++at_) {
      const ShellToken& token = here();
      if (token.kind == Kind::array) {
        assign_array(token, runs);
      } else if (const auto to = assignment(token.raw.text); to && token.kind == Kind::word) {
        if (runs != Runs::no) assign_word(*to, token.raw, runs);
      }
    }
  }

  // `redirection`: or nullptr.
  ShellTruth execute(std::uint32_t at, std::vector<ShellText> words, Runs runs,
                     const ShellRedirection* redirection) {
    const std::string name = words.front().text;
    if (redirection != nullptr && writes(words, *redirection)) return {true, ""};
    if (const auto function = functions_.find(name); function != functions_.end())
      return call(function->second, std::move(words), runs);
    if (name == "[" || name == "test") {
      std::vector<ShellText> inner = conditions_of(at);
      return condition(inner);
    }
    if (name == "false") return {false, ""};
    if ((name == "source" || name == ".") && words.size() > 1) return source(at, words[1], runs);
    if (name == "unset")
      for (std::size_t i = 1; i < words.size(); ++i)
        variables_.unset(words[i].text);
    if (name == "read" || name == "mapfile" || name == "readarray" || name == "getopts")
      for (std::size_t i = 1; i < words.size(); ++i)
        if (shell_name_length(words[i].text) == words[i].text.size() && !words[i].empty())
          forget(words[i].text, at);
    if (runs_text(words)) return run_text(words, runs);
    if (redirection != nullptr && redirection->has_document && takes_script(words))
      return run_file(words, words.size(), words.size(), lines_of(*redirection), runs);
    if (const auto script = written_.started_by(words); script && runs != Runs::no) {
      if (const std::optional<ShellText> text = script_of(words, *script))
        return run_file(words, script->index, script->index + 1, *text, runs);
    }
    if (name == "let") return {std::nullopt, "let"};
    if (name == ":" || name == "true" || name == "echo" || name == "printf") return {true, ""};
    note_command(at, words, runs);
    ran_program_ = true;
    return {std::nullopt, "the command '" + variables_.unknowns.shown(name) + "'"};
  }

  // ---- Scripts that are written and started here.

  ShellText lines_of(const ShellRedirection& redirection) {
    return redirection.literal ? redirection.document : expander_.document(redirection.document);
  }

  // `cat > FILE <<END`, `echo "$TEXT" > FILE`, `tee FILE <<END`; whether it was one of them.
  bool writes(const std::vector<ShellText>& words, const ShellRedirection& redirection) {
    const std::string& name = words.front().text;
    const bool tee = name == "tee" && redirection.has_document && words.size() > 1;
    if (tee || (name == "cat" && redirection.has_document && !redirection.target.empty())) {
      written_.write(tee ? words.back().text : expander_.text(redirection.target).text,
                     lines_of(redirection));
      return true;
    }
    if ((name != "echo" && name != "printf") || redirection.target.empty()) return false;
    ShellText text;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i].text == "-e" || words[i].text == "-n" || words[i].text == "%s") continue;
      if (!text.empty()) text.add(' ', words[i].at());
      text.add(words[i]);
    }
    written_.write(expander_.text(redirection.target).text, text);
    return true;
  }

  // Whether what a command reads is a script: bash <<END, sbatch <<END.
  static bool takes_script(const std::vector<ShellText>& words) {
    return words.front().text == "sbatch" || is_shell_program(words.back().text) ||
           words.back().text == "-s" || words.back().text == "bash -s";
  }

  // The text that a command starts: one that was written here, else a file beside the script.
  std::optional<ShellText> script_of(const std::vector<ShellText>& words,
                                     const ShellScriptWord& script) {
    if (const ShellText* text = written_.run(script.name)) return *text;
    if (!files_) return std::nullopt;
    const ShellText& word = words[script.index];
    std::string path = word.text.substr(word.text.rfind('\x02') + 1);
    if (ShellUnknowns::has_mark(word.text)) path.erase(0, path.find_first_not_of('/'));
    const std::optional<std::string> found = path.empty() ? std::nullopt : files_(path);
    if (!found) return std::nullopt;
    ShellText text;
    text.add(*found, word.at());
    return text;
  }

  // Its commands have the words in front of `index` as their launcher, and those from `first` on
  // are its arguments.
  ShellTruth run_file(const std::vector<ShellText>& words, std::size_t index, std::size_t first,
                      const ShellText& text, Runs runs) {
    const std::size_t outer = launcher_.size();
    launcher_.insert(launcher_.end(), words.begin(),
                     words.begin() + static_cast<std::ptrdiff_t>(index));
    std::vector<ShellText> arguments;
    for (std::size_t i = first; i < words.size(); ++i)
      arguments.push_back(words[i]);
    const std::vector<ShellText>* before = variables_.arguments;
    if (!arguments.empty()) variables_.arguments = &arguments;
    const ShellTruth truth = run_inner(text, words.front().text, runs);
    variables_.arguments = before;
    launcher_.resize(outer);
    return truth;
  }

  // The words of [ ... ] as they are written, so that "" stays a word.
  std::vector<ShellText> conditions_of(std::uint32_t at) const {
    std::vector<ShellText> words;
    std::size_t begin = at_;
    while (begin > 0 && tokens_[begin - 1].kind == Kind::word && tokens_[begin].raw.at() != at)
      --begin;
    for (std::size_t i = begin; i < at_; ++i)
      if (tokens_[i].raw.text != "[" && tokens_[i].raw.text != "]" && tokens_[i].raw.text != "test")
        words.push_back(tokens_[i].raw);
    return words;
  }

  void note_command(std::uint32_t at, const std::vector<ShellText>& words, Runs runs) {
    if (outcome_.commands.size() >= most_commands)
      throw ShellProblem{at, fmt::format("more than {} commands", most_commands)};
    ShellCommand command{at, launcher_, runs == Runs::maybe};
    command.words.insert(command.words.end(), words.begin(), words.end());
    outcome_.commands.push_back(std::move(command));
  }

  // eval "..." and bash -c "...": a text that is a script itself.
  static bool runs_text(const std::vector<ShellText>& words) {
    if (words.front().text == "eval") return words.size() > 1;
    return shell_option(words) > 0;
  }
  // shell_option() is where "-c" of a bash stands; 0: nowhere.
  static std::size_t shell_option(const std::vector<ShellText>& words) {
    for (std::size_t i = 0; i + 2 < words.size(); ++i) {
      const std::string& name = words[i].text;
      const bool shell =
          name == "bash" || name == "sh" || name.ends_with("/bash") || name.ends_with("/sh");
      const std::string& option = words[i + 1].text;
      if (shell && option.size() > 1 && option.front() == '-' && option[1] != '-' &&
          option.ends_with('c'))
        return i + 1;
    }
    return 0;
  }

  ShellTruth run_text(const std::vector<ShellText>& words, Runs runs) {
    ShellText text;
    const std::size_t option = shell_option(words);
    if (option > 0) {
      text = words[option + 1];
    } else {
      for (std::size_t i = 1; i < words.size(); ++i) {
        text.add(words[i]);
        text.add(' ', words[i].at());
      }
    }
    if (text.empty()) return {std::nullopt, words.front().text};
    return option > 0 ? run_file(words, option + 1, option + 3, text, runs)
                      : run_inner(text, words.front().text, runs);
  }

  // A folder that only a running shell knows is taken as that of the file.
  ShellTruth source(std::uint32_t at, const ShellText& word, Runs runs) {
    std::string path = word.text.substr(word.text.rfind('\x02') + 1);
    while (path.size() < word.text.size() && path.starts_with('/'))
      path.erase(0, 1);
    const std::optional<std::string> found = files_ && !path.empty() ? files_(path) : std::nullopt;
    if (!found) {
      outcome_.not_found.push_back(word);
      ran_program_ = true;
      return {std::nullopt, "the file '" + path + "'"};
    }
    ShellText text;
    text.add(*found, at);
    return run_inner(text, path, runs);
  }

  ShellTruth run_inner(const ShellText& text, const std::string& name, Runs runs) {
    if (++texts_ > 64) return {std::nullopt, name};
    std::vector<ShellToken> tokens = shell_tokens(text);
    tokens.swap(tokens_);
    const auto functions = std::exchange(functions_, {});  // they lie in the other tokens
    const std::size_t back = std::exchange(at_, 0);
    while (here().kind != Kind::end) {
      run_list(runs);
      if (here().kind != Kind::end) ++at_;
    }
    at_ = back;
    functions_ = functions;
    tokens.swap(tokens_);
    return {true, ""};
  }

  std::vector<ShellToken> tokens_;
  ShellVariables& variables_;
  ShellExpander expander_;
  const ShellFiles& files_;
  ShellOutcome outcome_;
  std::size_t at_ = 0, steps_ = 0;
  int depth_ = 0, loops_ = 0, texts_ = 0;
  bool ran_program_ = false;  // the last command was one whose end is not known
  std::string why_;           // what the branch that is read hangs on
  std::map<std::string, std::size_t> functions_;
  ShellWrittenFiles written_;
  std::vector<ShellText> launcher_;  // words in front of the script that runs
};

}  // namespace

ShellOutcome run_shell_script(const ShellText& source, ShellVariables& variables,
                              const ShellFiles& files) {
  return Script{shell_tokens(source), variables, files}.run();
}

ShellOutcome run_shell_commands(const std::vector<std::vector<ShellText>>& commands,
                                const std::vector<ShellFile>& present, ShellVariables& variables,
                                const ShellFiles& files) {
  return Script{shell_tokens({}), variables, files}.run_commands(commands, present);
}

std::vector<ShellText> split_quoted_flag(const ShellText& word) {
  if (!is_flag(word.text)) return {word};
  std::vector<ShellText> parts;
  ShellText part;
  bool open = false;
  char quote = 0;
  for (std::size_t i = 0; i < word.text.size(); ++i) {
    const char c = word.text[i];
    if (quote == 0 && is_shell_blank(c)) {
      if (open) parts.push_back(std::move(part));
      part = {};
      open = false;
    } else if (c == quote || (quote == 0 && !open && (c == '"' || c == '\''))) {
      quote = c == quote ? '\0' : c;
      open = true;
    } else {
      part.add(c, word.from[i]);
      open = true;
    }
  }
  if (open) parts.push_back(std::move(part));
  return parts;
}

}  // namespace sim
