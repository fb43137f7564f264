#include "ui/core/shell_word.hpp"

#include <QRegularExpression>

namespace ui {

QString shell_word(const QString& word) {
  static const QRegularExpression plain{"^[A-Za-z0-9_./=,:+-]+$"};
  if (plain.match(word).hasMatch()) return word;
  return "'" + QString{word}.replace("'", "'\\''") + "'";
}

}  // namespace ui
