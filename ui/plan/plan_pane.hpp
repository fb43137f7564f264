// The job "plan a cluster": what is asked, how far it is, the sentence that answers, the answers,
// the front of time against cost, and all numbers of GPUs.
#pragma once

#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QWidget>
#include <optional>

#include "ui/core/facts_table.hpp"
#include "ui/core/session.hpp"
#include "ui/plan/plan_form.hpp"
#include "ui/plan/plan_front.hpp"
#include "ui/plan/plan_job.hpp"
#include "ui/plan/plan_table.hpp"

namespace ui {

class PlanPane : public QWidget {
  Q_OBJECT

 public:
  explicit PlanPane(Session& session, QWidget* parent = nullptr);

  void start();
  void stop();
  void choose(std::size_t point);  // of CapacityPlan::points
  // Opens the chosen point's layout on its GPUs as the scenario.
  void open_as_scenario();
  // The page of the plan: the file that `stepcast plan -o html` writes. REQUIRES: there is a plan.
  QByteArray page() const;
  // The same plan as commands of a shell; empty: none was started, or its scenario is no file.
  const std::string& commands() const { return commands_; }

  const PlanJob& job() const { return job_; }
  PlanForm& form() { return *form_; }
  PlanFront& front() { return *front_; }
  PlanTable& answers() { return *answers_; }
  PlanTable& numbers() { return *numbers_; }
  FactsTable& facts() { return *facts_; }
  QString sentence() const { return sentence_->text(); }
  QString problem() const;  // of no field
  const std::optional<std::size_t>& chosen() const { return chosen_; }

 Q_SIGNALS:
  void opened_point();  // in the session
  void changed();

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  QWidget* make_left();
  QWidget* make_right();
  QWidget* make_buttons();
  void adopt_scenario();
  void refresh();
  void refresh_plan();
  void refresh_facts();
  void choose_main();  // the point of the main answer
  void show_progress();
  void show_sentence();
  void show_failure(const std::vector<sim::Problem>& problems);
  void save_page();
  void save_csv();
  void copy_commands();
  void write(const QString& path, const QByteArray& content);

  Session& session_;
  PlanJob job_;
  PlanForm* form_ = nullptr;
  QPushButton *start_ = nullptr, *stop_ = nullptr;
  QPushButton *open_ = nullptr, *page_ = nullptr, *csv_ = nullptr, *copy_ = nullptr;
  QProgressBar* bar_ = nullptr;
  QLabel *progress_ = nullptr, *problem_ = nullptr, *sentence_ = nullptr, *surer_ = nullptr;
  PlanTable *answers_ = nullptr, *numbers_ = nullptr;
  PlanFront* front_ = nullptr;
  FactsTable* facts_ = nullptr;

  PlanPtr shown_;
  std::string commands_;
  std::optional<std::size_t> chosen_;
  bool chosen_by_user_ = false;
};

}  // namespace ui
