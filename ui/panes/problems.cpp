#include "ui/panes/problems.hpp"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QRegularExpression>
#include <QVBoxLayout>

#include "ui/core/theme.hpp"

namespace ui {
namespace {

constexpr std::string_view set_file = "--set";

}  // namespace

std::optional<Replacement> replacement_of(const sim::Problem& problem) {
  static const QRegularExpression pattern{R"('([^']*)'[;?]? did you mean ['"]([^'"]*)['"])"};
  const QRegularExpressionMatch match = pattern.match(QString::fromStdString(problem.what));
  if (!match.hasMatch()) return std::nullopt;
  return Replacement{match.captured(1).toStdString(), match.captured(2).toStdString()};
}

std::string replaced(const std::string& text, int line, int column, const Replacement& by) {
  std::size_t at = 0;
  for (int i = 1; i < line; ++i) {
    at = text.find('\n', at);
    if (at == std::string::npos) return text;
    ++at;
  }
  at += static_cast<std::size_t>(std::max(0, column - 1));
  const std::size_t found = text.find(by.wrong, std::min(at, text.size()));
  if (found == std::string::npos || text.find('\n', at) < found) return text;
  std::string fixed = text;
  return fixed.replace(found, by.wrong.size(), by.right);
}

ProblemsPane::ProblemsPane(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  setAccessibleName(tr("Problems"));
  column_ = new QVBoxLayout{this};
  column_->setContentsMargins(12, 4, 12, 4);
  column_->setSpacing(2);
  connect(&session_, &Session::problems_changed, this, &ProblemsPane::refresh);
  refresh();
}

void ProblemsPane::refresh() {
  while (QLayoutItem* item = column_->takeAt(0)) {
    delete item->widget();
    delete item;
  }
  constexpr std::size_t most = 4;
  const auto& problems = session_.problems();
  for (std::size_t i = 0; i < std::min(most, problems.size()); ++i)
    column_->addWidget(line_of(problems[i]));
  if (problems.size() > most)
    column_->addWidget(new QLabel{tr("and %1 more").arg(problems.size() - most)});
  setVisible(!problems.empty());
}

void ProblemsPane::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) refresh();
}

QWidget* ProblemsPane::line_of(const sim::Problem& problem) {
  auto* line = new QWidget;
  auto* row = new QHBoxLayout{line};
  row->setContentsMargins(0, 0, 0, 0);
  const Theme& theme = theme_of(*this);
  const bool of_set = problem.where.file == set_file;
  QString place = QString::fromStdString(problem.where.file).section('/', -1);
  if (problem.where.line > 0 && !of_set)
    place += QString{":%1:%2"}.arg(problem.where.line).arg(problem.where.column);
  auto* text = new QLabel{
      QString{"⚠ <b>%1</b>  %2"}.arg((of_set ? tr("knob") : place).toHtmlEscaped(),
                                     QString::fromStdString(problem.what).toHtmlEscaped())};
  text->setWordWrap(true);
  QPalette palette = text->palette();
  palette.setColor(QPalette::WindowText, theme.bad);
  text->setPalette(palette);
  text->setTextInteractionFlags(Qt::TextSelectableByMouse);
  row->addWidget(text, 1);
  if (const std::optional<Replacement> by = replacement_of(problem)) {
    auto* button = new QPushButton{tr("Use '%1'").arg(QString::fromStdString(by->right))};
    button->setAccessibleName(tr("Fix: use %1").arg(QString::fromStdString(by->right)));
    connect(button, &QPushButton::clicked, this,
            [this, problem, by = *by] { fix(problem, by.wrong, by.right); });
    row->addWidget(button);
  }
  if (of_set) {
    auto* undo = new QPushButton{tr("Undo")};
    undo->setAccessibleName(tr("Undo the last change"));
    connect(undo, &QPushButton::clicked, &session_.undo_stack(), &QUndoStack::undo);
    row->addWidget(undo);
  } else if (problem.where.line > 0) {
    auto* show = new QPushButton{tr("Show line")};
    connect(show, &QPushButton::clicked, this,
            [this, where = problem.where] { Q_EMIT show_line(where.line, where.column); });
    row->addWidget(show);
  }
  return line;
}

void ProblemsPane::fix(const sim::Problem& problem, const std::string& wrong,
                       const std::string& right) {
  if (problem.where.file != set_file) {
    session_.edit(
        replaced(session_.yaml(), problem.where.line, problem.where.column, {wrong, right}));
    return;
  }
  Knobs changes;
  for (const auto& [key, value] : session_.knobs()) {
    if (const std::size_t at = key.rfind(wrong);
        at != std::string::npos && at + wrong.size() == key.size()) {
      std::string fixed = key;
      changes.emplace_back(key, "");
      changes.emplace_back(fixed.replace(at, wrong.size(), right), value);
    } else if (value == wrong) {
      changes.emplace_back(key, right);
    }
  }
  session_.set_knobs(changes, tr("use %1").arg(QString::fromStdString(right)));
}

}  // namespace ui
