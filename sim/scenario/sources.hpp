// The scenario file and --set, read together and blamed together.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/scenario/layered.hpp"

namespace sim {

class ScenarioSources {
 public:
  // `path` is of a file, or names a shipped one (scenario_file()). `overrides` are
  // "section.key=value" of --set. Throws InputError, with the mistakes of both,
  // where the file does not parse or is no scenario; what is no assignment is told by finish().
  explicit ScenarioSources(const std::string& path, const std::vector<std::string>& overrides = {});
  // The text of a scenario file. `path` stands for it in messages, and what it names relative to
  // itself is looked for beside it: "FOLDER/scenario.yaml" need not exist.
  static ScenarioSources of_text(std::string_view yaml, const std::string& path,
                                 const std::vector<std::string>& overrides = {});
  // No file: the whole scenario as "section.key=value", its mistakes as lines of "--set".
  static ScenarioSources of_options(const std::vector<std::string>& assignments);

  const std::string& path() const { return path_; }
  Layered top() const;
  // A top-level section by itself: of the rest of the file finish() then reports nothing.
  Layered only_section(std::string_view key) const;
  // The problems of both so far.
  std::vector<Problem> problems() const;
  // Throws one InputError with them, if there are any.
  void finish() const;

 private:
  ScenarioSources(std::string path, Document file, std::optional<Document> set,
                  std::vector<Problem> no_assignments);

  std::string path_;
  Document file_;
  std::optional<Document> set_;
  std::vector<Problem> no_assignments_;  // of --set
};

}  // namespace sim
