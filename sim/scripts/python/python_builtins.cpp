// Methods of Python's own types, and of objects whose class is not read.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sim/scripts/python/python_functions.hpp"
#include "sim/scripts/python/python_interpreter.hpp"

namespace sim::python {
namespace {

using Kind = Value::Kind;

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

// pathlib.Path: of its first argument.
bool is_path(const Value& value) {
  return value.is(Kind::object) && (value.text == "Path" || value.text == "pathlib.Path") &&
         value.items->find("_0") != nullptr && value.items->find("_0")->value.is(Kind::text);
}

}  // namespace

std::optional<std::string> path_text(const Value& value) {
  return is_path(value) ? std::optional{value.items->find("_0")->value.text} : std::nullopt;
}

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
    Value value = arguments.values[i];
    if (value.place.line == 0) value.place = place;
    if (value.is(Kind::unknown) && value.text.empty())
      value.text = fmt::format("{}({}=...)", symbol, key);
    made.items->set(std::move(key), value, value.place);
  }
  return made;
}

// Methods of objects: what to_...() and get_...() of a builder give stands for what is built.
Value Interpreter::method(const Value& value, const std::string& name, const Arguments& given,
                          TextPlace place) {
  const Value argument = given.values.empty() ? Value{} : given.values.front();
  if (value.is(Kind::text)) return text_method(value, name, argument, place);
  if (value.is(Kind::list)) return list_method(value, name, given, place);
  if (value.is(Kind::dict)) return dict_method(value, name, given, place);
  if (name == "with_name" && argument.is(Kind::text))
    if (const std::optional<std::string> path = path_text(value)) {
      const std::string beside = path->substr(0, path->rfind('/') + 1) + argument.text;
      return made_by(value.text, {{text_at(beside, place)}, {""}}, place);
    }
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
    value.items->entries.push_back({"", assumed_ == 0 ? argument : Value{}, {}, place});
    return none_at(place);
  }
  if (name == "extend" && (!argument.is(Kind::list) || assumed_ > 0)) {
    value.items->entries.push_back({"", Value{}, {}, place});
    return none_at(place);
  }
  if (name == "extend") {
    for (const Value& item : items_of(argument, values_))
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
      value.items->set(entry.key, assumed_ == 0 ? entry.value : Value{}, entry.place,
                       entry.key_value);
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
