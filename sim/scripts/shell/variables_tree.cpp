// The variables that a shell script leaves set, as a tree: one object of their names, with texts
// and, for arrays, lists of them. Files that it sources are followed. What only a running shell
// knows stays in a value as "$NAME" or "$(command)": its reader has to refuse it.
#include <fmt/format.h>

#include "sim/scripts/script_parsers.hpp"
#include "sim/scripts/shell/script_source.hpp"

namespace sim {
namespace {

void add_value(Tree& tree, const ShellVariables& variables, const Places& places,
               const ShellText& value, std::uint32_t at) {
  tree.add_scalar(places.of(value.at(at)), ValueKind::plain, variables.unknowns.shown(value.text));
}

}  // namespace

void parse_variables_into(Tree& tree, std::span<const Definition> definitions,
                          const ShellFiles& files, std::vector<Remark>& remarks) {
  const Places places{tree.source()};
  ShellVariables variables;
  for (const Definition& definition : definitions)
    variables.define(definition.name, definition.value);
  ShellOutcome outcome;
  try {
    outcome = run_shell_script(source_of(tree), variables, files);
  } catch (const ShellProblem& problem) {
    tree.fail(places.of(problem.at), problem.what);
  }
  for (const ShellText& path : outcome.not_found)
    remarks.push_back({path.text.substr(path.text.find_last_of("/\x02") + 1),
                       fmt::format("sourced on line {} and not found beside the file: what it sets "
                                   "is not known",
                                   places.of(path.at()).line)});
  for (const auto& [name, at] : variables.taken_as_empty)
    remarks.push_back(
        {"$" + name, fmt::format("nothing in the file sets it, and a condition on line {} read it "
                                 "as empty; else give --define {}=VALUE",
                                 places.of(at).line, name)});
  tree.open({1, 0}, ValueKind::object);
  for (const auto& [name, variable] : variables.all()) {
    const std::uint32_t at = variable.values.empty() ? 0 : variable.values.front().at();
    tree.add_key(places.of(at), name);
    if (!variable.array && !variable.values.empty()) {
      add_value(tree, variables, places, variable.values.front(), at);
      continue;
    }
    tree.open(places.of(at), ValueKind::list);
    for (const ShellText& value : variable.values)
      add_value(tree, variables, places, value, at);
    tree.close();
  }
  tree.close();
}

}  // namespace sim
