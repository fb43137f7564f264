#include "ui/choose/pareto.hpp"

#include <QHBoxLayout>
#include <QLabel>
#include <QStandardItemModel>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <set>

#include "sim/report/numbers.hpp"

namespace ui {
namespace {

enum Set : std::size_t { fits, within, too_large, best_front, set_count };

double gpus_of(const Searched& searched, const sim::Evaluation& evaluation) {
  const sim::Candidates& candidates = searched.search.candidates();
  return candidates.pipelines[candidates.all[evaluation.index].pipeline].gpus;
}

// The most that a layout may need to leave the margin: one figure per kind, where they differ.
std::set<double> margins_of(const sim::Search& search) {
  std::set<double> found;
  if (!search.specification().memory_margin.is_on()) return found;
  for (const sim::KindMargin& margin : search.ranking().margins())
    found.insert(margin.most.gib());
  return found;
}

}  // namespace

Pareto::Pareto(QWidget* parent) : QWidget{parent} {
  auto* column = new QVBoxLayout{this};
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  auto* line = new QHBoxLayout;
  line->setContentsMargins(12, 6, 12, 2);
  line->setSpacing(8);
  against_ = new QComboBox;
  against_->addItems({tr("memory"), tr("GPUs"), tr("cost per step")});
  against_->setAccessibleName(tr("Step time against"));
  against_->setToolTip(tr("Cost needs a price per GPU-hour on the left, GPUs a list of them."));
  auto* label = new QLabel{tr("Step time a&gainst")};
  label->setBuddy(against_);
  line->addWidget(label);
  line->addWidget(against_);
  line->addStretch();
  scatter_ = new Scatter{tr("Layouts: step time against memory, GPUs or cost")};
  scatter_->set_describe([this](const ScatterAt& at) { return describe(at); });
  column->addLayout(line);
  column->addWidget(scatter_, 1);
  connect(against_, &QComboBox::currentIndexChanged, this, [this] {
    scatter_->reset_zoom();
    refresh();
    Q_EMIT against_changed();
  });
  connect(scatter_, &Scatter::chosen, this, [this](const ScatterAt& at) {
    if (const SearchPoint* point = point_at(at)) {
      selected_ = point->evaluation.index;
      Q_EMIT chosen(point->evaluation);
    }
  });
  connect(scatter_, &Scatter::activated, this, [this](const ScatterAt& at) {
    if (const SearchPoint* point = point_at(at)) Q_EMIT activated(point->evaluation);
  });
}

Against Pareto::against() const {
  return static_cast<Against>(against_->currentIndex());
}

void Pareto::clear(const QString& why_empty) {
  searched_.reset();
  points_.clear();
  result_.reset();
  selected_.reset();
  sets_.clear();
  scatter_->set_sets({});
  scatter_->set_lines({});
  scatter_->set_empty_text(why_empty);
}

void Pareto::show(SearchedPtr searched, const std::vector<SearchPoint>& points,
                  SearchResultPtr result) {
  searched_ = std::move(searched);
  points_ = points;
  result_ = std::move(result);
  const sim::SearchSpecification& specification = searched_->search.specification();
  auto* items = qobject_cast<QStandardItemModel*>(against_->model());
  items->item(static_cast<int>(Against::gpus))->setEnabled(specification.space.gpus.size() > 1);
  items->item(static_cast<int>(Against::cost))
      ->setEnabled(specification.price_per_gpu_hour.has_value());
  if (!items->item(against_->currentIndex())->isEnabled()) against_->setCurrentIndex(0);
  refresh();
}

std::vector<std::uint32_t> Pareto::front() const {
  std::vector<std::uint32_t> indices;
  if (!result_) return indices;
  const auto& front = against() == Against::memory ? result_->memory_front
                      : against() == Against::gpus ? result_->gpus_front
                                                   : result_->cost_front;
  for (const sim::FrontLayout& one : front)
    indices.push_back(one.evaluation.index);
  return indices;
}

std::vector<std::pair<QPoint, sim::Evaluation>> Pareto::points_on_screen(int most) const {
  std::vector<std::pair<QPoint, sim::Evaluation>> places;
  for (std::size_t set = 0; set < sets_.size(); ++set)
    for (std::size_t i = 0; i < sets_[set].size(); ++i) {
      const SearchPoint& point = points_[sets_[set][i]];
      if (!point.evaluation.fits || static_cast<int>(places.size()) >= most) continue;
      places.emplace_back(scatter_->screen_place({static_cast<int>(set), static_cast<int>(i)}),
                          point.evaluation);
    }
  return places;
}

double Pareto::y_of(const sim::Evaluation& evaluation) const {
  if (against() == Against::memory) return evaluation.memory.gib();
  const double gpus = gpus_of(*searched_, evaluation);
  if (against() == Against::gpus) return gpus;
  return gpus * sim::to_seconds(evaluation.step_time) / 3600 *
         searched_->search.specification().price_per_gpu_hour.value_or(0);
}

QPointF Pareto::place_of(const SearchPoint& point) const {
  return {sim::in_seconds(point.step_time) / unit_, y_of(point.evaluation) * times_};
}

void Pareto::refresh() {
  if (!searched_) return;
  const Theme& theme = theme_of(*this);
  const std::vector<std::uint32_t> on_front = front();
  sets_.assign(set_count, {});
  refresh_axes();
  std::vector<ScatterSet> shown{{tr("fits"), Marker::disc, theme.accent, 8, {}},
                                {tr("within margin"), Marker::diamond, theme.warn, 10, {}},
                                {tr("too large (time ≥)"), Marker::ring, theme.bad, 8, {}},
                                {tr("front"), Marker::square, theme.good, 10, {}}};
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const SearchPoint& point = points_[i];
    if (!point.evaluation.fits && against() != Against::memory) continue;
    const bool best =
        std::find(on_front.begin(), on_front.end(), point.evaluation.index) != on_front.end();
    const Set set = best                     ? best_front
                    : !point.evaluation.fits ? too_large
                    : point.leaves_margin    ? fits
                                             : within;
    shown[set].points.append(place_of(point));
    sets_[set].push_back(i);
  }
  refresh_lines();
  scatter_->set_sets(shown);
  select(selected_);
}

void Pareto::refresh_axes() {
  times_ = 1;
  double least = 0, most = 0, top = 0, low = 0;
  for (const SearchPoint& point : points_) {
    if (!point.evaluation.fits && against() != Against::memory) continue;
    const double x = sim::in_seconds(point.step_time);
    const double y = y_of(point.evaluation);
    least = least == 0 ? x : std::min(least, x);
    most = std::max(most, x);
    top = std::max(top, y);
    low = low == 0 ? y : std::min(low, y);
  }
  unit_ = least > 0 && least < 0.5 ? 1e-3 : 1;
  const double room = std::max(0.04 * (most - least), 0.005 * most);
  const QString unit = unit_ < 1 ? tr("step time, ms") : tr("step time, s");
  const ScatterAxis x{unit, (least - room) / unit_, std::max((most + room) / unit_, 1e-9)};
  from_ = x.least - 10 * (x.most - x.least);
  to_ = x.most + 10 * (x.most - x.least);
  if (against() == Against::memory) {
    const double capacity =
        searched_->search.specification().workload.cluster.device().memory.gib();
    // Layouts far beyond the device would press all others together; so would a device that is far
    // beyond all of them.
    device_in_sight_ = top > 0.5 * capacity || top == 0;
    const double end = device_in_sight_ ? std::clamp(top, capacity, 1.6 * capacity) : 1.2 * top;
    const double begin = low > 0.6 * capacity ? std::floor(0.9 * low / 5) * 5 : 0;
    scatter_->set_axes(x, {tr("memory, GiB"), begin, 1.06 * end});
  } else if (against() == Against::gpus) {
    scatter_->set_axes(x, {tr("GPUs"), 0, std::max(1.0, 1.1 * top), false, true});
  } else {
    // The cost is of so many steps that the figures can be read.
    if (top > 0 && top < 0.01) times_ = 1000;
    scatter_->set_axes(x, {times_ > 1 ? tr("cost of 1,000 steps") : tr("cost per step"),
                           0.9 * low * times_, std::max(1e-9, 1.06 * top * times_)});
  }
}

void Pareto::refresh_lines() {
  const Theme& theme = theme_of(*this);
  std::vector<ScatterLine> lines;
  ScatterLine joined{{}, theme.good, Qt::SolidLine, 1.5, {}};
  for (const std::uint32_t index : front())
    for (const SearchPoint& point : points_)
      if (point.evaluation.index == index) joined.points.append(place_of(point));
  std::sort(joined.points.begin(), joined.points.end(),
            [](const QPointF& a, const QPointF& b) { return a.x() < b.x(); });
  lines.push_back(joined);
  if (against() == Against::memory) {
    const double capacity =
        searched_->search.specification().workload.cluster.device().memory.gib();
    const QString far = device_in_sight_ ? QString{} : tr(", above");
    lines.push_back({tr("device %1 GiB").arg(capacity, 0, 'f', 1) + far,
                     theme.bad,
                     Qt::DashLine,
                     1.5,
                     {{from_, capacity}, {to_, capacity}}});
    const std::set<double> margins = margins_of(searched_->search);
    for (const double margin : margins)
      lines.push_back({margin == *margins.begin() && device_in_sight_ ? tr("margin") : QString{},
                       theme.warn,
                       Qt::DotLine,
                       1.5,
                       {{from_, margin}, {to_, margin}}});
  }
  scatter_->set_lines(lines);
}

const SearchPoint* Pareto::point_at(const ScatterAt& at) const {
  const auto set = static_cast<std::size_t>(at.set);
  if (set >= sets_.size() || static_cast<std::size_t>(at.point) >= sets_[set].size())
    return nullptr;
  return &points_[sets_[set][static_cast<std::size_t>(at.point)]];
}

QString Pareto::describe(const ScatterAt& at) const {
  const SearchPoint* point = point_at(at);
  if (!point) return {};
  const sim::SearchSpecification& specification = searched_->search.specification();
  const sim::RankedLayout one = sim::outline(searched_->search, point->evaluation);
  const QString time = QString::fromStdString(sim::precise(point->step_time));
  QString text =
      QString::fromStdString(sim::describe(one, specification.workload.cluster.node_gpus()));
  text += "\n" + (point->evaluation.fits ? time : tr("at least %1").arg(time)) +
          tr(", %1 GiB of %2 GiB")
              .arg(point->evaluation.memory.gib(), 0, 'f', 1)
              .arg(specification.workload.cluster.device().memory.gib(), 0, 'f', 1);
  if (specification.space.gpus.size() > 1) text += tr(", %1 GPUs").arg(one.layout.world_size());
  if (!point->evaluation.fits)
    text += tr(": does not fit, and was not simulated");
  else if (!point->leaves_margin)
    text += tr(": fits, within the memory margin");
  return text;
}

void Pareto::select(std::optional<std::uint32_t> index) {
  selected_ = index;
  std::optional<ScatterAt> found;
  for (std::size_t set = 0; index && set < sets_.size(); ++set)
    for (std::size_t i = 0; i < sets_[set].size(); ++i)
      if (points_[sets_[set][i]].evaluation.index == *index)
        found = ScatterAt{static_cast<int>(set), static_cast<int>(i)};
  scatter_->select(found);
}

void Pareto::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) refresh();
}

}  // namespace ui
