#include "sim/scenario/sources.hpp"

#include <utility>

#include "sim/base/input_error.hpp"

namespace sim {

ScenarioSources::ScenarioSources(std::string path, Document file,
                                 const std::vector<std::string>& overrides)
    : path_{std::move(path)}, file_{std::move(file)} {
  if (!overrides.empty()) set_ = overrides_document(overrides);
}

ScenarioSources::ScenarioSources(const std::string& path, const std::vector<std::string>& overrides)
    : ScenarioSources{path, Document::load(path), overrides} {}

ScenarioSources ScenarioSources::of_options(const std::vector<std::string>& assignments) {
  return {"command line", Document::parse_yaml("{}", "command line"), assignments};
}

Layered ScenarioSources::top() const {
  return Layered{file_.root_object(), set_ ? std::optional{set_->root_object()} : std::nullopt};
}

Layered ScenarioSources::only_section(std::string_view key) const {
  file_.root_object().ignore_unknown();
  if (set_) set_->root_object().ignore_unknown();
  return top().section(key);
}

void ScenarioSources::finish() const {
  std::vector<Problem> problems;
  for (const Document* document : {&file_, set_ ? &*set_ : nullptr}) {
    if (!document) continue;
    try {
      document->finish();
    } catch (const InputError& error) {
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    }
  }
  if (!problems.empty()) throw InputError{std::move(problems)};
}

}  // namespace sim
