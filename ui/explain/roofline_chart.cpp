#include "ui/explain/roofline_chart.hpp"

#include <QEvent>
#include <QLegend>
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "sim/base/table_text.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

constexpr double large = 0.02;  // of a step: kernels that take more have larger markers
constexpr double small_marker = 7, large_marker = 13;
constexpr std::array markers{Marker::disc, Marker::square, Marker::diamond, Marker::triangle,
                             Marker::cross};
constexpr std::array inks{sim::Ink::forward, sim::Ink::data, sim::Ink::backward, sim::Ink::pipeline,
                          sim::Ink::recompute};

// Powers of ten around values.
class Decades {
 public:
  void add(double value) {
    if (value <= 0) return;
    first_ = any_ ? std::min(first_, value) : value;
    last_ = any_ ? std::max(last_, value) : value;
    any_ = true;
  }
  double low() const { return any_ ? std::pow(10.0, std::floor(std::log10(first_))) : 1; }
  double high() const {
    return std::max(10 * low(), any_ ? std::pow(10.0, std::ceil(std::log10(last_))) : 10);
  }

 private:
  bool any_ = false;
  double first_ = 1, last_ = 1;
};

QString number(double value) {
  return QString::fromStdString(sim::significant(value));
}

}  // namespace

RooflineChart::RooflineChart(QWidget* parent) : Scatter{tr("Roofline of the kernels"), parent} {
  set_describe([this](const ScatterAt& at) { return text_of(point_at(at)); });
  connect(this, &Scatter::chosen, this, [this](const ScatterAt& at) {
    Q_EMIT kernel_chosen(QString::fromStdString(point_at(at).name));
  });
  plot().legend()->setAlignment(Qt::AlignRight);  // names would be cut in a row
  show_roofline(nullptr);
}

void RooflineChart::show_roofline(ExplanationPtr explanation) {
  explanation_ = std::move(explanation);
  set_empty_text(explanation_ ? tr("The trace tells the FLOPs of no kernel. Record shapes: "
                                   "profile(record_shapes=True).")
                              : QString{});
  refresh();
}

const sim::RooflinePoint& RooflineChart::point_at(const ScatterAt& at) const {
  return explanation_->roofline
      .points[places_[static_cast<std::size_t>(at.set)][static_cast<std::size_t>(at.point)]];
}

const sim::RooflinePoint* RooflineChart::point() const {
  return selected() ? &point_at(*selected()) : nullptr;
}

std::size_t RooflineChart::point_count() const {
  std::size_t count = 0;
  for (const std::vector<std::size_t>& set : places_)
    count += set.size();
  return count;
}

double RooflineChart::rate_unit() const {
  double most = 0;
  for (const sim::RooflinePoint& point : explanation_->roofline.points)
    most = std::max(most, point.flop_rate());
  for (const sim::RooflineLine& line : explanation_->roofline.compute)
    most = std::max(most, line.peak.in_flops_per_second());
  return most < 1e12 ? 1e9 : 1e12;
}

QString RooflineChart::text_of(const sim::RooflinePoint& point) const {
  const double unit = rate_unit();
  QString text = QString::fromStdString(point.name);
  if (!point.shape.empty()) text += QString{" [%1]"}.arg(QString::fromStdString(point.shape));
  text += tr(", %1: %2 %3 at %4 FLOP per byte")
              .arg(to_qstring(sim::word(point.dtype)), number(point.flop_rate() / unit),
                   unit < 1e12 ? "GFLOP/s" : "TFLOP/s", number(point.intensity()));
  if (point.of_roof > 0)
    text += tr(", %1 % of what %2 allows")
                .arg(100 * point.of_roof, 0, 'f', 0)
                .arg(point.memory_bound ? tr("the memory") : tr("the compute rate"));
  const double share = explanation_->mean.step > 0 ? point.seconds / explanation_->mean.step : 0;
  return text +
         tr("; %1 of a step (%2 %), %3 times")
             .arg(QString::fromStdString(sim::precise(sim::duration_from_seconds(point.seconds))))
             .arg(100 * share, 0, 'f', 1)
             .arg(number(point.count));
}

// A set for each category, and one more for those that take much of the step: larger.
void RooflineChart::refresh() {
  places_.clear();
  if (!explanation_) {
    set_sets({});
    return set_lines({});
  }
  const sim::Roofline& roofline = explanation_->roofline;
  std::map<std::pair<std::string, bool>, std::vector<std::size_t>> by_set;
  for (std::size_t i = 0; i < roofline.points.size(); ++i) {
    const sim::RooflinePoint& point = roofline.points[i];
    if (point.flops > 0 && point.seconds > 0)
      by_set[{point.category, point.seconds >= large * explanation_->mean.step}].push_back(i);
  }
  show_lines();
  const Theme& theme = theme_of(*this);
  std::map<std::string, std::size_t> styles;  // by category
  for (const auto& [key, of] : by_set)
    styles.emplace(key.first, styles.size());
  std::vector<ScatterSet> sets;
  for (auto& [key, of] : by_set) {
    const std::size_t style = styles[key.first];
    const bool named = key.second || !by_set.contains({key.first, true});  // once in the legend
    ScatterSet set{named ? QString::fromStdString(key.first) : QString{},
                   markers[style % markers.size()],
                   theme.ink[static_cast<std::size_t>(inks[style % inks.size()])],
                   key.second ? large_marker : small_marker,
                   {}};
    for (const std::size_t i : of)
      set.points.append(
          {roofline.points[i].intensity(), roofline.points[i].flop_rate() / rate_unit()});
    sets.push_back(std::move(set));
    places_.push_back(std::move(of));
  }
  set_sets(sets);
}

// The memory's line rises to the highest rate; each rate's begins where it meets the memory's.
void RooflineChart::show_lines() {
  const sim::Roofline& roofline = explanation_->roofline;
  const double unit = rate_unit();
  const double memory = roofline.memory.in_bytes_per_second() / unit;
  Decades x, y;
  for (const sim::RooflinePoint& point : roofline.points) {
    if (point.flops <= 0) continue;
    x.add(point.intensity());
    y.add(point.flop_rate() / unit);
  }
  double highest = 0;
  for (const sim::RooflineLine& line : roofline.compute) {
    const double peak = line.peak.in_flops_per_second() / unit;
    highest = std::max(highest, peak);
    if (memory > 0) x.add(peak / memory);
    y.add(peak);
  }
  set_axes({tr("arithmetic intensity, FLOP per byte"), x.low(), x.high(), true},
           {unit < 1e12 ? tr("rate, GFLOP/s") : tr("rate, TFLOP/s"), y.low(), y.high(), true});
  const Theme& theme = theme_of(*this);
  std::vector<ScatterLine> lines;
  if (memory > 0) {
    const double from = std::max(x.low(), y.low() / memory);
    const double to = highest > 0 ? highest / memory : std::min(x.high(), y.high() / memory);
    if (to > from)
      lines.push_back(
          {tr("memory %1 GB/s").arg(number(roofline.memory.in_bytes_per_second() / 1e9)),
           theme.text,
           Qt::SolidLine,
           1.5,
           {{from, from * memory}, {to, to * memory}}});
  }
  constexpr std::array styles{Qt::DashLine, Qt::DotLine, Qt::DashDotLine};
  for (std::size_t i = 0; i < roofline.compute.size(); ++i) {
    const double peak = roofline.compute[i].peak.in_flops_per_second() / unit;
    lines.push_back({QString{"%1 %2 %3"}.arg(to_qstring(sim::word(roofline.compute[i].dtype)),
                                             number(peak), unit < 1e12 ? "GFLOP/s" : "TFLOP/s"),
                     theme.text,
                     styles[i % styles.size()],
                     1.5,
                     {{memory > 0 ? peak / memory : x.low(), peak}, {x.high(), peak}}});
  }
  set_lines(lines);
}

void RooflineChart::changeEvent(QEvent* event) {
  Scatter::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) refresh();
}

QString RooflineChart::csv() const {
  QString text = "kernel,shape,dtype,category,count,time_s,flop_per_s,flop_per_byte,of_roof\n";
  if (!explanation_) return text;
  for (const sim::RooflinePoint& point : explanation_->roofline.points) {
    QStringList cells{QString::fromStdString(sim::csv_field(point.name)),
                      QString::fromStdString(point.shape), to_qstring(sim::word(point.dtype)),
                      QString::fromStdString(sim::csv_field(point.category))};
    for (const double value :
         {point.count, point.seconds, point.flop_rate(), point.intensity(), point.of_roof})
      cells << QString::number(value, 'g', 10);
    text += cells.join(',') + '\n';
  }
  return text;
}

}  // namespace ui
