// A scenario as the caller has it: a file, or a text that is not saved.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.hpp"
#include "sim/scenario/sources.hpp"

namespace sim {

struct ScenarioInput {
  std::string path;
  std::optional<std::string> text{};  // in place of what the file says

  // A path stands for the file.
  // NOLINTNEXTLINE(google-explicit-constructor)
  ScenarioInput(std::string of_path) : path{std::move(of_path)} {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  ScenarioInput(const char* of_path) : path{of_path} {}
  ScenarioInput(std::string of_path, std::string yaml)
      : path{std::move(of_path)}, text{std::move(yaml)} {}

  // with() puts "section.key=value" on top. Throws InputError.
  ScenarioSources with(const std::vector<std::string>& overrides) const {
    return text ? ScenarioSources::of_text(*text, path, overrides)
                : ScenarioSources{path, overrides};
  }
};

}  // namespace sim
