#include "ui/core/write_file.hpp"

#include <exception>

#include "sim/base/complete_file.hpp"

namespace ui {

QString write_file(const QString& path, const QByteArray& content) {
  try {
    sim::CompleteFile file{path.toStdString()};
    file.write({content.constData(), static_cast<std::size_t>(content.size())});
    file.commit();
    return {};
  } catch (const std::exception& error) {
    return QString::fromStdString(error.what());
  }
}

}  // namespace ui
