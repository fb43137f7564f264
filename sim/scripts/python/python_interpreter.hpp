// Evaluates functions of parsed modules.
#pragma once

#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/scripts/python/python_recipe.hpp"
#include "sim/scripts/python/python_value.hpp"

namespace sim::python {

// Statements and expressions that one recipe may evaluate.
inline constexpr std::size_t most_evaluated = 500'000;

// Stopped is thrown at `place` of the recipe's file.
struct Stopped {
  TextPlace place;
  std::string what;
};

struct Told {
  TextPlace place;
  std::string text;
};

class Interpreter {
 public:
  // `path`: the file that `text` is of.
  Interpreter(const PythonRules& rules, std::string_view text, const std::string& path);

  // configuration() is what a function of the file returns, or holds as `cfg` in the end. Throws
  // Stopped, TooMuch.
  Value configuration(const std::string& function);
  const std::vector<Told>& calls() const { return calls_; }
  const std::vector<Told>& unread() const { return unread_; }

 private:
  struct Module {
    std::string path;
    std::vector<Statement> body;
    std::map<std::string, Value> globals;
    std::map<std::string, std::pair<std::string, std::string>> imports;  // name: module, name there
    std::vector<std::string> stars;
  };
  struct Frame {
    std::size_t module = 0;
    bool global = false;
    std::map<std::string, Value> names;
    Value result;
    bool given = false;  // result: by a return that was run, perhaps under a condition
    int assumed = 0;     // conditions that were open when the frame began
  };
  enum class Flow : std::uint8_t { on, given, raised, left, next };
  struct Arguments {
    std::vector<Value> values;
    std::vector<std::string> names;  // "": by position
  };

  // ---- Modules.
  std::size_t add_module(std::string_view text, const std::string& path);
  std::optional<std::size_t> load(std::size_t from, const std::string& module);
  Value resolve(std::size_t module, const std::string& name, int depth);
  Value symbol(std::string name, TextPlace place) const;

  // ---- Statements.
  Flow run(const std::vector<Statement>& body, Frame& frame);
  Flow run(const Statement& statement, Frame& frame);
  Flow condition(const Statement& statement, Frame& frame);
  // Runs each of `bodies` where nothing says which of them runs: what they set is not known after.
  Flow undecided(std::initializer_list<const std::vector<Statement>*> bodies,
                 const std::string& line, Frame& frame);
  Flow loop(const Statement& statement, Frame& frame);
  Flow attempt(const Statement& statement, Frame& frame);
  Flow give(const Statement& statement, Frame& frame);
  void import(const Statement& statement, Frame& frame);
  void assign(const Statement& statement, Frame& frame);
  void augment(const Statement& statement, Frame& frame);
  void store(const Expression& target, const Value& value, const Statement& statement,
             Frame& frame);
  void store_items(const Expression& target, const Value& value, const Statement& statement,
                   Frame& frame);
  void evaluate_alone(const Statement& statement, Frame& frame);
  void bind(const std::string& name, const Value& value, Frame& frame);
  void leave_out(const std::string& line);
  // Whether a condition that tests an attribute switches it off: off it is either way.
  bool switches_off(const Expression& target, const Value& value) const;
  // `value`, or an unknown one (text: the line that decides) where it may be that `before` stays.
  Value settled(const Value& value, const Value* before, const std::string& line, bool sure) const;
  // The object of a path, made where it is not there yet; null: it is none.
  Container* object_at(const Expression& expression, Frame& frame);

  // ---- Expressions.
  Value evaluate(const Expression& expression, Frame& frame);
  Value evaluate_inner(const Expression& expression, Frame& frame);
  Value name(const Expression& expression, Frame& frame);
  Value attribute(const Expression& expression, Frame& frame);
  Value attribute_of(const Value& value, const std::string& name, TextPlace place);
  Value subscript(const Expression& expression, Frame& frame);
  Value list(const Expression& expression, Frame& frame);
  Value dict(const Expression& expression, Frame& frame);
  Value joined(const Expression& expression, Frame& frame);
  Value comprehension(const Expression& expression, Frame& frame);
  Value unary(const Expression& expression, Frame& frame);

  // ---- Calls.
  Value call(const Expression& expression, Frame& frame);
  Arguments arguments(const Expression& expression, Frame& frame);
  Value invoke(const Value& function, const Arguments& arguments);
  void rest(const std::string& parameter, const Arguments& given, const std::vector<bool>& used,
            Frame& frame);
  Value made_by(const std::string& symbol, const Arguments& arguments, TextPlace place);
  Value method(const Value& value, const std::string& name, const Arguments& arguments,
               TextPlace place);
  Value list_method(const Value& value, const std::string& name, const Arguments& arguments,
                    TextPlace place);
  Value dict_method(const Value& value, const std::string& name, const Arguments& arguments,
                    TextPlace place);

  TextPlace here(TextPlace written, const Frame& frame) const {
    return frame.module == 0 ? written : line_;
  }

  const PythonRules& rules_;
  std::deque<Module> modules_;  // the file, the prelude, what they import
  std::map<std::string, std::size_t> by_path_;
  Values values_;
  TextPlace line_;                   // of the statement of the file that is at work
  int depth_ = 0;                    // of calls and expressions
  int assumed_ = 0;                  // conditions that are not known, within each other
  std::vector<std::string> tested_;  // attributes that these conditions test
  std::string assumption_;           // line of the innermost
  std::size_t steps_ = 0;
  std::vector<Told> calls_, unread_;
};

}  // namespace sim::python
