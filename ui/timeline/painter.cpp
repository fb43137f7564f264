#include "ui/timeline/painter.hpp"

#include <QImage>
#include <algorithm>
#include <cmath>

namespace ui {
namespace {

// Fewest pixels of a span that gets a name, and of one that gets an edge.
constexpr double named_width = 34;
constexpr double edged_width = 4;
// More names in a row than this would be noise, and cost time.
constexpr std::size_t most_names = 400;

std::int64_t whole(double value) {
  return static_cast<std::int64_t>(std::llround(value));
}

template <class Draw>
void each_visible(const Strip& strip, const TimeWindow& window, Draw&& draw) {
  const std::int64_t to = whole(window.to);
  for (std::size_t i = strip.first_ending_after(whole(window.from));
       i < strip.size() && strip.begin[i] < to; ++i)
    draw(i);
}

std::size_t visible_count(const Strip& strip, const TimeWindow& window) {
  const auto last = std::lower_bound(strip.begin.begin(), strip.begin.end(), whole(window.to));
  const auto end = static_cast<std::size_t>(last - strip.begin.begin());
  const std::size_t first = strip.first_ending_after(whole(window.from));
  return end > first ? end - first : 0;
}

}  // namespace

void TimelinePainter::row(const Row& row) {
  const int width = canvas_.area.width();
  std::vector<std::uint8_t> columns = ink_columns(row.strips, canvas_.window, width);
  if (row.computes) mark_bubbles(columns, row.group->bubbles, canvas_.window);
  QImage line{width, 1, QImage::Format_RGB32};
  auto* pixels = reinterpret_cast<QRgb*>(line.scanLine(0));
  const QRgb ground = theme_.ground.rgb();
  for (int x = 0; x < width; ++x) {
    const std::uint8_t shown = columns[static_cast<std::size_t>(x)];
    pixels[x] = shown < sim::ink_count ? theme_.ink[shown].rgb() : ground;
  }
  painter_.drawImage(QRect{canvas_.area.left(), canvas_.y_of(row), width, row.height}, line);
  if (row.computes) bubbles(row, columns);
  if (row.expanded) waits(row);
  if (row.height >= stream_row_height) names(row);
}

void TimelinePainter::bubbles(const Row& row, const std::vector<std::uint8_t>& columns) {
  const QBrush hatch{theme_.muted, Qt::BDiagPattern};
  const int width = static_cast<int>(columns.size());
  for (int x = 0; x < width;) {
    int end = x;
    while (end < width && columns[static_cast<std::size_t>(end)] == column_bubble)
      ++end;
    if (end > x)
      painter_.fillRect(QRect{canvas_.area.left() + x, canvas_.y_of(row), end - x, row.height - 1},
                        hatch);
    x = std::max(end, x + 1);
  }
}

// Waiting for partners: a thin bar in the stream's own row.
void TimelinePainter::waits(const Row& row) {
  if (row.computes) return;
  for (const Strip* strip : row.strips) {
    if (visible_count(*strip, canvas_.window) > most_names * 4) continue;
    each_visible(*strip, canvas_.window, [&](std::size_t i) {
      const double left = canvas_.x_of(static_cast<double>(strip->arrive[i]));
      const double right = canvas_.x_of(static_cast<double>(strip->begin[i]));
      if (right - left < 1) return;
      painter_.fillRect(QRectF{left, canvas_.y_of(row) + row.height / 2.0 - 1, right - left, 2.0},
                        QBrush{theme_.muted, Qt::Dense4Pattern});
    });
  }
}

void TimelinePainter::names(const Row& row) {
  const sim::Program& program = *row.group->program;
  const QFontMetrics metrics{painter_.font()};
  for (const Strip* strip : row.strips) {
    if (visible_count(*strip, canvas_.window) > most_names) continue;
    each_visible(*strip, canvas_.window, [&](std::size_t i) {
      const double left =
          std::max<double>(canvas_.area.left(), canvas_.x_of(static_cast<double>(strip->begin[i])));
      const double right = std::min<double>(canvas_.area.right() + 1,
                                            canvas_.x_of(static_cast<double>(strip->end[i])));
      if (right - left < edged_width) return;
      painter_.fillRect(QRectF{right - 1, static_cast<double>(canvas_.y_of(row)), 1.0,
                               static_cast<double>(row.height)},
                        theme_.ground);
      if (right - left < named_width) return;
      painter_.setPen(text_on(theme_.ink[strip->ink[i]]));
      const QString name = QString::fromStdString(program.name(sim::OpId{strip->op[i]}));
      const QRectF box{left + 3, static_cast<double>(canvas_.y_of(row)), right - left - 6,
                       static_cast<double>(row.height)};
      painter_.drawText(box, Qt::AlignVCenter | Qt::AlignLeft,
                        metrics.elidedText(name, Qt::ElideRight, static_cast<int>(box.width())));
    });
  }
}

void TimelinePainter::matches(const Row& row, const std::vector<bool>& marked) {
  const sim::Program& program = *row.group->program;
  std::vector<bool> columns(static_cast<std::size_t>(canvas_.area.width()), false);
  for (const Strip* strip : row.strips)
    each_visible(*strip, canvas_.window, [&](std::size_t i) {
      if (!marked[program.label[strip->op[i]].name]) return;
      const int last = static_cast<int>(columns.size()) - 1;
      const int from =
          std::clamp(static_cast<int>(canvas_.x_of(static_cast<double>(strip->begin[i]))) -
                         canvas_.area.left(),
                     0, last);
      const int to = std::clamp(
          static_cast<int>(canvas_.x_of(static_cast<double>(strip->end[i]))) - canvas_.area.left(),
          from, last);
      std::fill(columns.begin() + from, columns.begin() + to + 1, true);
    });
  for (std::size_t x = 0; x < columns.size(); ++x)
    if (columns[x])
      painter_.fillRect(canvas_.area.left() + static_cast<int>(x), canvas_.y_of(row), 1, 4,
                        theme_.bad);
}

void TimelinePainter::critical_path(const std::vector<Row>& rows,
                                    const std::vector<sim::PathStep>& path) {
  painter_.save();
  painter_.setClipRect(canvas_.area, Qt::IntersectClip);
  QPointF before;
  const LaneGroup* from_group = nullptr;
  bool joined = false;
  for (const sim::PathStep& step : path) {
    const double begin = static_cast<double>(step.begin.time_since_epoch().count());
    const double end = static_cast<double>(step.end.time_since_epoch().count());
    if (end < canvas_.window.from || begin > canvas_.window.to) {
      joined = false;
      continue;
    }
    const StripAt at = find_operator(rows, {step.track, step.op.value});
    if (!at.row) {
      joined = false;
      continue;
    }
    const double y = canvas_.y_of(*at.row) + at.row->height;
    const QPointF from{canvas_.x_of(begin), y};
    const QPointF to{canvas_.x_of(end), y};
    // Between the rows of one rank the path goes to and fro too often to be drawn.
    if (joined && at.row->group != from_group) {
      painter_.setPen(QPen{theme_.bad, 1});
      painter_.drawLine(before, from);
    }
    painter_.setPen(QPen{theme_.bad, 2, step.idle ? Qt::DotLine : Qt::SolidLine, Qt::FlatCap});
    painter_.drawLine(from, QPointF{std::max(to.x(), from.x() + 0.5), y});
    before = to;
    from_group = at.row->group;
    joined = true;
  }
  painter_.restore();
}

void TimelinePainter::selected(const std::vector<Row>& rows, const OperatorAt& at) {
  const StripAt found = find_operator(rows, at);
  if (!found.row) return;
  const double left = canvas_.x_of(static_cast<double>(found.strip->begin[found.span]));
  const double right = canvas_.x_of(static_cast<double>(found.strip->end[found.span]));
  painter_.save();
  painter_.setClipRect(canvas_.area, Qt::IntersectClip);
  const QRectF box{left - 1, canvas_.y_of(*found.row) - 1.0, std::max(3.0, right - left + 2),
                   found.row->height + 2.0};
  painter_.setPen(QPen{theme_.ground, 4});
  painter_.drawRect(box);
  painter_.setPen(QPen{theme_.text, 2});
  painter_.drawRect(box);
  partners(rows, found);
  painter_.restore();
}

// Lines to the other ranks that take part in the same transfer: it ran at the same time on all.
void TimelinePainter::partners(const std::vector<Row>& rows, const StripAt& of) {
  if (of.row->computes) return;
  const std::int64_t begin = of.strip->begin[of.span];
  const std::int64_t end = of.strip->end[of.span];
  const double x = canvas_.x_of(static_cast<double>(begin));
  const double y = canvas_.y_of(*of.row) + of.row->height / 2.0;
  painter_.setPen(QPen{theme_.text, 1.5});
  painter_.setBrush(theme_.text);
  for (const Row& row : rows) {
    if (row.computes || row.group == of.row->group) continue;
    for (const Strip* strip : row.strips) {
      const auto found = std::lower_bound(strip->begin.begin(), strip->begin.end(), begin);
      const auto span = static_cast<std::size_t>(found - strip->begin.begin());
      if (span >= strip->size() || strip->begin[span] != begin || strip->end[span] != end) continue;
      const double to = canvas_.y_of(row) + row.height / 2.0;
      painter_.drawLine(QPointF{x, y}, QPointF{x, to});
      const double tip = to > y ? -5 : 5;
      painter_.drawPolygon(QPolygonF{{{x, to}, {x - 3, to + tip}, {x + 3, to + tip}}});
    }
  }
}

void TimelinePainter::axis(const QRect& area) {
  painter_.fillRect(area, theme_.panel);
  painter_.setPen(theme_.muted);
  for (const double time : tick_times(canvas_.window, canvas_.area.width(), 110)) {
    const int x = static_cast<int>(canvas_.x_of(time));
    painter_.drawLine(x, area.bottom() - 4, x, area.bottom());
    const QString text = time_text(time, canvas_.window.length());
    const int width = QFontMetrics{painter_.font()}.horizontalAdvance(text);
    const int left = std::clamp(x - width / 2, canvas_.area.left(),
                                std::max(canvas_.area.left(), area.right() - width - 2));
    painter_.drawText(left, area.bottom() - 7, text);
  }
}

StripAt find_operator(const std::vector<Row>& rows, const OperatorAt& at) {
  for (const Row& row : rows) {
    if (row.group->track != at.track) continue;
    for (const Strip* strip : row.strips) {
      // A strip has the operators of one stream in issue order.
      const auto found = std::lower_bound(strip->op.begin(), strip->op.end(), at.op);
      if (found != strip->op.end() && *found == at.op)
        return {&row, strip, static_cast<std::size_t>(found - strip->op.begin())};
    }
  }
  return {};
}

std::vector<double> tick_times(const TimeWindow& window, int width, int least_distance) {
  const double least = window.length() * least_distance / std::max(1, width);
  double step = std::pow(10, std::floor(std::log10(std::max(1.0, least))));
  for (const double factor : {1.0, 2.0, 5.0, 10.0})
    if (step * factor >= least) {
      step *= factor;
      break;
    }
  std::vector<double> times;
  for (double time = std::ceil(window.from / step) * step; time <= window.to; time += step)
    times.push_back(time);
  return times;
}

QString time_text(double ps, double window_length) {
  struct Unit {
    double size;
    const char* name;
  };
  constexpr Unit units[] = {{1e12, "s"}, {1e9, "ms"}, {1e6, "µs"}, {1e3, "ns"}};
  const double scale = std::max(std::abs(ps), window_length / 4);
  for (const Unit& unit : units) {
    if (scale < unit.size && unit.size > 1e3) continue;
    const int digits =
        std::clamp(static_cast<int>(std::ceil(std::log10(unit.size / window_length))) + 2, 0, 9);
    return QString{"%1 %2"}.arg(ps / unit.size, 0, 'f', digits).arg(QString::fromUtf8(unit.name));
  }
  return {};
}

}  // namespace ui
