// Validation results as text: a table for people, Markdown, CSV of the rows, JSON of all.
#pragma once

#include <span>
#include <string>

#include "sim/scores/score.hpp"

namespace sim {

std::string validation_table(std::span<const SetResult> results);
std::string validation_markdown(std::span<const SetResult> results);
std::string validation_csv(std::span<const SetResult> results);
// {"sets": [...], "rows": [...]}: validation/published/README.md lists the fields.
std::string validation_json(std::span<const SetResult> results);

}  // namespace sim
