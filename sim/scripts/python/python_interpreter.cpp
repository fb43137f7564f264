#include "sim/scripts/python/python_interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "sim/config/input_log.hpp"

namespace sim::python {
namespace {

namespace fs = std::filesystem;
using Kind = Value::Kind;
using Form = Statement::Kind;

constexpr int deepest_import = 16;
constexpr std::size_t most_modules = 64;
constexpr std::size_t most_listed = 200;
constexpr std::uintmax_t most_bytes = 1 << 20;

// The file of a module, in the folder of `from` or one above it: "a.b" is a/b.py or
// a/b/__init__.py.
std::string module_file(const std::string& from, std::string module) {
  fs::path folder = fs::absolute(from).parent_path();
  if (module.starts_with('.')) {
    module.erase(0, 1);
    for (; module.starts_with('.'); module.erase(0, 1))
      folder = folder.parent_path();
  }
  std::ranges::replace(module, '.', '/');
  std::error_code error;
  for (int up = 0; up < 16; ++up, folder = folder.parent_path()) {
    for (const fs::path& file : {folder / (module + ".py"), folder / module / "__init__.py"})
      if (fs::is_regular_file(file, error) && fs::file_size(file, error) <= most_bytes)
        return file.string();
    if (folder == folder.parent_path()) break;
  }
  return {};
}

bool asks_for_attribute(const Expression& expression) {
  return expression.kind == Expression::Kind::call &&
         expression.parts[0].kind == Expression::Kind::name &&
         expression.parts[0].text == "hasattr";
}

// cfg.model.key
bool is_path(const Expression& expression) {
  if (expression.kind == Expression::Kind::name) return true;
  return expression.kind == Expression::Kind::attribute && is_path(expression.parts[0]);
}
std::string path_of(const Expression& expression) {
  if (expression.kind != Expression::Kind::attribute) return expression.text;
  return path_of(expression.parts[0]) + "." + expression.text;
}

}  // namespace

Interpreter::Interpreter(const PythonRules& rules, std::string_view text, const std::string& path)
    : rules_{rules} {
  by_path_[path] = 0;
  static_cast<void>(add_module(text, path));
  static_cast<void>(add_module(rules.prelude, ""));
}

std::size_t Interpreter::add_module(std::string_view text, const std::string& path) {
  const std::size_t index = modules_.size();
  Module& module = modules_.emplace_back();
  module.path = path;
  module.body = parse_module(text);
  for (const Statement& statement : module.body) {
    if (statement.kind != Form::function) continue;
    Value function;
    function.kind = Kind::function;
    function.whole = static_cast<std::int64_t>(index);
    function.function = &statement;
    module.globals[statement.name] = function;
  }
  Frame frame;
  frame.module = index;
  frame.global = true;
  frame.assumed = assumed_;
  const std::string assumption = assumption_;
  if (!text.empty()) static_cast<void>(run(module.body, frame));
  assumed_ = frame.assumed;
  assumption_ = assumption;
  return index;
}

std::optional<std::size_t> Interpreter::load(std::size_t from, const std::string& module) {
  const std::string& path = modules_[from].path;
  const bool asked = module.starts_with('.') ||
                     (!rules_.modules.empty() && module.find(rules_.modules) != module.npos);
  if (!rules_.from_files || path.empty() || !asked) return std::nullopt;
  const std::string file = module_file(path, module);
  if (file.empty() || modules_.size() >= most_modules) return std::nullopt;
  if (const auto known = by_path_.find(file); known != by_path_.end()) return known->second;
  by_path_[file] = modules_.size();
  try {
    return add_module(read_input(file), file);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

Value Interpreter::symbol(std::string name, TextPlace place) const {
  Value made;
  made.kind = Kind::symbol;
  made.text = std::move(name);
  made.place = place;
  return made;
}

Value Interpreter::resolve(std::size_t module, const std::string& name, int depth) {
  if (std::ranges::find(rules_.opaque, name) != rules_.opaque.end()) return symbol(name, line_);
  if (modules_.size() > 1)
    if (const auto found = modules_[1].globals.find(name); found != modules_[1].globals.end())
      return found->second;
  const Module& own = modules_[module];
  if (name == "__file__" && !own.path.empty()) return text_at(own.path, line_);
  if (const auto found = own.globals.find(name); found != own.globals.end()) return found->second;
  if (++steps_ > most_evaluated) throw TooMuch{};
  if (depth > deepest_import) return symbol(name, line_);
  if (const auto import = own.imports.find(name); import != own.imports.end()) {
    const auto [from, there] = import->second;
    const std::optional<std::size_t> next = load(module, from);
    return next && *next != module ? resolve(*next, there, depth + 1) : symbol(there, line_);
  }
  for (std::size_t i = 0; i < own.stars.size(); ++i) {
    const std::optional<std::size_t> next = load(module, own.stars[i]);
    if (!next || *next == module) continue;
    Value found = resolve(*next, name, depth + 1);
    if (!found.is(Kind::symbol)) return found;
  }
  return symbol(name, line_);
}

Value Interpreter::configuration(const std::string& function) {
  const auto found = modules_.front().globals.find(function);
  if (found == modules_.front().globals.end() || !found->second.is(Kind::function))
    throw Stopped{{1, 0}, function + " is no function of the file"};
  line_ = found->second.function->place;
  Value made = invoke(found->second, {});
  if (!made.is(Kind::object))
    throw Stopped{found->second.function->place, function + " gives no configuration"};
  return made;
}

void Interpreter::leave_out(const std::string& line) {
  if (unread_.size() < most_listed) unread_.push_back({line_, line});
}

Interpreter::Flow Interpreter::run(const std::vector<Statement>& body, Frame& frame) {
  for (const Statement& statement : body) {
    if (++steps_ > most_evaluated) throw TooMuch{};
    if (frame.module == 0) line_ = statement.place;
    const TextPlace line = line_;
    const Flow flow = run(statement, frame);
    line_ = line;
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::run(const Statement& statement, Frame& frame) {
  switch (statement.kind) {
    case Form::expression:
      evaluate_alone(statement, frame);
      return Flow::on;
    case Form::assign:
      assign(statement, frame);
      return Flow::on;
    case Form::augment:
      augment(statement, frame);
      return Flow::on;
    case Form::condition:
      return condition(statement, frame);
    case Form::loop:
      return loop(statement, frame);
    case Form::function: {
      Value function;
      function.kind = Kind::function;
      function.whole = static_cast<std::int64_t>(frame.module);
      function.function = &statement;
      bind(statement.name, function, frame);
      return Flow::on;
    }
    case Form::import:
      import(statement, frame);
      return Flow::on;
    case Form::give:
      return give(statement, frame);
    case Form::raise:
      return Flow::raised;
    case Form::attempt:
      return attempt(statement, frame);
    case Form::block:
      return run(statement.body, frame);
    case Form::leave:
      return Flow::left;
    case Form::next:
      return Flow::next;
    case Form::pass:
      return Flow::on;
    case Form::unread:
      if (!frame.global) leave_out(statement.line);
      return Flow::on;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::condition(const Statement& statement, Frame& frame) {
  const Expression& tested = statement.expressions[0];
  const std::optional<bool> holds = truth(evaluate(tested, frame));
  const bool several = tested.kind == Expression::Kind::all;
  const std::span<const Expression> parts{several ? tested.parts.data() : &tested,
                                          several ? tested.parts.size() : 1};
  // A class that lacks an attribute does nothing with it.
  const bool of_attributes = std::ranges::all_of(parts, [&](const Expression& part) {
    return asks_for_attribute(part) ||
           (is_path(part) && truth(evaluate(part, frame)).value_or(false));
  });
  if (holds || of_attributes)
    return run(holds.value_or(true) ? statement.body : statement.other, frame);
  const std::vector<std::string> outer = tested_;
  for (const Expression& part : parts)
    if (is_path(part)) tested_.push_back(path_of(part));
  const Flow flow = undecided({&statement.body, &statement.other}, statement.line, frame);
  tested_ = outer;
  return flow;
}

Interpreter::Flow Interpreter::undecided(
    std::initializer_list<const std::vector<Statement>*> bodies, const std::string& line,
    Frame& frame) {
  const std::string outer = std::exchange(assumption_, line);
  ++assumed_;
  bool leaves = false;
  for (const std::vector<Statement>* body : bodies) {
    const Flow flow = run(*body, frame);
    leaves = leaves || (flow != Flow::on && flow != Flow::raised);
  }
  // The rest of the function may not run; the caller of the function closes this.
  if (leaves) return Flow::on;
  --assumed_;
  assumption_ = outer;
  return Flow::on;
}

bool Interpreter::switches_off(const Expression& target, const Value& value) const {
  return assumed_ == 1 && !truth(value).value_or(true) &&
         std::ranges::find(tested_, path_of(target)) != tested_.end();
}

Value Interpreter::settled(const Value& value, const Value* before, const std::string& line,
                           bool sure) const {
  const bool known = sure || (before != nullptr && equal(*before, value).value_or(false));
  Value made = known ? value : Value{};
  if (!made.is(Kind::unknown) || !made.text.empty()) return made;
  made.text = known ? line : assumption_;
  return made;
}

Interpreter::Flow Interpreter::loop(const Statement& statement, Frame& frame) {
  const Value all = evaluate(statement.expressions[1], frame);
  if (!all.is(Kind::list) && !all.is(Kind::dict)) {
    store(statement.expressions[0], {}, statement, frame);
    return undecided({&statement.body}, statement.line, frame);
  }
  for (const Value& item : items_of(all, values_)) {
    store(statement.expressions[0], item, statement, frame);
    const Flow flow = run(statement.body, frame);
    if (flow == Flow::left) break;
    if (flow == Flow::given || flow == Flow::raised) return flow;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::attempt(const Statement& statement, Frame& frame) {
  const Flow flow = run(statement.body, frame);
  return flow == Flow::raised ? run(statement.other, frame) : flow;
}

Interpreter::Flow Interpreter::give(const Statement& statement, Frame& frame) {
  Value value =
      statement.expressions.empty() ? none_at(line_) : evaluate(statement.expressions[0], frame);
  const bool same = !frame.given || equal(frame.result, value).value_or(false);
  frame.result = same ? std::move(value) : Value{};
  frame.given = true;
  return Flow::given;
}

void Interpreter::import(const Statement& statement, Frame& frame) {
  Module& module = modules_[frame.module];
  for (const Statement::Import& one : statement.imports) {
    if (one.name == "*")
      module.stars.push_back(statement.name);
    else
      module.imports[one.as] = {statement.name, one.name};
  }
}

void Interpreter::bind(const std::string& name, const Value& value, Frame& frame) {
  auto& names = frame.global ? modules_[frame.module].globals : frame.names;
  const auto held = names.find(name);
  names[name] = settled(value, held == names.end() ? nullptr : &held->second, assumption_,
                        assumed_ == frame.assumed);
}

void Interpreter::assign(const Statement& statement, Frame& frame) {
  Value value = evaluate(statement.expressions.back(), frame);
  // The line that first gave what is not known.
  if (value.is(Kind::unknown) && value.text.empty()) value.text = statement.line;
  for (std::size_t i = 0; i + 1 < statement.expressions.size(); ++i)
    store(statement.expressions[i], value, statement, frame);
}

void Interpreter::augment(const Statement& statement, Frame& frame) {
  const Value before = evaluate(statement.expressions[0], frame);
  const Value more = evaluate(statement.expressions[1], frame);
  store(statement.expressions[0], arithmetic(statement.text, before, more, values_, line_),
        statement, frame);
}

void Interpreter::store(const Expression& target, const Value& value, const Statement& statement,
                        Frame& frame) {
  using Target = Expression::Kind;
  if (target.kind == Target::name) return bind(target.text, value, frame);
  if (target.kind == Target::list) return store_items(target, value, statement, frame);
  if (target.kind == Target::attribute) {
    Container* const object = object_at(target.parts[0], frame);
    if (object == nullptr) return leave_out(statement.line);
    const Container::Entry* const held = object->find(target.text);
    values_.count(1);
    return object->set(target.text,
                       settled(value, held != nullptr ? &held->value : nullptr, statement.line,
                               assumed_ == 0 || switches_off(target, value)),
                       line_);
  }
  if (target.kind == Target::subscript) {
    const Value held = evaluate(target.parts[0], frame);
    const Value key = evaluate(target.parts[1], frame);
    const std::optional<std::string> text = repr(key);
    if (held.is(Kind::dict) && text) {
      const Container::Entry* const own = held.items->find(*text);
      values_.count(1);
      return held.items->set(
          *text,
          settled(value, own != nullptr ? &own->value : nullptr, statement.line, assumed_ == 0),
          line_, key);
    }
  }
  leave_out(statement.line);
}

void Interpreter::store_items(const Expression& target, const Value& value,
                              const Statement& statement, Frame& frame) {
  const bool fits = value.is(Kind::list) && value.items->entries.size() == target.parts.size();
  for (std::size_t i = 0; i < target.parts.size(); ++i) {
    store(target.parts[i], fits ? value.items->entries[i].value : Value{}, statement, frame);
  }
}

Container* Interpreter::object_at(const Expression& expression, Frame& frame) {
  using Target = Expression::Kind;
  if (expression.kind == Target::attribute) {
    Container* const outer = object_at(expression.parts[0], frame);
    if (outer == nullptr) return nullptr;
    const Container::Entry* const held = outer->find(expression.text);
    if (held == nullptr || held->value.is(Kind::none)) {
      const Value made = values_.make(Kind::object, line_);
      outer->set(expression.text, made, line_);
      return made.items;
    }
    return held->value.is(Kind::object) ? held->value.items : nullptr;
  }
  const Value value = evaluate(expression, frame);
  return value.is(Kind::object) ? value.items : nullptr;
}

// A call for what it does, not for its value.
void Interpreter::evaluate_alone(const Statement& statement, Frame& frame) {
  const Expression& expression = statement.expressions[0];
  const Value made = evaluate(expression, frame);
  if (expression.kind != Expression::Kind::call || !made.is(Kind::object) || frame.global) return;
  const Expression& callee = expression.parts[0];
  if (callee.kind != Expression::Kind::name || frame.names.contains(callee.text)) return;
  if (!resolve(frame.module, callee.text, 0).is(Kind::symbol)) return;
  const bool changes = std::ranges::any_of(
      made.items->entries, [](const Container::Entry& one) { return one.value.is(Kind::object); });
  if (changes && calls_.size() < most_listed) calls_.push_back({line_, made.text});
}

}  // namespace sim::python
