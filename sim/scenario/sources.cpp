#include "sim/scenario/sources.hpp"

#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/file_kind.hpp"

namespace sim {

namespace {

struct SetOptions {
  std::optional<Document> document;
  std::vector<Problem> no_assignments;
};

SetOptions read_set(const std::vector<std::string>& overrides) {
  SetOptions set;
  if (!overrides.empty()) set.document = overrides_document(overrides, set.no_assignments);
  return set;
}

// Throws InputError with the mistakes of --set beside those of the file.
template <class Load>
Document load_file(const Load& load, const std::vector<Problem>& no_assignments) {
  try {
    Document file = load();
    refuse_other_kinds(file, FileKind::scenario);
    return file;
  } catch (const InputError& error) {
    std::vector<Problem> problems = error.problems();
    problems.insert(problems.end(), no_assignments.begin(), no_assignments.end());
    throw InputError{std::move(problems)};
  }
}

}  // namespace

ScenarioSources::ScenarioSources(std::string path, Document file, std::optional<Document> set,
                                 std::vector<Problem> no_assignments)
    : path_{std::move(path)},
      file_{std::move(file)},
      set_{std::move(set)},
      no_assignments_{std::move(no_assignments)} {}

ScenarioSources::ScenarioSources(const std::string& path, const std::vector<std::string>& overrides)
    : ScenarioSources{[&] {
        SetOptions set = read_set(overrides);
        const std::string found = scenario_file(path);
        Document file = load_file([&] { return Document::load(found); }, set.no_assignments);
        return ScenarioSources{found, std::move(file), std::move(set.document),
                               std::move(set.no_assignments)};
      }()} {}

ScenarioSources ScenarioSources::of_text(std::string_view yaml, const std::string& path,
                                         const std::vector<std::string>& overrides) {
  SetOptions set = read_set(overrides);
  Document file = load_file([&] { return Document::parse_yaml(yaml, path); }, set.no_assignments);
  return {path, std::move(file), std::move(set.document), std::move(set.no_assignments)};
}

ScenarioSources ScenarioSources::of_options(const std::vector<std::string>& assignments) {
  SetOptions set = read_set(assignments);
  return {"command line", Document::parse_yaml("{}", "command line"), std::move(set.document),
          std::move(set.no_assignments)};
}

Layered ScenarioSources::top() const {
  return Layered{file_.root_object(), set_ ? std::optional{set_->root_object()} : std::nullopt};
}

Layered ScenarioSources::only_section(std::string_view key) const {
  file_.root_object().ignore_unknown();
  if (set_) set_->root_object().ignore_unknown();
  return top().section(key);
}

std::vector<Problem> ScenarioSources::problems() const {
  std::vector<Problem> problems = file_.problems();
  const auto add = [&](const std::vector<Problem>& more) {
    problems.insert(problems.end(), more.begin(), more.end());
  };
  add(no_assignments_);
  if (set_) add(set_->problems(&file_));
  return problems;
}

void ScenarioSources::finish() const {
  std::vector<Problem> problems = this->problems();
  if (!problems.empty()) throw InputError{std::move(problems)};
}

}  // namespace sim
