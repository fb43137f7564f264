#include "ui/validate/operator_table.hpp"

#include <array>
#include <cmath>

#include "sim/report/numbers.hpp"
#include "ui/core/words.hpp"

namespace ui {
namespace {

QString operator_time(double seconds) {
  return QString::fromStdString(sim::precise(sim::duration_from_seconds(seconds)));
}

QString signed_time(double seconds) {
  if (seconds == 0) return "0";
  return (seconds < 0 ? "−" : "+") + operator_time(std::abs(seconds));
}

}  // namespace

OperatorTable::OperatorTable(QObject* parent) : QAbstractTableModel{parent} {}

void OperatorTable::set_rows(std::vector<sim::OperatorRow> rows, bool traced) {
  beginResetModel();
  traced_ = traced;
  rows_ = std::move(rows);
  endResetModel();
}

std::optional<int> OperatorTable::find(const std::string& wanted, sim::Pass of) const {
  for (std::size_t i = 0; i < rows_.size(); ++i)
    if (rows_[i].name == wanted && rows_[i].pass == of) return static_cast<int>(i);
  return std::nullopt;
}

int OperatorTable::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int OperatorTable::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : column_count;
}

double OperatorTable::number(const sim::OperatorRow& row, Column column) const {
  switch (column) {
    case count_a:
      return row.count_a;
    case count_b:
      return row.count_b;
    case mean_a:
      return row.mean.a;
    case mean_b:
      return row.mean.b;
    case total_a:
      return row.total.a;
    case total_b:
      return row.total.b;
    case difference:
      return row.total.difference();
    case share:
      return row.share;
    case name:
    case pass:
    case column_count:
      break;
  }
  return 0;
}

QString OperatorTable::text(const sim::OperatorRow& row, Column column) const {
  const double value = number(row, column);
  switch (column) {
    case name:
      return QString::fromStdString(row.name);
    case pass:
      if (traced_ && row.count_a == 0) return tr("not in the forecast");
      return spaced(sim::word(row.pass));
    case count_a:
    case count_b:
      return QString::number(value, 'f', value == std::floor(value) ? 0 : 1);
    case difference:
      return signed_time(value);
    case share:
      return QString{"%1 %"}.arg(100 * value, 0, 'f', 1);
    case mean_a:
    case total_a:
      return row.count_a > 0 ? operator_time(value) : QString{};
    case mean_b:
    case total_b:
      return row.count_b > 0 ? operator_time(value) : QString{};
    case column_count:
      break;
  }
  return {};
}

QVariant OperatorTable::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const auto column = static_cast<Column>(index.column());
  const sim::OperatorRow& of = row(index.row());
  const bool numeric = column > pass;
  if (role == Qt::DisplayRole) return text(of, column);
  if (role == Qt::ToolTipRole && column == name) return text(of, column);
  if (role == sort_role) return numeric ? QVariant{number(of, column)} : text(of, column);
  if (role == Qt::TextAlignmentRole)
    return int(numeric ? Qt::AlignRight | Qt::AlignVCenter : Qt::AlignLeft | Qt::AlignVCenter);
  return {};
}

QVariant OperatorTable::headerData(int section, Qt::Orientation orientation, int role) const {
  struct Head {
    QString title, help;
  };
  static const std::array<Head, column_count> heads{{
      {tr("operator"), {}},
      {tr("pass"), {}},
      {tr("count forecast"), tr("Per rank")},
      {tr("count run"), tr("Per rank")},
      {tr("mean forecast"), tr("Of one operator, without waiting for partners")},
      {tr("mean run"), tr("Of one operator, without waiting for partners")},
      {tr("total forecast"), tr("Of a rank, over the step")},
      {tr("total run"), tr("Of a rank, over the step")},
      {tr("run − forecast"), tr("Of the totals")},
      {tr("share of difference"),
       tr("Of all that operators of the run take longer or shorter, summed without sign")},
  }};
  if (orientation != Qt::Horizontal || section < 0 || section >= column_count) return {};
  const Head& head = heads[static_cast<std::size_t>(section)];
  if (role == Qt::DisplayRole) return head.title;
  if (role == Qt::ToolTipRole) return head.help;
  return {};
}

}  // namespace ui
