// Words of a command line.
#pragma once

#include <QString>

namespace ui {

// Quoted for a shell, where it needs it.
QString shell_word(const QString& word);

}  // namespace ui
