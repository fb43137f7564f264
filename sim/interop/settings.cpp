#include "sim/interop/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "sim/config/scalars.hpp"
#include "sim/interop/layout_report.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

// How to give a variable of a script.
std::string definition_hint(std::string_view text) {
  const std::size_t dollar = text.find('$');
  const std::string_view name = text.substr(dollar + 1);
  std::size_t length = 0;
  while (length < name.size() &&
         (std::isalnum(static_cast<unsigned char>(name[length])) != 0 || name[length] == '_'))
    ++length;
  return length == 0 ? "" : fmt::format(", or give --define {}=VALUE", name.substr(0, length));
}

// The value of a present key as text; a shell variable or an interpolation is none.
std::optional<std::string> scalar(const ObjectReader& from, std::string_view key,
                                  std::optional<ValueReader>& place) {
  const std::optional<ValueReader> value = from.find(key);
  if (!value) return std::nullopt;
  place = value;
  std::optional<std::string> text = value->peek_text();
  if (!text) {
    value->problem(fmt::format("{} takes a single value", key));
    return std::nullopt;
  }
  if (*text == "null" || *text == "None") return std::nullopt;  // set on top of the file
  if (text->find('$') == std::string::npos) return text;
  value->problem(fmt::format("'{}' is not resolved in this file: write the value in its place{}",
                             *text, definition_hint(*text)));
  return std::nullopt;
}

// The name that the file uses, else the first that is looked for.
template <class T>
void set(Setting<T>& into, std::string_view key, T value, std::optional<ValueReader> place) {
  into.value = std::move(value);
  into.place = place;
  into.name = key;
}
template <class T>
void look_for(Setting<T>& into, std::string_view key) {
  if (into.name.empty()) into.name = key;
}

}  // namespace

void read_setting(const ObjectReader& from, std::string_view key, Whole& into) {
  look_for(into, key);
  std::optional<ValueReader> place;
  std::optional<std::string> text = scalar(from, key, place);
  if (!text) return;
  // 500_000, as Python and YAML 1.1 write it.
  const bool digits = text->find_first_not_of("0123456789_") == std::string::npos &&
                      !text->starts_with('_') && !text->ends_with('_');
  if (digits) std::erase(*text, '_');
  const ParsedNumber<std::int64_t> parsed = parse_integer(*text, true);
  if (const auto* number = std::get_if<std::int64_t>(&parsed))
    set(into, key, *number, place);
  else
    place->problem(fmt::format("{} is '{}'; expected a whole number", key, *text));
}

void read_setting(const ObjectReader& from, std::string_view key, Real& into) {
  look_for(into, key);
  std::optional<ValueReader> place;
  const std::optional<std::string> text = scalar(from, key, place);
  if (!text) return;
  const ParsedNumber<double> parsed = parse_real(*text);
  if (const auto* number = std::get_if<double>(&parsed))
    set(into, key, *number, place);
  else
    place->problem(fmt::format("{} is '{}'; expected a number", key, *text));
}

void read_setting(const ObjectReader& from, std::string_view key, Flag& into) {
  look_for(into, key);
  std::optional<ValueReader> place;
  const std::optional<std::string> text = scalar(from, key, place);
  if (!text) return;
  if (*text == "true" || *text == "True" || *text == "1")  // as Python takes them
    set(into, key, true, place);
  else if (*text == "false" || *text == "False" || *text == "0")
    set(into, key, false, place);
  else
    place->problem(fmt::format("{} is '{}'; expected true or false", key, *text));
}

void read_setting(const ObjectReader& from, std::string_view key, Text& into) {
  look_for(into, key);
  const std::optional<ValueReader> value = from.find(key);
  if (!value) return;
  if (!value->is_list()) {
    std::optional<ValueReader> place;
    if (const std::optional<std::string> text = scalar(from, key, place))
      set(into, key, *text, place);
    return;
  }
  std::string joined;
  for (const ValueReader& item : value->list()) {
    const std::optional<std::string> text = item.peek_text();
    if (!text) {
      item.problem(fmt::format("an item of {} is no single value", key));
      return;
    }
    joined += (joined.empty() ? "" : " ") + *text;
  }
  if (!joined.empty()) set(into, key, std::move(joined), value);
}

std::vector<std::string> names_in(std::string_view text) {
  constexpr std::string_view between = " \t\r\n,[]'\"";
  std::vector<std::string> names;
  for (std::size_t at = text.find_first_not_of(between); at != text.npos;
       at = text.find_first_not_of(between, at)) {
    const std::size_t end = std::min(text.find_first_of(between, at), text.size());
    names.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return names;
}

std::optional<ObjectReader> section_at(const ObjectReader& from, std::string_view key) {
  const std::optional<ValueReader> value = from.find(key);
  if (!value) return std::nullopt;
  if (value->is_object()) return value->object();
  if (!is_neutral(*value, "")) value->problem(fmt::format("{} takes an object of settings", key));
  return std::nullopt;
}

bool is_neutral(const ValueReader& value, std::string_view neutral) {
  if (value.is_list()) return value.list().empty();
  const std::optional<std::string> text = value.peek_text();
  if (!text) return false;
  constexpr std::array<std::string_view, 8> off{"",    "false", "False", "0",
                                                "0.0", "null",  "None",  "none"};
  return *text == neutral || std::ranges::find(off, *text) != off.end();
}

void report_layout_problems(const ObjectReader& root, const Imported& result) {
  Model model = build_transformer(result.shape);
  run_with(result.framework, model);
  for (const LayoutProblem& problem : layout_problems(result.layout, model))
    root.problem(problem.what);
}

void finish_import(const Document& document, const ObjectReader& root, const Imported& result) {
  document.finish();
  report_layout_problems(root, result);
  document.finish();
}

}  // namespace sim
