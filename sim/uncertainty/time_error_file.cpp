// validation/time-error.yaml, read and written.
#include <fmt/format.h>

#include <array>

#include "sim/config/reader.hpp"
#include "sim/uncertainty/time_error.hpp"

namespace sim {
namespace {

constexpr RealRange deviations{.min = 0, .max = 10};
constexpr std::int64_t most_rows = 1 << 20;

void read_sources(const ObjectReader& in, SourceVector& deviation) {
  for (const auto& source : words_of(ErrorSource{}))
    deviation[static_cast<Eigen::Index>(source.value)] = in.real(source.text, deviations);
}

UnnamedError read_unnamed(const std::string& path) {
  const Document document = Document::load(path);
  const ObjectReader top = document.root_object();
  static_cast<void>(top.text("source"));
  UnnamedError error;
  error.rows = static_cast<int>(top.integer("rows", {.min = 1, .max = most_rows}));
  error.sets = static_cast<int>(top.integer("sets", {.min = 1, .max = most_rows}));
  error.mean = top.real("mean", {.min = -deviations.max, .max = deviations.max});
  error.deviation = top.real("deviation", deviations);
  static_cast<void>(top.has("coverage"));  // of whoever reads the file
  document.finish();
  return error;
}

}  // namespace

TimeErrors TimeErrors::load(const std::string& path, const std::string& unnamed_path) {
  const Document document = Document::load(path);
  const ObjectReader top = document.root_object();
  static_cast<void>(top.text("source"));
  TimeErrorModel model;
  model.rows = static_cast<int>(top.integer("rows", {.min = 1, .max = most_rows}));
  model.sets = static_cast<int>(top.integer("sets", {.min = 1, .max = most_rows}));
  model.level = top.real("level", {.min = 0.01, .max = 0.999});
  model.multiple = top.real("multiple", deviations);
  read_sources(top.object("deviations"), model.deviation);
  model.rest = top.real("rest", deviations);
  model.growth = top.real("growth", deviations);
  model.unlike = top.real("unlike", deviations);
  model.unmeasured = top.real("unmeasured", deviations);
  for (const ValueReader& category : top.list("categories"))
    model.categories.push_back(category.text());
  static_cast<void>(top.has("coverage"));  // of whoever reads the file
  document.finish();
  if (!unnamed_path.empty()) model.unnamed = read_unnamed(unnamed_path);
  return TimeErrors{std::move(model)};
}

std::string unnamed_error_yaml(const UnnamedError& error) {
  return fmt::format(
      "# The error of the time forecast where a job does not name its framework. Mean and "
      "deviation\n"
      "# of ln(measured / forecast) from set to set, beside the effects of time-error.yaml.\n"
      "source: stepcast validate time-error --unnamed > validation/unnamed-error.yaml\n"
      "rows: {}\nsets: {}\nmean: {:.4f}\ndeviation: {:.4f}\n",
      error.rows, error.sets, error.mean, error.deviation);
}

std::string time_error_yaml(const TimeErrorModel& model) {
  std::string text =
      "# The error of the time forecast: ln(measured / forecast) of a step, fitted to the rows of\n"
      "# validation/published. docs/how-sure.md defines the figures.\n"
      "source: stepcast validate time-error > validation/time-error.yaml\n";
  text += fmt::format("rows: {}\nsets: {}\n", model.rows, model.sets);
  text += fmt::format("level: {:g}\nmultiple: {:.3f}\n", model.level, model.multiple);
  text += "deviations:\n";
  for (const auto& source : words_of(ErrorSource{}))
    text += fmt::format("  {}: {:.4f}\n", source.text,
                        model.deviation[static_cast<Eigen::Index>(source.value)]);
  text += fmt::format("rest: {:.4f}\ngrowth: {:.4f}\nunlike: {:.4f}\nunmeasured: {:.4f}\n",
                      model.rest, model.growth, model.unlike, model.unmeasured);
  text += "categories:\n";
  for (const std::string& category : model.categories)
    text += fmt::format("  - {}\n", category);
  return text;
}

}  // namespace sim
