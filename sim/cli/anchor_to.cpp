#include "sim/cli/anchor_to.hpp"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <utility>

#include "sim/anchor/anchor_report.hpp"
#include "sim/base/complete_file.hpp"
#include "sim/base/input_error.hpp"
#include "sim/cli/command.hpp"

namespace sim {
namespace {

PartErrors part_errors(const Waterfall& waterfall) {
  PartErrors errors;
  for (std::size_t i = 0; i < errors.size(); ++i)
    if (const auto factor = measured_factor(waterfall.times[i], waterfall.forecast))
      errors[i] = std::log(*factor);
  return errors;
}

std::string part_lines(const PartErrors& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i])
      text += fmt::format("{}{} {:.3f}", text.empty() ? "" : ", ", time_factor_fields[i].name,
                          std::exp(*parts[i]));
  return text.empty() ? "none is told" : text;
}

Anchor joined_anchor(const std::string& file, Anchor added) {
  if (!std::filesystem::exists(file)) return added;
  Anchor known = load_anchor(file);
  if (known.device != added.device || known.framework != added.framework)
    throw InputError{
        SourcePosition{file, 0, 0},
        fmt::format("it is of {} on {}, the trace of {} on {}: give another file",
                    word(known.framework), known.device, word(added.framework), added.device)};
  known.runs.insert(known.runs.end(), added.runs.begin(), added.runs.end());
  return known;
}

}  // namespace

void write_trace_anchor(const std::string& file, Scenario scenario,
                        const std::vector<std::string>& overrides, const Waterfall& waterfall) {
  const std::optional<TimeErrors>& published = shipped_time_errors();
  if (!published)
    throw WrongUse{
        "the data folder has no validation/time-error.yaml: there is nothing to start "
        "from"};
  if (!scenario.anchor_path.empty() || scenario.options.factors != TimeFactors{})
    throw WrongUse{"--anchor-to learns from a forecast without an anchor and without time factors"};
  const PartErrors parts = part_errors(waterfall);
  AnchorRuns runs;
  const std::string name = scenario.path;
  runs.measured.push_back({.name = name,
                           .scenario = std::move(scenario),
                           .measured = waterfall.measured,
                           .overrides = overrides,
                           .parts = parts});
  const AnchorReport report = make_anchor_report(std::move(runs), *published);
  write_complete_file(
      file, [&](std::ostream& out) { out << anchor_yaml(joined_anchor(file, report.anchor)); });
  print_note(fmt::format("measured over forecast, operator by operator: {}", part_lines(parts)));
  print_note(fmt::format("anchor: {0}: give it to a forecast with --anchor {0}", file));
}

}  // namespace sim
