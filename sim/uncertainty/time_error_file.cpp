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

// One entry per category: its name, its mean, and its row of the covariance up to itself.
void read_categories(const ObjectReader& top, TimeErrorModel& model) {
  const std::vector<ValueReader> entries = top.list("categories");
  const auto count = static_cast<Eigen::Index>(entries.size());
  model.mean = Eigen::VectorXd::Zero(count);
  model.covariance = Eigen::MatrixXd::Zero(count, count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const ObjectReader entry = entries[static_cast<std::size_t>(i)].object();
    model.categories.push_back(entry.text("of"));
    model.mean[i] = entry.real("mean", {.min = -10, .max = 10});
    const std::vector<ValueReader> row = entry.list("covariance");
    if (static_cast<Eigen::Index>(row.size()) != i + 1) {
      entry.problem("covariance", fmt::format("has {} values; the {}. category has {}", row.size(),
                                              i + 1, i + 1));
      continue;
    }
    for (Eigen::Index k = 0; k <= i; ++k)
      model.covariance(i, k) = model.covariance(k, i) =
          row[static_cast<std::size_t>(k)].real({.min = -10, .max = 10});
  }
}

}  // namespace

TimeErrors TimeErrors::load(const std::string& path) {
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
  model.category = top.real("category", deviations);
  model.unmeasured = top.real("unmeasured", deviations);
  read_categories(top, model);
  static_cast<void>(top.has("coverage"));  // of whoever reads the file
  document.finish();
  return TimeErrors{std::move(model)};
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
  text += fmt::format("rest: {:.4f}\ncategory: {:.4f}\nunmeasured: {:.4f}\n", model.rest,
                      model.category, model.unmeasured);
  text += "categories:\n";
  for (std::size_t i = 0; i < model.categories.size(); ++i) {
    const auto at = static_cast<Eigen::Index>(i);
    std::string row;
    for (Eigen::Index k = 0; k <= at; ++k)
      row += fmt::format("{}{:.2e}", k > 0 ? ", " : "", model.covariance(at, k));
    text += fmt::format("  - {{of: {}, mean: {:.4f}, covariance: [{}]}}\n", model.categories[i],
                        model.mean[at], row);
  }
  return text;
}

}  // namespace sim
