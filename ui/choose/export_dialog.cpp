#include "ui/choose/export_dialog.hpp"

#include <QApplication>
#include <QClipboard>
#include <QDialogButtonBox>
#include <QFileDialog>
#include <QFileInfo>
#include <QFontDatabase>
#include <QLabel>
#include <QListWidget>
#include <QMessageBox>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QTabWidget>
#include <QVBoxLayout>

#include "ui/core/words.hpp"
#include "ui/core/write_file.hpp"

namespace ui {
namespace {

QPlainTextEdit* text_view(const std::string& text, const QString& accessible_name) {
  auto* view = new QPlainTextEdit{to_qstring(text)};
  view->setReadOnly(true);
  view->setLineWrapMode(QPlainTextEdit::NoWrap);
  view->setTabChangesFocus(true);
  view->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
  view->setAccessibleName(accessible_name);
  return view;
}

}  // namespace

ExportDialog::ExportDialog(const sim::Scenario& scenario, sim::Target target, QWidget* parent)
    : QDialog{parent},
      scenario_{scenario},
      target_{target},
      exported_{sim::export_scenario(scenario, target, {})} {
  setWindowTitle(tr("Export for %1").arg(to_qstring(std::string{sim::word(target)})));
  resize(760, 560);
  auto* column = new QVBoxLayout{this};
  QWidget* text = text_view(exported_.text, tr("The file"));
  if (!exported_.flags.empty()) {
    auto* tabs = new QTabWidget;
    tabs->addTab(text, tr("The file"));
    tabs->addTab(text_view(exported_.flags, tr("Flags of Megatron-DeepSpeed")),
                 tr("Flags of Megatron-DeepSpeed"));
    text = tabs;
  }
  column->addWidget(text, 3);
  if (exported_.notes.empty()) {
    column->addWidget(new QLabel{tr("Everything that the forecast depends on is in the file.")});
  } else {
    auto* label = new QLabel{tr("What the target cannot say, or says otherwise:")};
    column->addWidget(label);
    auto* notes = new QListWidget;
    notes->setWordWrap(true);
    notes->setAccessibleName(label->text());
    for (const sim::Note& note : exported_.notes)
      notes->addItem(to_qstring(note.key + ": " + note.what));
    column->addWidget(notes, 1);
  }
  auto* buttons = new QDialogButtonBox{QDialogButtonBox::Close};
  QPushButton* save_button = buttons->addButton(tr("&Save …"), QDialogButtonBox::ActionRole);
  QPushButton* copy_button = buttons->addButton(tr("&Copy"), QDialogButtonBox::ActionRole);
  column->addWidget(buttons);
  connect(save_button, &QPushButton::clicked, this, &ExportDialog::save);
  connect(copy_button, &QPushButton::clicked, this,
          [this] { QApplication::clipboard()->setText(to_qstring(exported_.text)); });
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
}

void ExportDialog::save() {
  const QString path = QFileDialog::getSaveFileName(this, windowTitle());
  if (path.isEmpty()) return;
  // Paths that a scenario names are relative to the file.
  const sim::Exported here =
      sim::export_scenario(scenario_, target_, QFileInfo{path}.absolutePath().toStdString());
  QString problem = write_file(path, QByteArray::fromStdString(here.text));
  if (problem.isEmpty() && !here.flags.empty())
    problem = write_file(path + ".args", QByteArray::fromStdString(here.flags));
  if (problem.isEmpty()) return accept();
  QMessageBox::warning(this, windowTitle(), problem);
}

}  // namespace ui
