// The arguments that Megatron-LM prints when a training starts (megatron/training/arguments.py,
// _print_args):
//   ------------------------ arguments ------------------------
//     adam_beta1 ...................................... 0.9
// in a log that may have anything in front of each line. The tree: one object from the names as
// they are printed to their values as text; None is left out. Of a name that is printed again (a
// restart) the last value counts.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/config/parsers.hpp"
#include "sim/config/shell_text.hpp"

namespace sim {
namespace {

constexpr std::string_view begins = " arguments ------";
constexpr std::string_view ends = "end of arguments ---";
constexpr std::string_view dots = " ...";
constexpr std::size_t widest = 44;  // longer names leave no room for three dots

struct Argument {
  std::string_view name, value;
  std::size_t column = 0;
};

bool is_name(std::string_view text) {
  return !text.empty() && shell_name_length(text) == text.size();
}

std::string_view last_word(std::string_view text) {
  const std::size_t blank = text.find_last_of(" \t:]");
  return blank == std::string_view::npos ? text : text.substr(blank + 1);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_shell_blank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && is_shell_blank(text.back()))
    text.remove_suffix(1);
  return text;
}

// "name ........ value"; an empty name where the line is none of the block.
Argument argument_of(std::string_view line) {
  if (const std::size_t at = line.find(dots); at != std::string_view::npos) {
    const std::string_view name = last_word(line.substr(0, at));
    const std::size_t behind = std::min(line.find_first_not_of('.', at + 1), line.size());
    if (is_name(name) && (behind == line.size() || line[behind] == ' '))
      return {name, trimmed(line.substr(behind)), at - name.size()};
  }
  // A long name with two dots, one, or none in front of its value.
  const std::string_view whole = trimmed(line);
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t end = std::min(whole.find(' ', at), whole.size());
    const std::string_view word = whole.substr(at, end - at);
    if (word.size() >= widest && is_name(word)) {
      std::string_view value = trimmed(whole.substr(end));
      while (value.starts_with('.') && value.find(' ') < 3)
        value = trimmed(value.substr(value.find(' ')));
      return {word, value, static_cast<std::size_t>(word.data() - line.data())};
    }
    at = end + 1;
  }
  return {};
}

// Calls visit(line number, line) for each line within a block, or each where there is no mark.
template <class Visit>
void for_each_line(std::string_view text, Visit visit) {
  const bool marked = text.find(begins) != std::string_view::npos;
  bool inside = !marked;
  std::int32_t number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (marked && line.find(ends) != std::string_view::npos)
      inside = false;
    else if (marked && line.find(begins) != std::string_view::npos)
      inside = true;
    else if (inside)
      visit(number, line);
  }
}

}  // namespace

bool is_arguments_block(std::string_view text) {
  int found = 0, other = 0;
  const bool marked = text.find(begins) != std::string_view::npos;
  for_each_line(text, [&](std::int32_t, std::string_view line) {
    if (trimmed(line).empty()) return;
    ++(argument_of(line).name.empty() ? other : found);
  });
  return found >= 3 && (marked || found > other);
}

void parse_arguments_block_into(Tree& tree) {
  struct Entry {
    TextPlace name, value;
    std::string text;
  };
  std::map<std::string, Entry> entries;
  std::vector<std::string> order;
  for_each_line(tree.source(), [&](std::int32_t number, std::string_view line) {
    const Argument argument = argument_of(line);
    if (argument.name.empty() || argument.value == "None" || argument.value.empty()) return;
    const TextPlace name{number, static_cast<std::int32_t>(argument.column)};
    const TextPlace value{number, static_cast<std::int32_t>(argument.value.data() - line.data())};
    const auto [entry, added] = entries.insert_or_assign(
        std::string{argument.name}, Entry{name, value, std::string{argument.value}});
    if (added) order.push_back(entry->first);
  });
  tree.open({1, 0}, ValueKind::object);
  for (const std::string& name : order) {
    const Entry& entry = entries.at(name);
    tree.add_key(entry.name, name);
    tree.add_scalar(entry.value, ValueKind::plain, entry.text);
  }
  tree.close();
}

}  // namespace sim
