// Python's own functions.
#include "sim/scripts/python/python_functions.hpp"

#include <array>
#include <cmath>

namespace sim::python {
namespace {

using Kind = Value::Kind;
using Made = std::optional<Value>;

std::optional<bool> is_instance(const Value& value, const Value& type) {
  if (type.is(Kind::list)) {
    bool sure = true;
    for (const Container::Entry& one : type.items->entries) {
      const std::optional<bool> holds = is_instance(value, one.value);
      if (holds && *holds) return true;
      sure = sure && holds;
    }
    return sure ? std::optional{false} : std::nullopt;
  }
  if (value.is(Kind::unknown) || value.is(Kind::symbol) || !type.is(Kind::symbol))
    return std::nullopt;
  const std::string& name = type.text;
  if (name == "str") return value.is(Kind::text);
  if (name == "bool") return value.is(Kind::boolean);
  if (name == "int") return value.is(Kind::whole) || value.is(Kind::boolean);
  if (name == "float") return value.is(Kind::real);
  if (name == "list" || name == "tuple") return value.is(Kind::list);
  if (name == "dict") return value.is(Kind::dict);
  if (!value.is(Kind::object)) return false;
  const std::string own = value.text.substr(value.text.rfind('.') + 1);
  return own == name.substr(name.rfind('.') + 1) ? std::optional{true} : std::nullopt;
}

Value whole_of(const Value& value, TextPlace place) {
  if (value.is(Kind::whole) || value.is(Kind::boolean)) return whole_at(value.whole, place);
  if (value.is(Kind::real) && std::abs(value.real) < 9e18)
    return whole_at(static_cast<std::int64_t>(value.real), place);
  if (!value.is(Kind::text)) return {};
  const Value read = number_at(value.text, place);
  return read.is(Kind::whole) ? read : Value{};
}

Made copied(const FunctionCall& call) {
  return call.all.size() == 1 ? call.values.copy(call.all[0]) : Value{};
}

Made cast(const FunctionCall& call) {
  if (call.all.size() != 2) return std::nullopt;
  return call.all[1];
}

Made isinstance(const FunctionCall& call) {
  if (call.all.size() != 2) return std::nullopt;
  const std::optional<bool> holds = is_instance(call.all[0], call.all[1]);
  return holds ? boolean_at(*holds, call.place) : Value{};
}

bool names_attribute(const FunctionCall& call) {
  return call.all.size() >= 2 && call.all[0].is(Kind::object) && call.all[1].is(Kind::text);
}

Made hasattr(const FunctionCall& call) {
  if (!names_attribute(call) || call.all[0].items->find(call.all[1].text) == nullptr)
    return Value{};
  return boolean_at(true, call.place);
}

Made getattr(const FunctionCall& call) {
  if (!names_attribute(call)) return Value{};
  const Container::Entry* const held = call.all[0].items->find(call.all[1].text);
  if (held != nullptr) return held->value;
  return call.all.size() > 2 ? call.all[2] : Value{};
}

Made setattr(const FunctionCall& call) {
  if (call.all.size() != 3 || !names_attribute(call)) return std::nullopt;
  call.values.count(1);
  call.all[0].items->set(call.all[1].text, call.sure ? call.all[2] : Value{}, call.line);
  return none_at(call.place);
}

Made dict(const FunctionCall& call) {
  Value made = call.values.make(Kind::dict, call.place);
  call.values.count(call.all.size());
  for (std::size_t i = 0; i < call.all.size(); ++i) {
    const Value& value = call.all[i];
    if (call.names[i].empty()) continue;
    made.items->set("'" + call.names[i] + "'", value, value.place,
                    text_at(call.names[i], value.place));
  }
  return made;
}

Made range(const FunctionCall& call) {
  const std::size_t count = call.all.size();
  std::int64_t from = 0, to = 0, step = 1;
  for (const Value& one : call.all)
    if (!one.is(Kind::whole)) return Value{};
  if (count == 1) to = call.all[0].whole;
  if (count >= 2) from = call.all[0].whole, to = call.all[1].whole;
  if (count == 3) step = call.all[2].whole;
  if (count < 1 || count > 3 || step < 1) return Value{};
  Value made = call.values.make(Kind::list, call.place);
  for (std::int64_t i = from; i < to; i += step) {
    call.values.count(1);
    made.items->entries.push_back({"", whole_at(i, call.place), {}, call.place});
  }
  return made;
}

Made list(const FunctionCall& call) {
  Value made = call.values.make(Kind::list, call.place);
  if (call.all.empty()) return made;
  if (!call.all[0].is(Kind::list) && !call.all[0].is(Kind::dict)) return Value{};
  for (const Value& item : items_of(call.all[0], call.values))
    made.items->entries.push_back({"", item, {}, call.place});
  return made;
}

Made sorted(const FunctionCall& call) {
  return call.all.empty() ? call.values.make(Kind::list, call.place) : Value{};
}

Made best_of(const FunctionCall& call, const char* sign) {
  if (call.all.size() < 2) return Value{};
  Value best = call.all[0];
  for (const Value& one : call.all) {
    const std::optional<bool> better = truth(compare(sign, one, best, call.place));
    if (!better) return Value{};
    if (*better) best = one;
  }
  return best;
}
Made max(const FunctionCall& call) {
  return best_of(call, ">");
}
Made min(const FunctionCall& call) {
  return best_of(call, "<");
}

Made divmod(const FunctionCall& call) {
  if (call.all.size() != 2) return std::nullopt;
  Value made = call.values.make(Kind::list, call.place);
  for (const char* sign : {"//", "%"})
    made.items->entries.push_back(
        {"", arithmetic(sign, call.all[0], call.all[1], call.values, call.place), {}, call.place});
  return made;
}

// Functions of one argument.

Made whole(const FunctionCall& call) {
  return whole_of(call.all[0], call.place);
}

Made real(const FunctionCall& call) {
  if (!call.all[0].is_number()) return Value{};
  return arithmetic("+", call.all[0], number_at("0.0", call.place), call.values, call.place);
}

Made boolean(const FunctionCall& call) {
  const std::optional<bool> holds = truth(call.all[0]);
  return holds ? boolean_at(*holds, call.place) : Value{};
}

Made text(const FunctionCall& call) {
  if (const std::optional<std::string> path = path_text(call.all[0]))
    return text_at(*path, call.place);
  return call.all[0].is(Kind::text) ? call.all[0] : Value{};
}

Made length(const FunctionCall& call) {
  const Value& value = call.all[0];
  if (value.is(Kind::text))
    return whole_at(static_cast<std::int64_t>(value.text.size()), call.place);
  if (!value.is(Kind::list) && !value.is(Kind::dict)) return Value{};
  return whole_at(static_cast<std::int64_t>(value.items->entries.size()), call.place);
}

Made absolute(const FunctionCall& call) {
  const Value zero = whole_at(0, call.place);
  const bool below = truth(compare("<", call.all[0], zero, call.place)).value_or(false);
  return below ? arithmetic("-", zero, call.all[0], call.values, call.place) : call.all[0];
}

struct Function {
  std::string_view name;
  Made (*give)(const FunctionCall&);
  bool of_one = false;
};

constexpr std::array functions{Function{"copy.deepcopy", copied},
                               Function{"deepcopy", copied},
                               Function{"copy.copy", copied},
                               Function{"cast", cast},
                               Function{"isinstance", isinstance},
                               Function{"hasattr", hasattr},
                               Function{"getattr", getattr},
                               Function{"setattr", setattr},
                               Function{"dict", dict},
                               Function{"range", range},
                               Function{"list", list},
                               Function{"tuple", list},
                               Function{"set", list},
                               Function{"sorted", sorted},
                               Function{"max", max},
                               Function{"min", min},
                               Function{"divmod", divmod},
                               Function{"int", whole, true},
                               Function{"float", real, true},
                               Function{"bool", boolean, true},
                               Function{"str", text, true},
                               Function{"len", length, true},
                               Function{"abs", absolute, true}};

}  // namespace

std::optional<Value> builtin(std::string_view name, const FunctionCall& call) {
  for (const Function& one : functions)
    if (one.name == name && (!one.of_one || call.all.size() == 1)) return one.give(call);
  return std::nullopt;
}

}  // namespace sim::python
