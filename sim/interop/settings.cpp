#include "sim/interop/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/config/scalars.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

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
  if (text->find('$') == std::string::npos) return text;
  value->problem(
      fmt::format("'{}' is not resolved in this file: write the value in its place", *text));
  return std::nullopt;
}

}  // namespace

void read_setting(const ObjectReader& from, std::string_view key, Whole& into) {
  std::optional<ValueReader> place;
  const std::optional<std::string> text = scalar(from, key, place);
  if (!text) return;
  const ParsedNumber<std::int64_t> parsed = parse_integer(*text, true);
  if (const auto* number = std::get_if<std::int64_t>(&parsed))
    into = {*number, place};
  else
    place->problem(fmt::format("{} is '{}'; expected a whole number", key, *text));
}

void read_setting(const ObjectReader& from, std::string_view key, Real& into) {
  std::optional<ValueReader> place;
  const std::optional<std::string> text = scalar(from, key, place);
  if (!text) return;
  const ParsedNumber<double> parsed = parse_real(*text);
  if (const auto* number = std::get_if<double>(&parsed))
    into = {*number, place};
  else
    place->problem(fmt::format("{} is '{}'; expected a number", key, *text));
}

void read_setting(const ObjectReader& from, std::string_view key, Flag& into) {
  std::optional<ValueReader> place;
  const std::optional<std::string> text = scalar(from, key, place);
  if (!text) return;
  if (*text == "true" || *text == "True")
    into = {true, place};
  else if (*text == "false" || *text == "False")
    into = {false, place};
  else
    place->problem(fmt::format("{} is '{}'; expected true or false", key, *text));
}

void read_setting(const ObjectReader& from, std::string_view key, Text& into) {
  const std::optional<ValueReader> value = from.find(key);
  if (!value) return;
  if (!value->is_list()) {
    std::optional<ValueReader> place;
    if (const std::optional<std::string> text = scalar(from, key, place)) into = {*text, place};
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
  if (!joined.empty()) into = {joined, value};
}

bool is_neutral(const ValueReader& value, std::string_view neutral) {
  if (value.is_list()) return value.list().empty();
  const std::optional<std::string> text = value.peek_text();
  if (!text) return false;
  constexpr std::array<std::string_view, 8> off{"",    "false", "False", "0",
                                                "0.0", "null",  "None",  "none"};
  return *text == neutral || std::ranges::find(off, *text) != off.end();
}

void judge_keys(const ObjectReader& from, std::span<const KnownKey> known, std::string_view prefix,
                Imported& result) {
  const auto fits = [](const KnownKey& entry, std::string_view key) {
    if (!entry.name.ends_with('*')) return entry.name == key;
    return key.starts_with(entry.name.substr(0, entry.name.size() - 1));
  };
  for (const std::string& key : from.unasked_keys()) {
    const auto entry =
        std::ranges::find_if(known, [&](const KnownKey& row) { return fits(row, key); });
    if (entry == known.end()) continue;
    const std::optional<ValueReader> value = from.find(key);
    const std::string name = std::string{prefix} + key;
    if (!value || entry->verdict == Verdict::ignored || is_neutral(*value, entry->neutral))
      result.ignored.push_back(name);
    else if (entry->verdict == Verdict::noted)
      result.notes.push_back({name, std::string{entry->reason}});
    else
      value->problem(fmt::format("{}: {}", name, entry->reason));
  }
}

void refuse_experts(const Document& document, const ImportRequest& request) {
  if (!request.model) return;
  if (request.model->experts.count == 0 && !request.model->latent.exists()) return;
  const ObjectReader root = document.root_object();
  root.ignore_unknown();
  root.problem(
      fmt::format("{}: experts and latent attention are modelled only as Megatron-LM runs them",
                  request.model->name));
  document.finish();
}

void finish_import(const Document& document, const ObjectReader& root, const Imported& result) {
  document.finish();
  Model model = build_transformer(result.shape);
  run_with(result.framework, model);
  for (const LayoutProblem& problem : layout_problems(result.layout, model))
    root.problem(problem.what);
  document.finish();
}

}  // namespace sim
