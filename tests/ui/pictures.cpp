#include "tests/ui/pictures.hpp"

#include <QCoreApplication>
#include <QDir>
#include <algorithm>
#include <array>
#include <cstdlib>

#include "tests/support/source_dir.hpp"

namespace ui::test {
namespace {

QString golden_of(const QString& name) {
  return QString::fromStdString(sim::test::source_dir()) + "/tests/ui/golden/" + name + ".png";
}

bool same_cell(QRgb a, QRgb b) {
  const int most = std::max({std::abs(qRed(a) - qRed(b)), std::abs(qGreen(a) - qGreen(b)),
                             std::abs(qBlue(a) - qBlue(b))});
  return most <= cell_tolerance;
}

QRgb mean_of(const QImage& picture, int left, int top) {
  std::array<int, 3> sum{};
  for (int y = top; y < top + cell; ++y)
    for (int x = left; x < left + cell; ++x) {
      const QRgb pixel = picture.pixel(x, y);
      sum[0] += qRed(pixel);
      sum[1] += qGreen(pixel);
      sum[2] += qBlue(pixel);
    }
  constexpr int count = cell * cell;
  return qRgb(sum[0] / count, sum[1] / count, sum[2] / count);
}

}  // namespace

QImage coarse(const QImage& picture) {
  const QImage whole = picture.convertToFormat(QImage::Format_RGB32);
  QImage cells{whole.width() / cell, whole.height() / cell, QImage::Format_RGB32};
  for (int y = 0; y < cells.height(); ++y)
    for (int x = 0; x < cells.width(); ++x)
      cells.setPixel(x, y, mean_of(whole, x * cell, y * cell));
  return cells;
}

double difference(const QImage& coarse_a, const QImage& coarse_b) {
  if (coarse_a.size() != coarse_b.size()) return 1;
  int differ = 0;
  for (int y = 0; y < coarse_a.height(); ++y)
    for (int x = 0; x < coarse_a.width(); ++x)
      differ += same_cell(coarse_a.pixel(x, y), coarse_b.pixel(x, y)) ? 0 : 1;
  return static_cast<double>(differ) / std::max(1, coarse_a.width() * coarse_a.height());
}

QString check_picture(const QImage& picture, const QString& name) {
  const QString golden = golden_of(name);
  if (qEnvironmentVariableIsSet("STEPCAST_RECORD_PICTURES"))
    return coarse(picture).save(golden) ? QString{} : golden + ": cannot be written";
  const QImage wanted{golden};
  if (wanted.isNull()) return golden + ": cannot be read; `make golden-pictures` records it";
  const double share = difference(coarse(picture), wanted.convertToFormat(QImage::Format_RGB32));
  if (share <= picture_tolerance) return {};
  const QString folder = QCoreApplication::applicationDirPath() + "/pictures";
  QDir{}.mkpath(folder);
  picture.save(folder + '/' + name + ".png");
  return QString{
      "%1: %2 % of the picture differ from tests/ui/golden/%1.png, at most %3 % may; "
      "what was painted is in %4"}
      .arg(name)
      .arg(100 * share, 0, 'f', 2)
      .arg(100 * picture_tolerance)
      .arg(folder);
}

}  // namespace ui::test
