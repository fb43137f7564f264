#include "sim/scenario/imported_facts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "sim/config/yaml_text.hpp"

namespace sim {
namespace {

constexpr std::size_t longest_name = 80, longest_value = 400;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

void read_settings(const ObjectReader& from, CarriedSettings& carried) {
  for (const std::string& name : from.keys()) {
    const std::string value = from.at(name).text();
    if (!is_carried_name(name))
      from.problem(name,
                   fmt::format("'{}' is no name of a setting; allowed: letters, digits, '-', '_' "
                               "and '.', 80 at most",
                               name.substr(0, longest_name)));
    else if (!is_carried_value(value))
      from.problem(name, fmt::format("the value of {} has characters that are no part of a number, "
                                     "a name or a list of these; 400 at most",
                                     name));
    else
      carried.settings.emplace_back(name, value);
  }
}

}  // namespace

bool is_carried_name(std::string_view name) {
  return !name.empty() && name.size() <= longest_name && std::ranges::all_of(name, [](char c) {
    return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.';
  });
}

bool is_carried_value(std::string_view value) {
  constexpr std::string_view others = " ._+-,:*/[]()|=";
  return value.size() <= longest_value && std::ranges::all_of(value, [&](char c) {
           return is_letter_or_digit(c) || others.find(c) != std::string_view::npos;
         });
}

std::vector<Note> read_notes(const Layered& top) {
  std::vector<Note> notes;
  const ObjectReader* holder = top.holder("notes");
  if (!holder) return notes;
  for (const ValueReader& entry : holder->list("notes")) {
    const ObjectReader item = entry.object();
    Note note{.key = item.text("key"), .what = item.text("what")};
    note.unmodelled = !item.boolean_or("modelled", true);
    notes.push_back(std::move(note));
  }
  return notes;
}

CarriedSettings read_carried(const Layered& top) {
  CarriedSettings carried;
  const ObjectReader* holder = top.holder("carried");
  if (!holder) return carried;
  const ObjectReader targets = holder->object("carried");
  for (const std::string_view target : carrying_targets) {
    if (!targets.has(target)) continue;
    if (!carried.target.empty())
      targets.problem(target,
                      fmt::format("settings are of one framework; there are those of {} already",
                                  carried.target));
    carried.target = target;
    read_settings(targets.object(target), carried);
  }
  return carried;
}

std::string imported_facts_yaml(const std::vector<Note>& notes, const CarriedSettings& carried) {
  std::string text;
  if (!notes.empty()) text += "\nnotes:\n";
  for (const Note& note : notes)
    text += fmt::format("  - {{key: {}, what: {}{}}}\n", yaml_quoted(note.key),
                        yaml_quoted(note.what), note.unmodelled ? ", modelled: false" : "");
  if (carried.settings.empty()) return text;
  text += fmt::format("\ncarried:\n  {}:\n", carried.target);
  for (const auto& [name, value] : carried.settings)
    text += fmt::format("    {}: {}\n", yaml_quoted(name), yaml_quoted(value));
  return text;
}

std::string text_of(const Note& note) {
  return fmt::format("{}: {}", note.key, note.what);
}

}  // namespace sim
