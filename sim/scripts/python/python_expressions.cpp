#include <algorithm>

#include "sim/scripts/python/python_functions.hpp"
#include "sim/scripts/python/python_interpreter.hpp"

namespace sim::python {
namespace {

using Kind = Value::Kind;

constexpr int deepest_evaluation = 200;  // calls and expressions within each other

}  // namespace

Value Interpreter::evaluate(const Expression& expression, Frame& frame) {
  if (++depth_ > deepest_evaluation || ++steps_ > most_evaluated) throw TooMuch{};
  Value value = evaluate_inner(expression, frame);
  --depth_;
  return value;
}

Value Interpreter::evaluate_inner(const Expression& expression, Frame& frame) {
  using Form = Expression::Kind;
  const TextPlace place = here(expression.place, frame);
  switch (expression.kind) {
    case Form::none:
      return none_at(place);
    case Form::boolean:
      return boolean_at(!expression.text.empty(), place);
    case Form::number:
      return number_at(expression.text, place);
    case Form::string:
      return text_at(expression.text, place);
    case Form::name:
      return name(expression, frame);
    case Form::attribute:
      return attribute(expression, frame);
    case Form::subscript:
      return subscript(expression, frame);
    case Form::call:
      return call(expression, frame);
    case Form::list:
      return list(expression, frame);
    case Form::dict:
      return dict(expression, frame);
    case Form::unary:
      return unary(expression, frame);
    case Form::binary: {
      const Value left = evaluate(expression.parts[0], frame);
      const Value right = evaluate(expression.parts[1], frame);
      return arithmetic(expression.text, left, right, values_, place);
    }
    case Form::comparison: {
      const Value left = evaluate(expression.parts[0], frame);
      const Value right = evaluate(expression.parts[1], frame);
      return compare(expression.text, left, right, place);
    }
    case Form::all:
    case Form::any:
      return joined(expression, frame);
    case Form::conditional: {
      const std::optional<bool> holds = truth(evaluate(expression.parts[0], frame));
      return holds ? evaluate(expression.parts[*holds ? 1 : 2], frame) : Value{};
    }
    case Form::comprehension:
      return comprehension(expression, frame);
    case Form::unread:
      return {};
  }
  return {};
}

Value Interpreter::name(const Expression& expression, Frame& frame) {
  const auto local = frame.names.find(expression.text);
  Value value =
      local != frame.names.end() ? local->second : resolve(frame.module, expression.text, 0);
  value.place = here(expression.place, frame);
  return value;
}

Value Interpreter::attribute(const Expression& expression, Frame& frame) {
  const Value value = evaluate(expression.parts[0], frame);
  return attribute_of(value, expression.text, here(expression.place, frame));
}

// An attribute that nothing sets on an object is unknown.
Value Interpreter::attribute_of(const Value& value, const std::string& name, TextPlace place) {
  if (value.is(Kind::symbol)) return symbol(value.text + "." + name, place);
  if (!value.is(Kind::object)) return {};
  const Container::Entry* const held = value.items->find(name);
  if (held == nullptr) return {};
  Value found = held->value;
  found.place = place;
  return found;
}

Value Interpreter::subscript(const Expression& expression, Frame& frame) {
  const Value value = evaluate(expression.parts[0], frame);
  const Value key = evaluate(expression.parts[1], frame);
  if (value.is(Kind::dict)) {
    const std::optional<std::string> text = repr(key);
    const Container::Entry* const held = text ? value.items->find(*text) : nullptr;
    return held != nullptr ? held->value : Value{};
  }
  if (!value.is(Kind::list) || !key.is(Kind::whole)) return {};
  const auto size = static_cast<std::int64_t>(value.items->entries.size());
  const std::int64_t at = key.whole < 0 ? key.whole + size : key.whole;
  return at >= 0 && at < size ? value.items->entries[static_cast<std::size_t>(at)].value : Value{};
}

Value Interpreter::list(const Expression& expression, Frame& frame) {
  Value made = values_.make(Kind::list, here(expression.place, frame));
  for (std::size_t i = 0; i < expression.parts.size(); ++i) {
    const Value one = evaluate(expression.parts[i], frame);
    if (expression.names[i] == "*") {
      if (!one.is(Kind::list) && !one.is(Kind::dict)) return {};
      for (const Value& item : items_of(one, values_))
        made.items->entries.push_back({"", item, {}, item.place});
      continue;
    }
    values_.count(1);
    made.items->entries.push_back({"", one, {}, one.place});
  }
  return made;
}

Value Interpreter::dict(const Expression& expression, Frame& frame) {
  Value made = values_.make(Kind::dict, here(expression.place, frame));
  for (std::size_t i = 0; i + 1 < expression.parts.size(); i += 2) {
    const Value value = evaluate(expression.parts[i + 1], frame);
    values_.count(1);
    if (expression.parts[i].kind == Expression::Kind::unread) {  // **other
      if (!value.is(Kind::dict)) continue;
      for (const Container::Entry& entry : std::vector(value.items->entries)) {
        values_.count(1);
        made.items->set(entry.key, entry.value, entry.place, entry.key_value);
      }
      continue;
    }
    const Value key = evaluate(expression.parts[i], frame);
    const std::optional<std::string> text = repr(key);
    if (!text) return {};
    made.items->set(*text, value, here(expression.parts[i].place, frame), key);
  }
  return made;
}

// The first that decides; what is not known decides nothing, but another one may.
Value Interpreter::joined(const Expression& expression, Frame& frame) {
  const bool all = expression.kind == Expression::Kind::all;
  bool sure = true;
  Value last;
  for (const Expression& part : expression.parts) {
    last = evaluate(part, frame);
    const std::optional<bool> holds = truth(last);
    if (holds && *holds != all) return sure ? last : boolean_at(!all, last.place);
    sure = sure && holds;
  }
  return sure ? last : Value{};
}

Value Interpreter::unary(const Expression& expression, Frame& frame) {
  const TextPlace place = here(expression.place, frame);
  Value value = evaluate(expression.parts[0], frame);
  if (expression.text == "not") {
    const std::optional<bool> holds = truth(value);
    return holds ? boolean_at(!*holds, place) : Value{};
  }
  if (!value.is_number()) return {};
  if (expression.text == "+") return value;
  if (expression.text == "-") return arithmetic("-", whole_at(0, place), value, values_, place);
  return {};
}

Value Interpreter::comprehension(const Expression& expression, Frame& frame) {
  const Value all = evaluate(expression.parts[2], frame);
  if (!all.is(Kind::list) && !all.is(Kind::dict)) return {};
  Value made = values_.make(Kind::list, here(expression.place, frame));
  Frame inner = frame;
  inner.global = false;
  for (const Value& item : items_of(all, values_)) {
    store(expression.parts[1], item, {}, inner);
    bool wanted = true;
    for (std::size_t i = 3; i < expression.parts.size() && wanted; ++i) {
      const std::optional<bool> holds = truth(evaluate(expression.parts[i], inner));
      if (!holds) return {};
      wanted = *holds;
    }
    if (!wanted) continue;
    const Value one = evaluate(expression.parts[0], inner);
    values_.count(1);
    made.items->entries.push_back({"", one, {}, one.place});
  }
  return made;
}

Value Interpreter::call(const Expression& expression, Frame& frame) {
  const TextPlace place = here(expression.place, frame);
  const Expression& callee = expression.parts[0];
  const Arguments given = arguments(expression, frame);
  if (callee.kind == Expression::Kind::attribute) {
    const Value value = evaluate(callee.parts[0], frame);
    if (!value.is(Kind::symbol)) return method(value, callee.text, given, place);
  }
  const Value function = evaluate(callee, frame);
  if (function.is(Kind::function)) return invoke(function, given);
  if (!function.is(Kind::symbol)) return {};
  const FunctionCall own{values_, given.values, given.names, place, line_, assumed_ == 0};
  if (std::optional<Value> made = builtin(function.text, own)) return *made;
  return made_by(function.text, given, place);
}

Interpreter::Arguments Interpreter::arguments(const Expression& expression, Frame& frame) {
  Arguments given;
  for (std::size_t i = 1; i < expression.parts.size(); ++i) {
    const Value value = evaluate(expression.parts[i], frame);
    const std::string& name = expression.names[i];
    if (name == "*" || name == "**") {
      if (value.items == nullptr) continue;
      values_.count(value.items->entries.size());
      for (const Container::Entry& entry : value.items->entries) {
        given.values.push_back(entry.value);
        given.names.push_back(name == "*" ? "" : entry.key_value.text);
      }
      continue;
    }
    given.values.push_back(value);
    given.names.push_back(name);
  }
  return given;
}

// "*name": what no other parameter took by position; "**name": by name.
void Interpreter::rest(const std::string& parameter, const Arguments& given,
                       const std::vector<bool>& used, Frame& frame) {
  const bool named = parameter.starts_with("**");
  Value all = values_.make(named ? Kind::dict : Kind::list, line_);
  values_.count(given.values.size());
  for (std::size_t i = 0; i < given.values.size(); ++i) {
    if (used[i] || given.names[i].empty() == named) continue;
    if (named)
      all.items->set("'" + given.names[i] + "'", given.values[i], line_,
                     text_at(given.names[i], line_));
    else
      all.items->entries.push_back({"", given.values[i], {}, line_});
  }
  frame.names[parameter.substr(named ? 2 : 1)] = std::move(all);
}

Value Interpreter::invoke(const Value& function, const Arguments& given) {
  depth_ += 4;
  if (depth_ > deepest_evaluation) throw TooMuch{};
  const Statement& body = *function.function;
  Frame frame;
  frame.module = static_cast<std::size_t>(function.whole);
  frame.assumed = assumed_;
  Frame outside;
  outside.module = frame.module;
  std::vector<bool> used(given.values.size());
  std::size_t position = 0;
  const auto next_position = [&] {
    while (position < used.size() && !given.names[position].empty())
      ++position;
    return position < used.size();
  };
  bool keywords_only = false;
  for (const Parameter& parameter : body.parameters) {
    if (parameter.name.starts_with('*')) {
      keywords_only = true;
      rest(parameter.name, given, used, frame);
      continue;
    }
    Value value = parameter.fallback.empty() ? Value{} : evaluate(parameter.fallback[0], outside);
    if (!keywords_only && next_position()) {
      used[position] = true;
      value = given.values[position++];
    }
    for (std::size_t i = 0; i < given.names.size(); ++i)
      if (given.names[i] == parameter.name) {
        value = given.values[i];
        used[i] = true;
      }
    frame.names[parameter.name] = std::move(value);
  }
  const TextPlace line = line_;
  const std::string assumption = assumption_;
  const Flow flow = run(body.body, frame);
  const bool sure = assumed_ == 0;
  line_ = line;
  assumed_ = frame.assumed;
  assumption_ = assumption;
  depth_ -= 4;
  if (flow == Flow::raised && sure)
    throw Stopped{line_, "Python would end here: " + body.name + "() raises an error"};
  if (flow == Flow::given) return frame.result;
  // Where the return is left away.
  const bool given_one = std::ranges::any_of(
      body.parameters, [](const Parameter& parameter) { return parameter.name == "cfg"; });
  const auto configuration = frame.names.find("cfg");
  // A return under a condition that is not known, and none after it.
  if (frame.given) {
    const bool own = configuration != frame.names.end() && frame.result.is(Kind::object) &&
                     frame.result.items == configuration->second.items;
    return own ? frame.result : Value{};
  }
  return configuration == frame.names.end() || given_one ? none_at(line_) : configuration->second;
}

}  // namespace sim::python
