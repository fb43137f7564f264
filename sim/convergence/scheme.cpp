#include "sim/convergence/scheme.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace sim {
namespace {

// Keys that the suite itself gives to every run.
std::string_view owner_of(std::string_view key) {
  if (key == "training.seed") return "seeds";
  if (key == "training.steps") return "steps";
  return {};
}

void read_set(const ObjectReader& from, std::vector<SchemeKey>& into) {
  for (const std::string& key : from.keys()) {
    const ValueReader value = from.at(key);
    SchemeKey entry{.key = key, .value = value.text(), .where = value.where()};
    const std::string_view owner = owner_of(key);
    if (!owner.empty())
      value.problem(fmt::format("{} is given by the suite's key '{}'", key, owner));
    else if (key.find('.') == std::string::npos)
      value.problem(fmt::format(
          "'{}' is no key of a scenario as --set takes it; write section.key: value, for example "
          "layout.compression.gradients: top_k",
          key.substr(0, 80)));
    else if (entry.value.empty() || entry.value.find_first_of("\n\r#") != std::string::npos)
      value.problem("a value has text, no line breaks and no '#'");
    into.push_back(std::move(entry));
  }
}

}  // namespace

std::string target_text(const LossTarget& target) {
  return target.kind == TargetKind::fall ? fmt::format("{:g} % of the fall", target.value * 100)
                                         : fmt::format("loss {:g}", target.value);
}

std::string set_text(const std::vector<SchemeKey>& keys) {
  std::string text;
  for (const SchemeKey& key : keys)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key.key, key.value);
  return text.empty() ? "none" : text;
}

std::string read_plain_name(const ObjectReader& from, std::string_view key) {
  std::string name = from.text(key);
  if (!from.has(key)) return name;
  const bool plain = std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (name.empty() || !plain || name.front() == '.')
    from.problem(key, "a name has letters, digits, '-', '_' and '.', and does not begin with '.'");
  return name;
}

SyncScheme read_scheme(const ObjectReader& from) {
  SyncScheme scheme{.name = read_plain_name(from, "name")};
  if (from.has("set")) read_set(from.object("set"), scheme.set);
  scheme.warm_up =
      static_cast<int>(from.integer_or("warm_up", 0, {.min = 0, .max = most_recorded_steps}));
  return scheme;
}

}  // namespace sim
