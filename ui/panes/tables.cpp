#include "ui/panes/tables.hpp"

#include <QHeaderView>

#include "sim/base/quantity.hpp"
#include "sim/report/numbers.hpp"
#include "ui/core/csv.hpp"
#include "ui/core/words.hpp"
#include "ui/lanes/area_sums.hpp"

namespace ui {
namespace {

class NumberItem : public QTableWidgetItem {
 public:
  explicit NumberItem(const Cell& cell) : QTableWidgetItem{cell.text}, number_{cell.number} {
    setTextAlignment(Qt::AlignRight | Qt::AlignVCenter);
  }
  bool operator<(const QTableWidgetItem& other) const override {
    const auto* number = dynamic_cast<const NumberItem*>(&other);
    return number ? number_ < number->number_ : QTableWidgetItem::operator<(other);
  }

 private:
  double number_;
};

Cell text_cell(const std::string& value) {
  return {QString::fromStdString(value), 0, false};
}
Cell words(std::string_view value) {
  return {spaced(value), 0, false};
}
Cell number(double value, const QString& shown) {
  return {shown, value, true};
}
Cell time(sim::Duration value) {
  return number(sim::to_seconds(value), QString::fromStdString(sim::precise(value)));
}
Cell percent(double share) {
  return number(share, QString{"%1 %"}.arg(100 * share, 0, 'f', 1));
}

Rows collectives(const Result& result) {
  Rows rows;
  for (const sim::CollectiveSummary& row : result.forecast.report.collectives) {
    const double bandwidth = sim::algorithm_bandwidth(row);
    const sim::Duration all{row.mean_time.count() * static_cast<std::int64_t>(row.count)};
    rows.push_back({words(sim::word(row.kind)), words(sim::word(row.group)),
                    text_cell(row.algorithm), number(row.ranks, QString::number(row.ranks)),
                    number(static_cast<double>(row.count), QString::number(row.count)),
                    number(static_cast<double>(row.bytes.count()),
                           QString::fromStdString(sim::to_text(row.bytes))),
                    time(row.mean_time), time(all),
                    number(bandwidth, QString::fromStdString(sim::to_text(
                                          sim::Bandwidth::bytes_per_second(bandwidth))))});
  }
  return rows;
}

Rows links(const Result& result) {
  Rows rows;
  const sim::Report& report = result.forecast.report;
  for (std::size_t i = 0; i < report.busiest_links.size(); ++i) {
    const sim::LinkLoad& link = report.busiest_links[i];
    rows.push_back({text_cell(report.link_names[i]),
                    number(link.represents, QString::number(link.represents)),
                    number(report.link_capacities[i].in_bytes_per_second(),
                           QString::fromStdString(sim::to_text(report.link_capacities[i]))),
                    number(static_cast<double>(link.carried.count()),
                           QString::fromStdString(sim::to_text(link.carried))),
                    time(link.busy), percent(sim::link_use(report, i))});
  }
  return rows;
}

Rows operators(const Result& result) {
  Rows rows;
  const AreaSums sums = area_sums(*result.forecast.plan, result.lanes, 0, result.lanes.end);
  const double ranks = static_cast<double>(result.lanes.groups.size());
  for (const NameSum& sum : sums.names) {
    const sim::Duration mean{sum.time /
                             static_cast<std::int64_t>(std::max<std::uint64_t>(1, sum.count))};
    const sim::Duration each{sum.time / std::max<std::int64_t>(1, std::ssize(result.lanes.groups))};
    rows.push_back(
        {text_cell(sum.name), words(sum.pass),
         number(static_cast<double>(sum.count) / ranks,
                QString::number(static_cast<double>(sum.count) / ranks, 'f', 1)),
         time(mean), time(each),
         percent(sim::to_seconds(each) / sim::to_seconds(result.forecast.report.step_time))});
  }
  return rows;
}

}  // namespace

ResultTable::ResultTable(Session& session, const QString& name, const QStringList& columns,
                         Fill fill, QWidget* parent)
    : QTableWidget{0, static_cast<int>(columns.size()), parent},
      session_{session},
      fill_{std::move(fill)} {
  setAccessibleName(name);
  setHorizontalHeaderLabels(columns);
  verticalHeader()->hide();
  verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
  setEditTriggers(QAbstractItemView::NoEditTriggers);
  setSelectionBehavior(QAbstractItemView::SelectRows);
  setAlternatingRowColors(true);
  setShowGrid(false);
  horizontalHeader()->setStretchLastSection(false);
  horizontalHeader()->setHighlightSections(false);
  setSortingEnabled(true);
  sortByColumn(-1, Qt::AscendingOrder);  // as the report has them
  connect(&session_, &Session::result_changed, this, &ResultTable::refresh);
}

void ResultTable::showEvent(QShowEvent* event) {
  refresh();
  QTableWidget::showEvent(event);
}

void ResultTable::refresh() {
  if (!isVisible() || !session_.result() || shown_ == session_.result()) return;
  shown_ = session_.result();
  const Rows rows = fill_(*shown_);
  setSortingEnabled(false);
  setRowCount(static_cast<int>(rows.size()));
  for (int row = 0; row < rowCount(); ++row)
    for (int column = 0; column < columnCount(); ++column) {
      const Cell& cell = rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
      setItem(row, column, cell.numeric ? new NumberItem{cell} : new QTableWidgetItem{cell.text});
    }
  setSortingEnabled(true);
  resizeColumnsToContents();
}

QString ResultTable::csv() const {
  return csv_of(*this);
}

ResultTable* make_collectives_table(Session& session) {
  return new ResultTable{session,
                         ResultTable::tr("Collectives"),
                         {"collective", "group", "algorithm", "ranks", "per rank", "buffer",
                          "mean time", "in all", "algorithm bandwidth"},
                         collectives};
}

ResultTable* make_links_table(Session& session) {
  return new ResultTable{session,
                         ResultTable::tr("Busiest links"),
                         {"link", "like it", "capacity", "carried", "busy", "use"},
                         links};
}

ResultTable* make_operators_table(Session& session) {
  return new ResultTable{
      session,
      ResultTable::tr("Operators by name"),
      {"operator", "pass", "per rank", "mean time", "per rank in all", "of step"},
      operators};
}

}  // namespace ui
