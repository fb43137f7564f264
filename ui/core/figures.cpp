#include "ui/core/figures.hpp"

#include <QObject>
#include <array>
#include <cmath>

#include "sim/base/quantity.hpp"
#include "sim/report/numbers.hpp"

namespace ui {
namespace {

QString text(const std::string& from) {
  return QString::fromStdString(from);
}

Figure memory_of(const sim::Report& report) {
  const sim::StageMemory& worst = report.worst_memory();
  return {
      "memory_gib",
      "memory",
      worst.total.gib(),
      QString{"%1 of %2 GiB"}
          .arg(worst.total.gib(), 0, 'f', 1)
          .arg(worst.capacity.gib(), 0, 'f', 1),
      QString{
          "Of the fullest GPU (stage %1): the most bytes alive at once, in the order in which the "
          "operators are issued, and what the device keeps for itself. It %2."}
          .arg(worst.stage)
          .arg(fit_text(report)),
      true};
}

QString range_of(const sim::Report& report) {
  if (!report.interval) return {};
  return text(sim::range_text(report.interval->shortest(report.step_time),
                              report.interval->longest(report.step_time)));
}

QString anchored_range_of(const sim::Report& report) {
  const bool anchored = report.interval && report.interval->own_runs > 0;
  return range_of(report) + (anchored ? ", anchored" : "");
}

QString interval_text(const sim::Report& report) {
  if (!report.interval) return {};
  const QString level = QString{"%1 %"}.arg(100 * report.interval->level, 0, 'f', 0);
  const int runs = report.interval->own_runs;
  if (runs > 0)
    return QString{" %1: %2, anchored on %3 measured run%4 of your own (docs/how-sure.md)."}.arg(
        level, range_of(report), QString::number(runs), runs == 1 ? "" : "s");
  QString text_of = QString{" %1 of measured runs like this one took %2 (docs/how-sure.md)."}.arg(
      level, range_of(report));
  if (!report.interval->named) text_of += " " + text(std::string{sim::unnamed_text}) + ".";
  return text_of;
}

}  // namespace

std::vector<Figure> headline_of(const sim::Report& report) {
  const QString samples = report.counts_samples ? "samples/s" : "tokens/s";
  return {
      {"step_time_s", "step time", sim::in_seconds(report.step_time),
       text(sim::precise(report.step_time)),
       "From the first operator to the end of the last one, over all ranks: simulated." +
           interval_text(report) +
           (report.software ? " Software: " + software_of(report).front() + "." : QString{}),
       true, false, anchored_range_of(report)},
      {"mfu", "MFU", report.mfu, QString{"%1 %"}.arg(100 * report.mfu, 0, 'f', 1),
       "Model FLOPs per second and GPU over the data-sheet peak of the compute format. " +
           text(sim::flop_formula(report)),
       false, true},
      memory_of(report),
      {"tokens_per_second", samples, report.tokens_per_second,
       text(sim::significant(report.tokens_per_second)),
       "Of all GPUs together: those of one step over the step time.", false},
      {"tokens_per_second_per_gpu", samples + " per GPU", report.tokens_per_second_per_gpu,
       text(sim::significant(report.tokens_per_second_per_gpu)),
       QString{"The same over %1 GPUs."}.arg(text(sim::grouped(report.ranks))), false},
      {"bubble_share", "bubble", report.bubble_share,
       QString{"%1 %"}.arg(100 * report.bubble_share, 0, 'f', 1),
       "Share of the step in which a GPU waits for the pipeline. Closed form for equal stages: " +
           QString{"%1 %"}.arg(100 * report.bubble_closed_form, 0, 'f', 1),
       true, true},
  };
}

QStringList software_of(const sim::Report& report) {
  if (!report.software) return {};
  QStringList lines{text(sim::software_line(*report.software))};
  for (const std::string& difference : sim::software_differences(*report.software))
    lines << text(difference);
  return lines;
}

QString change_text(const Figure& now, const Figure& before) {
  if (before.value == 0 && !now.is_share) return {};
  const double change =
      100 * (now.is_share ? now.value - before.value : now.value / before.value - 1);
  if (std::abs(change) < 0.05) return {};
  return QString{"%1%2 %3"}
      .arg(change > 0 ? "+" : "−")
      .arg(std::abs(change), 0, 'f', 1)
      .arg(now.is_share ? QObject::tr("points") : QStringLiteral("%"));
}

QString part_definition(std::size_t part) {
  static constexpr std::array definitions{
      "A kernel runs on the compute stream.",
      "Communication of a tensor group is under way or waits for its partners; no kernel runs.",
      "The same of a context group.",
      "The same of a group that shares experts.",
      "Communication of gradients and weights is under way, and no kernel runs.",
      "A message between pipeline stages is under way, and no kernel runs.",
      "The GPU waits for another stage, or is done before the step ends.",
      "Nothing runs and nothing waits: the host has yet to issue."};
  static_assert(definitions.size() == sim::breakdown_fields.size());
  return QObject::tr(definitions[part]);
}

QString fit_text(const sim::Report& report) {
  if (!report.fits()) return "does not fit";
  return report.memory_in_doubt() ? "may not fit" : "fits";
}

}  // namespace ui
