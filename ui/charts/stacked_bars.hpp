// One or two stacked bars on one scale, above a legend with a figure for each part.
#pragma once

#include <QColor>
#include <QWidget>
#include <vector>

namespace ui {

struct BarPart {
  QString name;
  QColor colour;
  bool hatched = false;
  double value = 0, other = 0;  // of the first bar, of the second
  QString text, other_text;     // with the unit
  QString help;
};

struct BarLine {
  double at = 0;
  QString name;
  QColor colour;
  Qt::PenStyle style = Qt::DashLine;
};

struct BarsShown {
  QString first, second;  // what the bars are; an empty second: there is one bar
  std::vector<BarPart> parts;
  std::vector<BarLine> lines;
  double scale = 0;  // of the whole width; 0: the longest bar
};

class StackedBars : public QWidget {
  Q_OBJECT

 public:
  explicit StackedBars(const QString& accessible_name, QWidget* parent = nullptr);
  void show(BarsShown shown);
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {200, sizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  bool event(QEvent* event) override;

 private:
  int bars() const { return shown_.second.isEmpty() ? 1 : 2; }
  int line_height() const;
  int legend_top() const;
  double scale() const;
  QRectF bar_box(int bar) const;
  void paint_bar(QPainter& painter, int bar);
  void paint_lines(QPainter& painter);
  void paint_legend(QPainter& painter);
  void describe();

  BarsShown shown_;
};

}  // namespace ui
