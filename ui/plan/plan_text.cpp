#include "ui/plan/plan_text.hpp"

#include <QObject>
#include <algorithm>

#include "sim/base/table_text.hpp"
#include "sim/capacity/capacity_words.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

QString number_text(int gpus) {
  return to_qstring(sim::grouped(gpus));
}

QString kept_text(const sim::CapacityPoint& point) {
  return point.run ? QString{"%1 %"}.arg(100 * point.chance, 0, 'f', 0) : QString{"-"};
}

QString goal_text(const sim::CapacityPlan& plan, sim::CapacityGoal goal) {
  return to_qstring(sim::goal_words(goal, plan.wish.deadline.has_value()));
}

// The figures that both tables have.
std::vector<PlanCell> cells_of(const sim::CapacityPlan& plan, const sim::CapacityPoint& point) {
  const double step = sim::in_seconds(point.best.evaluation.step_time);
  return {{number_text(point.gpus), static_cast<double>(point.gpus)},
          {to_qstring(point.cluster)},
          {to_qstring(sim::precise(point.best.evaluation.step_time)), step},
          {to_qstring(sim::days_text(point)), point.days()},
          {kept_text(point), point.chance},
          {to_qstring(sim::money_text(plan, point)), point.cost.value_or(0)},
          {to_qstring(sim::energy_text(point)), point.kwh}};
}

std::vector<PlanColumn> shared_columns() {
  return {{QObject::tr("GPUs"), QObject::tr("GPUs of the job.")},
          {QObject::tr("cluster"), QObject::tr("Where they are."), true},
          {QObject::tr("step"), QObject::tr("Time of a step with the best layout.")},
          {QObject::tr("days (95 %)"),
           QObject::tr("Days of the whole run, with failures and checkpoints: the mean, and what "
                       "95 % of such runs take, with the error of the forecast.")},
          {QObject::tr("kept"), QObject::tr("Chance to keep the deadline and the budget.")},
          {QObject::tr("cost"), QObject::tr("Mean rent of the run.")},
          {QObject::tr("energy"), QObject::tr("Mean energy of the run.")}};
}

}  // namespace

std::optional<std::size_t> main_answer(const sim::CapacityPlan& plan) {
  using enum sim::CapacityGoal;
  if (!plan.is_yes()) return std::nullopt;
  for (const sim::CapacityGoal goal : {fewest, cheapest, fastest, fewest_that_fit}) {
    const auto found = std::ranges::find(plan.answers, goal, &sim::CapacityAnswer::goal);
    if (found != plan.answers.end()) return static_cast<std::size_t>(found - plan.answers.begin());
  }
  return std::nullopt;
}

QString sentence_of(const sim::CapacityPlan& plan) {
  const std::optional<std::size_t> main = main_answer(plan);
  if (!main) {
    QString text = to_qstring(plan.closest);
    if (text.isEmpty()) text = QObject::tr("nothing is known yet");
    text.front() = text.front().toUpper();
    return QObject::tr("<b>No.</b> %1.").arg(text.toHtmlEscaped());
  }
  const sim::CapacityAnswer& answer = plan.answers[*main];
  const sim::CapacityPoint& point = plan.points[answer.point];
  QString text = QObject::tr("<b>%1 × %2</b> %3 the %4: ")
                     .arg(number_text(point.gpus), to_qstring(point.cluster).toHtmlEscaped(),
                          point.gpus == 1 ? QObject::tr("is") : QObject::tr("are"),
                          goal_text(plan, answer.goal));
  QStringList figures;
  if (point.run)
    figures << QObject::tr("%1 days").arg(to_qstring(sim::days_text(point)));
  else
    figures
        << QObject::tr("%1 a step").arg(to_qstring(sim::precise(point.best.evaluation.step_time)));
  if (plan.wish.deadline || plan.wish.money)
    figures << QObject::tr("kept with %1").arg(kept_text(point));
  if (point.cost) figures << to_qstring(sim::money_text(plan, point)).toHtmlEscaped();
  if (point.kwh > 0) figures << to_qstring(sim::energy_text(point));
  if (!point.run) figures << to_qstring(sim::memory_text(point));
  return text + figures.join(", ") + '.';
}

std::vector<PlanColumn> answer_columns() {
  std::vector<PlanColumn> columns = shared_columns();
  columns.insert(columns.begin(), {QObject::tr("answer"), QObject::tr("What was sought."), true});
  columns.push_back({QObject::tr("what binds"),
                     QObject::tr("Why fewer GPUs do not do, or what takes most of the step."),
                     true});
  return columns;
}

std::vector<PlanRow> answer_rows(const sim::CapacityPlan& plan) {
  std::vector<PlanRow> rows;
  for (const sim::CapacityAnswer& answer : plan.answers) {
    PlanRow row{cells_of(plan, plan.points[answer.point]), answer.point};
    row.cells.insert(row.cells.begin(), {goal_text(plan, answer.goal)});
    row.cells.push_back({to_qstring(answer.binds)});
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<PlanColumn> number_columns() {
  std::vector<PlanColumn> columns = shared_columns();
  columns.push_back({QObject::tr("memory"), QObject::tr("Of the fullest GPU.")});
  columns.push_back(
      {QObject::tr("front"), QObject::tr("★: neither slower nor dearer than another.")});
  columns.push_back({QObject::tr("layout"), QObject::tr("The best one; why there is none."), true});
  return columns;
}

std::vector<PlanRow> number_rows(const sim::CapacityPlan& plan) {
  std::vector<PlanRow> rows;
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    const sim::CapacityPoint& point = plan.points[i];
    const bool front = std::ranges::find(plan.front, i) != plan.front.end();
    PlanRow row{cells_of(plan, point), i};
    row.cells.push_back({to_qstring(sim::memory_text(point)), point.best.evaluation.memory.gib()});
    row.cells.push_back({front ? QString{"★"} : QString{}, front ? 0.0 : 1.0});
    row.cells.push_back({to_qstring(point.layout)});
    rows.push_back(std::move(row));
  }
  for (const sim::CapacityMiss& miss : plan.misses) {
    PlanRow row;
    row.cells.resize(number_columns().size());
    row.cells[0] = {number_text(miss.gpus), static_cast<double>(miss.gpus)};
    row.cells[1] = {to_qstring(miss.cluster)};
    row.cells.back() = {to_qstring(miss.why)};
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::pair<QString, QString>> point_facts(const sim::CapacityPlan& plan,
                                                     std::size_t index) {
  const sim::CapacityPoint& point = plan.points[index];
  std::vector<std::pair<QString, QString>> facts;
  const auto add = [&](const QString& name, const QString& value) {
    if (!value.isEmpty() && value != "-") facts.emplace_back(name, value);
  };
  add(QObject::tr("GPUs"),
      QString{"%1 × %2, %3"}.arg(number_text(point.gpus), to_qstring(point.cluster),
                                 to_qstring(point.device)));
  add(QObject::tr("layout"), to_qstring(point.layout));
  add(QObject::tr("second best"), to_qstring(point.runner_up));
  add(QObject::tr("step"), to_qstring(sim::precise(point.best.evaluation.step_time)));
  add(QObject::tr("MFU"), QString{"%1 %"}.arg(100 * point.best.mfu, 0, 'f', 1));
  add(QObject::tr("memory"), to_qstring(sim::memory_text(point)));
  add(QObject::tr("days"), to_qstring(sim::days_text(point)));
  if (plan.wish.deadline || plan.wish.money) add(QObject::tr("kept with"), kept_text(point));
  add(QObject::tr("cost"), to_qstring(sim::money_text(plan, point)));
  if (point.cost_at_most)
    add(QObject::tr("with %1 % below").arg(100 * plan.wish.confidence, 0, 'f', 0),
        QString{"%1 %2"}.arg(to_qstring(sim::significant(*point.cost_at_most)),
                             to_qstring(plan.wish.prices.currency)));
  add(QObject::tr("energy"), to_qstring(sim::energy_text(point)));
  if (point.run && point.run->rented.ends())
    add(QObject::tr("goodput"), to_qstring(sim::goodput_text(point)));
  for (const sim::CapacityAnswer& answer : plan.answers)
    if (answer.point == index)
      add(goal_text(plan, answer.goal),
          answer.binds.empty() ? QObject::tr("nothing below was looked at")
                               : QObject::tr("binds: %1").arg(to_qstring(answer.binds)));
  return facts;
}

}  // namespace ui
