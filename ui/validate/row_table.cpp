#include "ui/validate/row_table.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/report/numbers.hpp"
#include "sim/rows/csv.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

QString time_text(sim::Duration time) {
  return QString::fromStdString(sim::precise(time));
}

// A row whose scenario could not be made has no more than what its cells say.
QString cell_of(const sim::MeasuredRow& row, std::string_view column) {
  return row.cells ? to_qstring((*row.cells)[column]) : QString{};
}

QString measured_text(const sim::MeasuredRow& row) {
  if (row.has_time()) return time_text(row.measured);
  return row.outcome == sim::Outcome::out_of_memory ? QStringLiteral("out of memory") : QString{};
}

// note_of() is what there is to say of a row beside its times.
QString note_of(const sim::RowResult& result) {
  if (!result.row.unreadable.empty())
    return RowTable::tr("unreadable: %1").arg(to_qstring(result.row.unreadable));
  if (!result.prediction) return RowTable::tr("skipped: %1").arg(to_qstring(result.skipped));
  QStringList notes;
  if (result.row.outcome == sim::Outcome::out_of_memory)
    notes << (result.prediction->fits ? RowTable::tr("forecast: fits, which is wrong")
                                      : RowTable::tr("forecast: does not fit, as measured"));
  else if (result.row.outcome == sim::Outcome::ran && !result.prediction->fits)
    notes << RowTable::tr("forecast: does not fit, which is wrong");
  if (result.row.has_memory())
    notes << RowTable::tr("memory %1").arg(error_text(result.memory_error()));
  return notes.join("; ");
}

constexpr double nowhere = std::numeric_limits<double>::infinity();

}  // namespace

QString use_text(sim::RowUse use) {
  return use == sim::RowUse::score ? RowTable::tr("held-out") : RowTable::tr("calibration");
}

QString error_text(double error) {
  return QString{"%1%2 %"}.arg(error < 0 ? "−" : "+").arg(std::abs(100 * error), 0, 'f', 1);
}

RowState state_of(const RowResultPtr& result) {
  if (!result) return RowState::waiting;
  if (!result->prediction) return RowState::skipped;
  return result->row.has_time() ? RowState::timed : RowState::memory_only;
}

RowTable::RowTable(QObject* parent) : QAbstractTableModel{parent} {}

void RowTable::set_sets(SetsPtr sets) {
  beginResetModel();
  sets_ = std::move(sets);
  rows_ = rows_of(*sets_);
  results_.assign(rows_.size(), nullptr);
  done_ = 0;
  endResetModel();
}

void RowTable::set_result(std::size_t place, RowResultPtr result) {
  if (!results_[place]) ++done_;
  results_[place] = std::move(result);
  const int at = static_cast<int>(place);
  Q_EMIT dataChanged(index(at, 0), index(at, column_count - 1));
}

std::vector<std::size_t> RowTable::waiting() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < results_.size(); ++i)
    if (!results_[i]) places.push_back(i);
  return places;
}

const sim::MeasuredRow& RowTable::row(std::size_t place) const {
  return set_of(place).rows[rows_[place].row];
}

QString RowTable::text(std::size_t place, Column column) const {
  const sim::MeasuredRow& of = row(place);
  const RowResultPtr& result = results_[place];
  const sim::Prediction* prediction = result && result->prediction ? &*result->prediction : nullptr;
  switch (column) {
    case id:
      return to_qstring(of.id);
    case set:
      return to_qstring(set_of(place).name);
    case gpu:
      return prediction ? to_qstring(prediction->device) : cell_of(of, "gpu");
    case gpus:
      return prediction ? to_qstring(sim::grouped(static_cast<std::uint64_t>(prediction->gpus)))
                        : cell_of(of, "num_gpus");
    case framework:
      return prediction ? to_qstring(sim::word(prediction->framework)) : QString{};
    case use:
      return use_text(of.use);
    case measured:
      return measured_text(of);
    case predicted:
      return prediction && prediction->time > sim::Duration{} ? time_text(prediction->time)
                                                              : QString{};
    case error:
      return prediction && of.has_time() ? error_text(result->error()) : QString{};
    case note:
      return result ? note_of(*result) : QString{};
    case column_count:
      break;
  }
  return {};
}

double RowTable::number(std::size_t place, Column column) const {
  const RowResultPtr& result = results_[place];
  const bool known = result && result->prediction;
  if (column == measured)
    return row(place).has_time() ? sim::to_seconds(row(place).measured) : nowhere;
  if (!known) return nowhere;
  if (column == gpus) return result->prediction->gpus;
  if (column == predicted) return sim::to_seconds(result->prediction->time);
  return row(place).has_time() ? result->error() : nowhere;
}

int RowTable::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int RowTable::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : column_count;
}

QVariant RowTable::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const auto place = static_cast<std::size_t>(index.row());
  const auto column = static_cast<Column>(index.column());
  const bool numeric =
      column == gpus || column == measured || column == predicted || column == error;
  switch (role) {
    case Qt::DisplayRole:
      return text(place, column);
    case sort_role:
      return numeric ? QVariant{number(place, column)} : QVariant{text(place, column)};
    case Qt::TextAlignmentRole:
      return int(numeric ? Qt::AlignRight | Qt::AlignVCenter : Qt::AlignLeft | Qt::AlignVCenter);
    case Qt::ToolTipRole:
      if (column == set) return to_qstring(set_of(place).title);
      return column == id || column == note ? QVariant{text(place, column)} : QVariant{};
    default:
      return {};
  }
}

QVariant RowTable::headerData(int section, Qt::Orientation orientation, int role) const {
  struct Head {
    QString title, help;
  };
  static const std::array<Head, column_count> heads{{
      {tr("row"), tr("Name of the row in its set")},
      {tr("measured"), tr("Time of a step, or of a layer where the set says so")},
      {tr("forecast"), tr("The same, simulated")},
      {tr("error"), tr("(forecast − measured) / measured")},
      {tr("GPU"), tr("The device that the forecast is of")},
      {tr("GPUs"), {}},
      {tr("framework"), {}},
      {tr("use"), tr("Held-out rows are scored; on calibration rows parameters were fitted")},
      {tr("set"), tr("Where it was published: validation/published")},
      {tr("note"), tr("Memory, and why a row has no forecast")},
  }};
  if (orientation != Qt::Horizontal || section < 0 || section >= column_count) return {};
  const Head& head = heads[static_cast<std::size_t>(section)];
  if (role == Qt::DisplayRole) return head.title;
  if (role == Qt::ToolTipRole) return head.help;
  return {};
}

FilteredRows::FilteredRows(RowTable& table, QObject* parent)
    : QSortFilterProxyModel{parent}, table_{table} {
  setSortRole(RowTable::sort_role);
  setSourceModel(&table_);
}

void FilteredRows::set_filter(const RowFilter& filter) {
  if (filter == filter_) return;
  filter_ = filter;
  invalidateFilter();
}

bool FilteredRows::accepts(std::size_t place) const {
  const auto is = [&](const QString& wanted, RowTable::Column column) {
    return wanted.isEmpty() || wanted == table_.text(place, column);
  };
  return is(filter_.set, RowTable::set) && is(filter_.gpu, RowTable::gpu) &&
         is(filter_.framework, RowTable::framework) && is(filter_.use, RowTable::use) &&
         (!filter_.state || *filter_.state == state_of(table_.result(place)));
}

bool FilteredRows::filterAcceptsRow(int row, const QModelIndex&) const {
  return accepts(static_cast<std::size_t>(row));
}

std::vector<std::size_t> FilteredRows::places() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < table_.size(); ++i)
    if (accepts(i)) places.push_back(i);
  return places;
}

sim::SetScore FilteredRows::score(sim::RowUse use) const {
  std::vector<sim::RowResult> results;
  for (const std::size_t place : places()) {
    const RowResultPtr& result = table_.result(place);
    if (!result || result->row.use != use) continue;
    // `light` has what score() looks at, without the cells of the row. score() scores what is
    // called held-out.
    sim::RowResult& light = results.emplace_back();
    light.row.use = sim::RowUse::score;
    light.row.outcome = result->row.outcome;
    light.row.measured = result->row.measured;
    light.row.memory = result->row.memory;
    light.row.activation_share = result->row.activation_share;
    light.row.unreadable = result->row.unreadable;
    light.prediction = result->prediction;
  }
  return sim::score(results);
}

QString FilteredRows::csv() const {
  QString text;
  const auto add = [&](const QVariant& cell, int column) {
    if (column > 0) text += ',';
    text += QString::fromStdString(sim::csv_cell(cell.toString().toStdString()));
  };
  static const std::array<const char*, RowTable::column_count> heads{
      "row_id", "measured_s", "forecast_s", "error", "gpu",
      "gpus",   "framework",  "use",        "set",   "note"};
  for (int column = 0; column < columnCount(); ++column)
    add(QString{heads[static_cast<std::size_t>(column)]}, column);
  text += '\n';
  for (int row = 0; row < rowCount(); ++row) {
    for (int column = 0; column < columnCount(); ++column) {
      const QModelIndex at = index(row, column);
      const QVariant sorted = at.data(RowTable::sort_role);
      // Numbers as they are, for people and programs that read tables.
      const bool number = sorted.typeId() == QMetaType::Double;
      add(number ? (std::isfinite(sorted.toDouble()) ? QString::number(sorted.toDouble(), 'g', 17)
                                                     : QString{})
                 : at.data(Qt::DisplayRole),
          column);
    }
    text += '\n';
  }
  return text;
}

}  // namespace ui
