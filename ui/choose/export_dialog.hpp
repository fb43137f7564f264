// A layout as the file that starts the job in a training framework, with what that cannot say.
#pragma once

#include <QDialog>

#include "sim/interop/handover.hpp"

namespace ui {

// Shows what `stepcast export` writes; it can be copied and saved. Modal.
class ExportDialog : public QDialog {
  Q_OBJECT

 public:
  ExportDialog(const sim::Scenario& scenario, sim::Target target, QWidget* parent);
  const sim::Exported& exported() const { return exported_; }

 private:
  void save();

  const sim::Scenario& scenario_;
  sim::Target target_;
  sim::Exported exported_;
};

}  // namespace ui
