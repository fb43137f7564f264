#include "ui/plan/plan_form.hpp"

#include <QCompleter>
#include <QFileInfo>
#include <QFormLayout>
#include <QGroupBox>
#include <QVBoxLayout>

#include "sim/config/data_files.hpp"
#include "sim/framework/presets/preset.hpp"
#include "sim/scenario/scenario.hpp"
#include "ui/core/words.hpp"

namespace ui {

PlanForm::PlanForm(QWidget* parent) : QWidget{parent} {
  auto* column = new QVBoxLayout{this};
  column->setContentsMargins(0, 0, 0, 0);
  make_job();
  make_run();
  make_places();
  column->addStretch();
  show_scenario(nullptr);
}

QFormLayout* PlanForm::section(const QString& title) {
  auto* box = new QGroupBox{title};
  auto* form = new QFormLayout{box};
  form->setContentsMargins(8, 4, 8, 6);
  form->setVerticalSpacing(3);
  form->setHorizontalSpacing(8);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  layout()->addWidget(box);
  return form;
}

QLabel* PlanForm::add_problem(QFormLayout& form) {
  auto* label = new QLabel;
  label->setWordWrap(true);
  label->setForegroundRole(QPalette::BrightText);  // the theme's colour of what is wrong
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  form.addRow(label);
  label->hide();
  return label;
}

void PlanForm::add(QFormLayout& form, PlanField of, const QString& title, const QString& unset,
                   const QString& help) {
  auto* edit = new QLineEdit;
  edit->setPlaceholderText(unset);
  edit->setAccessibleName(title);
  edit->setAccessibleDescription(help);
  edit->setToolTip(help);
  connect(edit, &QLineEdit::returnPressed, this, &PlanForm::submitted);
  form.addRow(title, edit);
  field(of) = {edit, add_problem(form)};
}

QComboBox* PlanForm::add_names(QFormLayout& form, PlanField of, const QString& title,
                               const QString& help, const QStringList& names) {
  auto* box = new QComboBox;
  box->setEditable(true);
  box->setInsertPolicy(QComboBox::NoInsert);
  box->addItems(QStringList{QString{}} + names);
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box->setMinimumContentsLength(8);
  box->completer()->setFilterMode(Qt::MatchContains);
  box->completer()->setCompletionMode(QCompleter::PopupCompletion);
  box->setAccessibleName(title);
  box->setToolTip(help);
  box->lineEdit()->setAccessibleName(title);
  connect(box->lineEdit(), &QLineEdit::returnPressed, this, &PlanForm::submitted);
  form.addRow(title, box);
  field(of) = {box->lineEdit(), add_problem(form)};
  return box;
}

void PlanForm::make_job() {
  QFormLayout* form = section(tr("Job"));
  QStringList models, frameworks;
  for (const std::string& name : sim::data_files("models"))
    models << to_qstring(name);
  for (const auto& known : words_of(sim::PresetName{}))
    frameworks << to_qstring(known.text);
  add_names(
      *form, PlanField::model, tr("model"),
      tr("By name or file. Empty: the job of the scenario that is open, whatever its layout."),
      models);
  add(*form, PlanField::batch, tr("batch"), {}, tr("Sequences per step."));
  add(*form, PlanField::sequence, tr("sequence"), {}, tr("Tokens per sequence."));
  add_names(*form, PlanField::framework, tr("framework"),
            tr("Only layouts that it runs, at its speed. Empty: the scenario's, or any."),
            frameworks);
}

void PlanForm::make_run() {
  QFormLayout* form = section(tr("Run"));
  add(*form, PlanField::tokens, tr("tokens"), tr("none: only what fits"),
      tr("Tokens to train on, as 2e12. Empty: the fewest GPUs that fit, without a run."));
  add(*form, PlanField::deadline, tr("deadline"), tr("none"),
      tr("The run is to end within it, as 30d."));
  add(*form, PlanField::budget, tr("budget"), tr("none"),
      tr("The rent is to stay below it, as 3e6 USD. Needs prices."));
  add(*form, PlanField::confidence, tr("confidence"), "0.9",
      tr("Chance to keep deadline and budget."));
  add(*form, PlanField::kwh, tr("price of a kWh"), tr("none"), tr("As 0.08 USD."));
}

void PlanForm::make_places() {
  QFormLayout* form = section(tr("Where"));
  add(*form, PlanField::most_gpus, tr("most GPUs"), "1024", tr("That are looked at."));
  offload_ = new QCheckBox{tr("states on the host, too")};
  offload_->setAccessibleName(tr("Offload"));
  offload_->setToolTip(
      tr("Looks at layouts with optimizer, parameters or activations on the host, too."));
  form->addRow(tr("offload"), offload_);
  clusters_ = new ClusterTable;
  form->addRow(clusters_);
  field(PlanField::clusters) = {nullptr, add_problem(*form)};
  connect(clusters_, &ClusterTable::submitted, this, &PlanForm::submitted);
}

void PlanForm::show_scenario(const sim::Scenario* scenario) {
  const auto hint = [&](PlanField of, const QString& text) {
    field(of).edit->setPlaceholderText(text);
  };
  hint(PlanField::model, scenario ? tr("%1, of the scenario").arg(to_qstring(scenario->model.name))
                                  : tr("name one, or open a scenario"));
  hint(PlanField::batch, scenario ? QString::number(scenario->layout.global_batch) : QString{});
  hint(PlanField::sequence,
       scenario ? QString::number(scenario->layout.sequence_length) : tr("the model's own"));
  hint(PlanField::framework, scenario ? tr("the scenario's") : tr("any"));
  if (!scenario || !clusters_->ticked().empty()) return;
  const std::string& path = scenario->cluster_path;
  const std::string name = QFileInfo{to_qstring(path)}.completeBaseName().toStdString();
  clusters_->tick(sim::shipped_file("topologies", name).empty() ? path : name, {});
}

PlanQuestion PlanForm::question() const {
  PlanQuestion asked;
  for (const auto& known : words_of(PlanField{}))
    if (const QLineEdit* edit = field(known.value).edit)
      asked.text(known.value) = edit->text().trimmed().toStdString();
  asked.clusters = clusters_->ticked();
  asked.offload = offload_->isChecked();
  return asked;
}

bool PlanForm::set(const QString& name, const QString& text) {
  if (name == "offload") {
    offload_->setChecked(text == "yes");
    return text == "yes" || text == "no";
  }
  const std::optional<PlanField> of = sim::from_word<PlanField>(name.toStdString());
  if (!of) return false;
  if (QLineEdit* edit = field(*of).edit) {
    edit->setText(text);
    return true;
  }
  clusters_->tick_none();
  for (const QString& one : text.split(',', Qt::SkipEmptyParts))
    clusters_->tick(one.section('=', 0, 0).toStdString(), one.section('=', 1));
  return true;
}

QStringList PlanForm::field_names() {
  QStringList names;
  for (const auto& known : words_of(PlanField{}))
    names << to_qstring(known.text);
  return names << "offload";
}

void PlanForm::show_problems(const std::vector<FieldProblem>& problems) {
  for (const Field& one : fields_) {
    one.problem->clear();
    one.problem->hide();
    if (one.edit) one.edit->setAccessibleDescription(one.edit->toolTip());
  }
  for (const FieldProblem& problem : problems) {
    Field& of = field(problem.field);
    const QString before = of.problem->text();
    of.problem->setText((before.isEmpty() ? QString{} : before + '\n') + "⚠ " +
                        to_qstring(problem.what));
    of.problem->show();
    if (of.edit) of.edit->setAccessibleDescription(of.problem->text());
  }
  if (problems.empty()) return;
  QWidget* first = field(problems.front().field).edit;
  (first ? first : clusters_)->setFocus();
}

QStringList PlanForm::problems() const {
  QStringList list;
  for (const auto& known : words_of(PlanField{}))
    if (const QString text = problem(known.value); !text.isEmpty())
      list << to_qstring(known.text) + ": " + text;
  return list;
}

QString PlanForm::problem(PlanField of) const {
  return field(of).problem->text();
}

}  // namespace ui
