#include "ui/core/write_file.hpp"

#include <QSaveFile>

namespace ui {

QString write_file(const QString& path, const QByteArray& content) {
  QSaveFile file{path};
  if (file.open(QIODevice::WriteOnly) && file.write(content) == content.size() && file.commit())
    return {};
  return path + ": " + file.errorString();
}

}  // namespace ui
