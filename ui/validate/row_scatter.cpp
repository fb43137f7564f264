#include "ui/validate/row_scatter.hpp"

#include <QLegend>
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "sim/base/units.hpp"

namespace ui {
namespace {

constexpr double off = 0.1;  // the lines beside the diagonal
constexpr double point_size = 8;

constexpr std::array markers{Marker::disc, Marker::square, Marker::diamond, Marker::triangle,
                             Marker::cross};
// As many as there are GPUs: small markers are told apart by their colour.
constexpr std::array inks{sim::Ink::forward,        sim::Ink::data,      sim::Ink::backward,
                          sim::Ink::pipeline,       sim::Ink::recompute, sim::Ink::optimizer,
                          sim::Ink::weight_backward};

bool drawn(const RowResultPtr& result) {
  return state_of(result) == RowState::timed && result->prediction->time > sim::Duration{};
}

double measured(const sim::RowResult& result) {
  return sim::to_seconds(result.row.measured);
}
double predicted(const sim::RowResult& result) {
  return sim::to_seconds(result.prediction->time);
}

}  // namespace

RowScatter::RowScatter(const RowTable& table, QWidget* parent)
    : Scatter{tr("Forecast over measured time"), parent}, table_{table} {
  connect(this, &Scatter::chosen, this,
          [this](const ScatterAt& at) { Q_EMIT row_chosen(place_at(at)); });
  connect(this, &Scatter::activated, this,
          [this](const ScatterAt& at) { Q_EMIT row_activated(place_at(at)); });
  set_describe([this](const ScatterAt& at) {
    const std::size_t place = place_at(at);
    return tr("%1: measured %2, forecast %3, %4")
        .arg(table_.text(place, RowTable::id), table_.text(place, RowTable::measured),
             table_.text(place, RowTable::predicted), table_.text(place, RowTable::error));
  });
  set_empty_text(tr("No row with a measured time is shown: remove a filter."));
  plot().legend()->setAlignment(Qt::AlignRight);  // names would be cut in a row
  show_axes();
}

std::size_t RowScatter::place_at(const ScatterAt& at) const {
  return places_[static_cast<std::size_t>(at.set)][static_cast<std::size_t>(at.point)];
}

std::size_t RowScatter::point_count() const {
  std::size_t count = 0;
  for (const std::vector<std::size_t>& set : places_)
    count += set.size();
  return count;
}

// One set of points per GPU, calibration rows in a set of their own: hollow and grey.
void RowScatter::show_rows(const std::vector<std::size_t>& places) {
  std::map<QString, std::vector<std::size_t>> by_gpu;
  std::vector<std::size_t> calibration;
  double least = 1, most = 10;
  bool any = false;
  for (const std::size_t place : places) {
    const RowResultPtr& result = table_.result(place);
    if (!drawn(result)) continue;
    if (result->row.use == sim::RowUse::fit)
      calibration.push_back(place);
    else
      by_gpu[table_.text(place, RowTable::gpu)].push_back(place);
    for (const double seconds : {measured(*result), predicted(*result)}) {
      least = any ? std::min(least, seconds) : seconds;
      most = any ? std::max(most, seconds) : seconds;
      any = true;
    }
  }
  first_ = static_cast<int>(std::floor(std::log10(least)));
  last_ = std::max(first_ + 1, static_cast<int>(std::ceil(std::log10(most))));
  show_axes();

  const Theme& theme = theme_of(*this);
  std::vector<ScatterSet> sets;
  places_.clear();
  const auto add = [&](const QString& name, Marker marker, const QColor& colour,
                       std::vector<std::size_t> of) {
    ScatterSet set{name, marker, colour, point_size, {}};
    for (const std::size_t place : of)
      set.points.append({measured(*table_.result(place)), predicted(*table_.result(place))});
    sets.push_back(std::move(set));
    places_.push_back(std::move(of));
  };
  add(tr("calibration"), Marker::ring, theme.muted, std::move(calibration));
  std::size_t next = 0;
  for (auto& [gpu, of] : by_gpu) {
    add(gpu, markers[next % markers.size()],
        theme.ink[static_cast<std::size_t>(inks[next % inks.size()])], std::move(of));
    ++next;
  }
  set_sets(sets);
}

void RowScatter::show_axes() {
  const double low = std::pow(10.0, first_);
  const double high = std::pow(10.0, last_);
  set_axes({tr("measured, s"), low, high, true, false},
           {tr("forecast, s"), low, high, true, false});
  const Theme& theme = theme_of(*this);
  const auto line = [&](const QString& name, double factor, Qt::PenStyle style) {
    const double from = factor < 1 ? low / factor : low;
    const double to = factor > 1 ? high / factor : high;
    return ScatterLine{name,
                       theme.muted,
                       style,
                       style == Qt::SolidLine ? 1.2 : 1.0,
                       {{from, from * factor}, {to, to * factor}}};
  };
  set_lines({line(tr("exact"), 1, Qt::SolidLine), line(tr("±10 %"), 1 + off, Qt::DashLine),
             line({}, 1 - off, Qt::DashLine)});
}

void RowScatter::select_row(std::optional<std::size_t> place) {
  if (place)
    for (std::size_t set = 0; set < places_.size(); ++set) {
      const auto found = std::find(places_[set].begin(), places_[set].end(), *place);
      if (found != places_[set].end())
        return select(
            ScatterAt{static_cast<int>(set), static_cast<int>(found - places_[set].begin())});
    }
  select(std::nullopt);
}

}  // namespace ui
