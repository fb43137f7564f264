// What Python's own functions and methods give.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "sim/config/python_interpreter.hpp"

namespace sim::python {
namespace {

using Kind = Value::Kind;

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

Value text_method(const Value& value, const std::string& name, const Value& argument,
                  TextPlace place) {
  const bool lower = name == "lower", upper = name == "upper";
  if (lower || upper) {
    std::string text = value.text;
    std::ranges::transform(text, text.begin(), [&](unsigned char c) {
      return static_cast<char>(lower ? std::tolower(c) : std::toupper(c));
    });
    return text_at(std::move(text), place);
  }
  if (name == "strip" && argument.is(Kind::unknown)) {
    const std::size_t first = value.text.find_first_not_of(" \t\n");
    if (first == std::string::npos) return text_at("", place);
    return text_at(value.text.substr(first, value.text.find_last_not_of(" \t\n") - first + 1),
                   place);
  }
  if (!argument.is(Kind::text)) return {};
  if (name == "startswith") return boolean_at(value.text.starts_with(argument.text), place);
  if (name == "endswith") return boolean_at(value.text.ends_with(argument.text), place);
  return {};
}

}  // namespace

// An object of what is not read; a plain function in a module that is not read gives what is not
// known.
Value Interpreter::made_by(const std::string& symbol, const Arguments& arguments, TextPlace place) {
  const std::size_t dot = symbol.rfind('.');
  const std::string last = symbol.substr(dot + 1);
  if (dot != std::string::npos && !last.starts_with("from_") && !last.empty() &&
      std::isupper(static_cast<unsigned char>(last.front())) == 0)
    return {};
  Value made = values_.make(Kind::object, place, symbol);
  values_.count(arguments.values.size());
  int position = 0;
  for (std::size_t i = 0; i < arguments.values.size(); ++i) {
    std::string key = arguments.names[i];
    if (key.empty()) key = fmt::format("_{}", position++);
    made.items->set(std::move(key), arguments.values[i], arguments.values[i].place);
  }
  return made;
}

std::optional<Value> Interpreter::builtin(const std::string& name, const Arguments& given,
                                          TextPlace place) {
  const auto& all = given.values;
  const std::size_t count = all.size();
  if (name == "copy.deepcopy" || name == "deepcopy" || name == "copy.copy")
    return count == 1 ? values_.copy(all[0]) : Value{};
  if (name == "cast" && count == 2) return all[1];
  if (name == "isinstance" && count == 2) {
    const std::optional<bool> holds = is_instance(all[0], all[1]);
    return holds ? boolean_at(*holds, place) : Value{};
  }
  if (name == "hasattr" || name == "getattr") {
    if (count < 2 || !all[0].is(Kind::object) || !all[1].is(Kind::text)) return Value{};
    const Container::Entry* const held = all[0].items->find(all[1].text);
    if (name == "hasattr") return held != nullptr ? boolean_at(true, place) : Value{};
    return held != nullptr ? held->value : count > 2 ? all[2] : Value{};
  }
  if (name == "setattr" && count == 3 && all[0].is(Kind::object) && all[1].is(Kind::text)) {
    values_.count(1);
    all[0].items->set(all[1].text, all[2], line_);
    return none_at(place);
  }
  if (name == "dict") {
    Value made = values_.make(Kind::dict, place);
    values_.count(count);
    for (std::size_t i = 0; i < count; ++i)
      if (!given.names[i].empty())
        made.items->set("'" + given.names[i] + "'", all[i], all[i].place,
                        text_at(given.names[i], all[i].place));
    return made;
  }
  if (name == "range") {
    std::int64_t from = 0, to = 0, step = 1;
    for (const Value& one : all)
      if (!one.is(Kind::whole)) return Value{};
    if (count == 1) to = all[0].whole;
    if (count >= 2) from = all[0].whole, to = all[1].whole;
    if (count == 3) step = all[2].whole;
    if (count < 1 || count > 3 || step < 1) return Value{};
    Value made = values_.make(Kind::list, place);
    for (std::int64_t i = from; i < to; i += step) {
      values_.count(1);
      made.items->entries.push_back({"", whole_at(i, place), {}, place});
    }
    return made;
  }
  if (name == "list" || name == "tuple" || name == "set" || name == "sorted") {
    Value made = values_.make(Kind::list, place);
    if (count == 0) return made;
    if ((!all[0].is(Kind::list) && !all[0].is(Kind::dict)) || name == "sorted") return Value{};
    for (const Value& item : items_of(all[0]))
      made.items->entries.push_back({"", item, {}, place});
    return made;
  }
  if (name == "max" || name == "min") {
    if (count < 2) return Value{};
    Value best = all[0];
    for (const Value& one : all) {
      const std::optional<bool> better =
          truth(compare(name == "max" ? ">" : "<", one, best, place));
      if (!better) return Value{};
      if (*better) best = one;
    }
    return best;
  }
  if (name == "divmod" && count == 2) {
    Value made = values_.make(Kind::list, place);
    for (const char* sign : {"//", "%"})
      made.items->entries.push_back(
          {"", arithmetic(sign, all[0], all[1], values_, place), {}, place});
    return made;
  }
  if (count != 1) return std::nullopt;
  if (name == "int") return whole_of(all[0], place);
  if (name == "float")
    return all[0].is_number() ? arithmetic("+", all[0], number_at("0.0", place), values_, place)
                              : Value{};
  if (name == "bool") {
    const std::optional<bool> holds = truth(all[0]);
    return holds ? boolean_at(*holds, place) : Value{};
  }
  if (name == "str") return all[0].is(Kind::text) ? all[0] : Value{};
  if (name == "len") {
    if (all[0].is(Kind::text))
      return whole_at(static_cast<std::int64_t>(all[0].text.size()), place);
    if (all[0].is(Kind::list) || all[0].is(Kind::dict))
      return whole_at(static_cast<std::int64_t>(all[0].items->entries.size()), place);
    return Value{};
  }
  if (name == "abs")
    return truth(compare("<", all[0], whole_at(0, place), place)).value_or(false)
               ? arithmetic("-", whole_at(0, place), all[0], values_, place)
               : all[0];
  return std::nullopt;
}

// Of objects: what to_...() and get_...() of a builder give stands for what is built.
Value Interpreter::method(const Value& value, const std::string& name, const Arguments& given,
                          TextPlace place) {
  const Value argument = given.values.empty() ? Value{} : given.values.front();
  if (value.is(Kind::text)) return text_method(value, name, argument, place);
  if (value.is(Kind::list)) return list_method(value, name, given, place);
  if (value.is(Kind::dict)) return dict_method(value, name, given, place);
  if (value.is(Kind::object) && (name.starts_with("to_") || name.starts_with("get_"))) return value;
  return {};
}

Value Interpreter::list_method(const Value& value, const std::string& name, const Arguments& given,
                               TextPlace place) {
  if (name == "copy") return values_.copy(value);
  if (given.values.size() != 1) return {};
  const Value& argument = given.values.front();
  if (name == "append") {
    values_.count(1);
    value.items->entries.push_back({"", argument, {}, place});
    return none_at(place);
  }
  if (name == "extend" && argument.is(Kind::list)) {
    for (const Value& item : items_of(argument))
      value.items->entries.push_back({"", item, {}, place});
    return none_at(place);
  }
  return {};
}

Value Interpreter::dict_method(const Value& value, const std::string& name, const Arguments& given,
                               TextPlace place) {
  const auto& all = given.values;
  if (name == "copy") return values_.copy(value);
  if (name == "get" && !all.empty()) {
    const std::optional<std::string> key = repr(all[0]);
    if (!key) return {};
    const Container::Entry* const held = value.items->find(*key);
    if (held != nullptr) return held->value;
    return all.size() > 1 ? all[1] : none_at(place);
  }
  if (name == "update" && all.size() == 1 && all[0].is(Kind::dict)) {
    for (const Container::Entry& entry : std::vector(all[0].items->entries)) {
      values_.count(1);
      value.items->set(entry.key, entry.value, entry.place, entry.key_value);
    }
    return none_at(place);
  }
  if (name != "keys" && name != "values" && name != "items") return {};
  Value made = values_.make(Kind::list, place);
  values_.count(value.items->entries.size());
  for (const Container::Entry& entry : value.items->entries) {
    Value one = name == "keys" ? entry.key_value : entry.value;
    if (name == "items") {
      one = values_.make(Kind::list, place);
      one.items->entries.push_back({"", entry.key_value, {}, place});
      one.items->entries.push_back({"", entry.value, {}, place});
    }
    made.items->entries.push_back({"", one, {}, place});
  }
  return made;
}

}  // namespace sim::python
