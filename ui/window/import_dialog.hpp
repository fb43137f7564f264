// A job of a training framework as a scenario: asks for what its file does not say.
#pragma once

#include <QComboBox>
#include <QDialog>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QTimer>
#include <string>

#include "sim/interop/job_file.hpp"
#include "ui/core/background_job.hpp"

class QFormLayout;

namespace ui {

class ImportDialog : public QDialog {
  Q_OBJECT

 public:
  // `cluster`: the name that is offered first.
  ImportDialog(const QString& path, sim::JobKind kind, const QString& cluster,
               QWidget* parent = nullptr);

  // Whether the file is a scenario with what is entered, and nothing is being worked out.
  bool ready() const { return !job_.busy() && !soon_.isActive() && !yaml_.empty(); }
  bool busy() const { return job_.busy() || soon_.isActive(); }
  // The scenario as a file beside the job's, with the notes in its head. Empty: not ready.
  const std::string& yaml() const { return yaml_; }
  QString text() const { return said_->text(); }  // what was read, or what is wrong

 private:
  void make_fields(const QString& cluster);
  QSpinBox* number(const QString& title, const QString& none, const QString& help);
  void work_out();  // in the background
  sim::JobFile asked() const;
  void show_problems(const QString& why);

  std::string path_;
  sim::JobKind kind_;
  QFormLayout* form_ = nullptr;
  QComboBox *cluster_ = nullptr, *model_ = nullptr, *precision_ = nullptr;
  QSpinBox *gpus_ = nullptr, *sequence_ = nullptr, *micro_batch_ = nullptr, *batch_ = nullptr;
  QLineEdit* definitions_ = nullptr;
  QLabel* said_ = nullptr;
  QPushButton* open_ = nullptr;
  std::string yaml_;
  QTimer soon_;
  BackgroundJob job_;  // last: it uses the others
};

}  // namespace ui
