// A file, written as a whole or not at all.
#pragma once

#include <QByteArray>
#include <QString>

namespace ui {

// Returns what went wrong, with the path; empty: nothing.
QString write_file(const QString& path, const QByteArray& content);

}  // namespace ui
