#include "ui/panes/editor.hpp"

#include <QEvent>
#include <QFontDatabase>
#include <QSignalBlocker>
#include <QTextBlock>

#include "ui/core/theme.hpp"

namespace ui {
namespace {

constexpr int editor_pause_ms = 250;

}  // namespace

EditorPane::EditorPane(Session& session, QWidget* parent)
    : QPlainTextEdit{parent}, session_{session} {
  setAccessibleName(tr("Scenario file"));
  setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
  setLineWrapMode(QPlainTextEdit::NoWrap);
  setTabChangesFocus(true);
  typed_.setSingleShot(true);
  typed_.setInterval(editor_pause_ms);
  connect(this, &QPlainTextEdit::textChanged, this, [this] { typed_.start(); });
  connect(&typed_, &QTimer::timeout, this, [this] { session_.edit(toPlainText().toStdString()); });
  connect(&session_, &Session::opened, this, &EditorPane::load);
  connect(&session_, &Session::problems_changed, this, [this] {
    load();
    mark_problems();
  });
  load();
}

void EditorPane::load() {
  const QString text = QString::fromStdString(session_.yaml());
  if (text == toPlainText() || typed_.isActive()) return;
  const QSignalBlocker quiet{this};
  setPlainText(text);
}

void EditorPane::mark_problems() {
  QList<QTextEdit::ExtraSelection> marks;
  for (const sim::Problem& problem : session_.problems()) {
    if (problem.where.file != session_.path() || problem.where.line < 1) continue;
    const QTextBlock block = document()->findBlockByNumber(problem.where.line - 1);
    if (!block.isValid()) continue;
    QTextEdit::ExtraSelection mark;
    mark.cursor = QTextCursor{block};
    mark.cursor.movePosition(QTextCursor::EndOfBlock, QTextCursor::KeepAnchor);
    mark.format.setUnderlineStyle(QTextCharFormat::WaveUnderline);
    mark.format.setUnderlineColor(theme_of(*this).bad);
    mark.format.setToolTip(QString::fromStdString(problem.what));
    marks.push_back(mark);
  }
  setExtraSelections(marks);
}

void EditorPane::changeEvent(QEvent* event) {
  QPlainTextEdit::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) mark_problems();
}

void EditorPane::show_line(int line, int column) {
  const QTextBlock block = document()->findBlockByNumber(line - 1);
  if (!block.isValid()) return;
  QTextCursor cursor{block};
  cursor.movePosition(QTextCursor::Right, QTextCursor::MoveAnchor,
                      std::min(std::max(0, column - 1), block.length() - 1));
  setTextCursor(cursor);
  centerCursor();
  setFocus();
}

}  // namespace ui
