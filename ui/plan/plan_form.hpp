// The fields of a plan: the job, the run, where it may run. A mistake is told below its field.
#pragma once

#include <QCheckBox>
#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QWidget>
#include <array>
#include <vector>

#include "ui/plan/cluster_table.hpp"

class QFormLayout;

namespace sim {
struct Scenario;
}

namespace ui {

class PlanForm : public QWidget {
  Q_OBJECT

 public:
  explicit PlanForm(QWidget* parent = nullptr);
  // What the scenario has, shown where a field is empty; null: none is open.
  void show_scenario(const sim::Scenario* scenario);
  // The fields; without the scenario.
  PlanQuestion question() const;
  // Sets a field as a user would: words of PlanField; "clusters": names with commas between them,
  // each with =PRICE behind it if it has one; "offload": yes or no. False: there is no such field.
  bool set(const QString& field, const QString& text);
  static QStringList field_names();  // that set() knows
  void show_problems(const std::vector<FieldProblem>& problems);
  QString problem(PlanField field) const;  // as it is shown; empty: none
  QStringList problems() const;            // "tokens: ..." of each field that has one
  ClusterTable& clusters() { return *clusters_; }

 Q_SIGNALS:
  void submitted();  // Enter in a field

 private:
  struct Field {
    QLineEdit* edit = nullptr;  // null: the table of clusters
    QLabel* problem = nullptr;
  };
  Field& field(PlanField of) { return fields_[static_cast<std::size_t>(of)]; }
  const Field& field(PlanField of) const { return fields_[static_cast<std::size_t>(of)]; }
  QFormLayout* section(const QString& title);
  void make_job();
  void make_run();
  void make_places();
  void add(QFormLayout& form, PlanField of, const QString& title, const QString& unset,
           const QString& help);
  QComboBox* add_names(QFormLayout& form, PlanField of, const QString& title, const QString& help,
                       const QStringList& names);
  QLabel* add_problem(QFormLayout& form);

  std::array<Field, words_of(PlanField{}).size()> fields_{};
  QCheckBox* offload_ = nullptr;
  ClusterTable* clusters_ = nullptr;
};

}  // namespace ui
