#include "ui/explain/waterfall_tree.hpp"

#include <QEvent>
#include <QHeaderView>
#include <algorithm>
#include <utility>

#include "sim/base/table_text.hpp"
#include "sim/explain/waterfall_words.hpp"
#include "ui/core/words.hpp"
#include "ui/explain/waterfall_bar.hpp"

namespace ui {
namespace {

constexpr int part_role = Qt::UserRole + 3, item_role = Qt::UserRole + 4;  // of the first column

QString length_text(sim::Duration time) {
  return QString::fromStdString(sim::precise(time));
}

QString signed_text(sim::Duration time) {
  return time < sim::Duration{} ? "−" + length_text(-time) : "+" + length_text(time);
}

void set_bar(QTreeWidgetItem& row, WaterfallBar kind, sim::Duration from, sim::Duration to) {
  row.setData(WaterfallTree::bar, bar_kind_role, static_cast<int>(kind));
  row.setData(WaterfallTree::bar, bar_from_role, sim::to_seconds(from));
  row.setData(WaterfallTree::bar, bar_to_role, sim::to_seconds(to));
  row.setData(WaterfallTree::bar, Qt::AccessibleTextRole,
              kind == WaterfallBar::none
                  ? QString{}
                  : WaterfallTree::tr("from %1 to %2").arg(length_text(from), length_text(to)));
}

}  // namespace

WaterfallTree::WaterfallTree(QWidget* parent) : QTreeWidget{parent} {
  setAccessibleName(tr("Waterfall of the difference"));
  setColumnCount(column_count);
  setHeaderLabels(
      {tr("cause"), tr("forecast to measured"), tr("time"), tr("of the step"), tr("rate")});
  headerItem()->setToolTip(rate, tr("Of the forecast's: below 100 % it runs slower"));
  for (const int column : {time, of_step, rate})
    headerItem()->setTextAlignment(column, Qt::AlignRight | Qt::AlignVCenter);
  setItemDelegateForColumn(bar, new WaterfallBarDelegate{this});
  setUniformRowHeights(true);
  setSelectionMode(QAbstractItemView::SingleSelection);
  setAllColumnsShowFocus(true);
  setTextElideMode(Qt::ElideRight);
  header()->setStretchLastSection(false);
  header()->setSectionsMovable(false);
  header()->setMinimumSectionSize(24);
  setMinimumSize(260, 120);
  connect(this, &QTreeWidget::currentItemChanged, this, &WaterfallTree::selected_changed);
  connect(this, &QTreeWidget::itemActivated, this, &WaterfallTree::activated_again);
}

void WaterfallTree::show_waterfall(ExplanationPtr explanation) {
  explanation_ = std::move(explanation);
  fill();
}

QTreeWidgetItem* WaterfallTree::add(QTreeWidgetItem* parent, const QString& name,
                                    sim::Duration length, const QString& help) {
  auto* row = new QTreeWidgetItem;
  row->setText(cause, name);
  row->setToolTip(cause, help);
  row->setToolTip(bar, help);
  row->setText(time, length_text(length));
  const double share = sim::to_seconds(length) / sim::to_seconds(explanation_->waterfall->measured);
  row->setText(of_step, QString{"%1 %"}.arg(100 * share, 0, 'f', 1).replace('-', "−"));
  for (const int column : {time, of_step, rate})
    row->setTextAlignment(column, Qt::AlignRight | Qt::AlignVCenter);
  if (parent)
    parent->addChild(row);
  else
    addTopLevelItem(row);
  return row;
}

void WaterfallTree::fill() {
  const std::optional<CauseAt> was = selected();
  const QSignalBlocker quiet{this};
  clear();
  if (!explanation_ || !explanation_->waterfall) return;
  const sim::Waterfall& waterfall = *explanation_->waterfall;
  headerItem()->setText(bar, tr("forecast to measured: rank %1, %2")
                                 .arg(waterfall.rank.value)
                                 .arg(QString::fromStdString(waterfall.step)));
  const auto whole = [&](const QString& name, sim::Duration length, const QString& help) {
    QTreeWidgetItem* row = add(nullptr, name, length, help);
    set_bar(*row, WaterfallBar::whole, {}, length);
    QFont bold = font();
    bold.setBold(true);
    for (const int column : {cause, time})
      row->setFont(column, bold);
  };
  whole(tr("forecast"), waterfall.forecast, tr("The step of the forecast"));
  sim::Duration at = waterfall.forecast;
  sim::Duration least = std::min(waterfall.forecast, waterfall.measured),
                most = std::max(waterfall.forecast, waterfall.measured);
  for (std::size_t p = 0; p < waterfall.parts.size(); ++p) {
    const sim::WaterfallPart& part = waterfall.parts[p];
    QTreeWidgetItem* row = add(nullptr, to_qstring(sim::cause_words(part)), part.time,
                               QString::fromStdString(part.sentence));
    row->setText(time, signed_text(part.time));
    row->setData(cause, part_role, static_cast<int>(p));
    set_bar(*row, part.time < sim::Duration{} ? WaterfallBar::less : WaterfallBar::more, at,
            at + part.time);
    at += part.time;
    least = std::min(least, at);
    most = std::max(most, at);
    for (std::size_t i = 0; i < part.items.size(); ++i) {
      const sim::WaterfallItem& of = part.items[i];
      QTreeWidgetItem* item =
          add(row, QString::fromStdString(of.name), of.time, QString::fromStdString(of.name));
      item->setText(time, signed_text(of.time));
      item->setData(cause, part_role, static_cast<int>(p));
      item->setData(cause, item_role, static_cast<int>(i));
      set_bar(*item, WaterfallBar::none, {}, {});
      if (const std::optional<double> of_forecast = sim::rate_of(part.kind, of))
        item->setText(rate, QString{"%1 %"}.arg(100 * *of_forecast, 0, 'f', 0));
    }
  }
  whole(tr("measured"), waterfall.measured,
        tr("The step that is looked at: the one of median length, on rank %1")
            .arg(waterfall.rank.value));
  qobject_cast<WaterfallBarDelegate*>(itemDelegateForColumn(bar))
      ->set_axis(axis_of(sim::to_seconds(least), sim::to_seconds(most)));
  fit_columns();
  select(was);
}

std::optional<CauseAt> WaterfallTree::selected() const {
  const QTreeWidgetItem* row = currentItem();
  if (!row || !row->data(cause, part_role).isValid()) return std::nullopt;
  CauseAt at{row->data(cause, part_role).toULongLong()};
  if (const QVariant item = row->data(cause, item_role); item.isValid())
    at.item = item.toULongLong();
  return at;
}

void WaterfallTree::select(std::optional<CauseAt> at) {
  const int row = at ? static_cast<int>(at->part) + 1 : -1;  // below the forecast
  if (row < 0 || row + 1 >= topLevelItemCount()) return setCurrentItem(nullptr);
  QTreeWidgetItem* of = topLevelItem(row);
  if (at->item && static_cast<int>(*at->item) < of->childCount())
    of = of->child(static_cast<int>(*at->item));
  setCurrentItem(of);
}

// In a narrow tree, shares and rates give way to names; the sentence has them, too.
void WaterfallTree::fit_columns() {
  constexpr int narrow = 460;  // px
  for (const int column : {of_step, rate})
    setColumnHidden(column, width() < narrow);
  for (const int column : {time, of_step, rate})
    resizeColumnToContents(column);
  resizeColumnToContents(cause);
  const int room =
      viewport()->width() - columnWidth(time) - columnWidth(of_step) - columnWidth(rate);
  setColumnWidth(cause, std::clamp(columnWidth(cause), 60, std::max(60, room * 62 / 100)));
  setColumnWidth(bar, std::max(24, room - columnWidth(cause)));
}

void WaterfallTree::resizeEvent(QResizeEvent* event) {
  QTreeWidget::resizeEvent(event);
  fit_columns();
}

void WaterfallTree::changeEvent(QEvent* event) {
  QTreeWidget::changeEvent(event);
  if (event->type() == QEvent::FontChange) fit_columns();
}

QString WaterfallTree::csv() const {
  QString text = "cause,item,time_ps,measured_ps,forecast_ps\n";
  if (!explanation_ || !explanation_->waterfall) return text;
  for (const sim::WaterfallPart& part : explanation_->waterfall->parts)
    for (const sim::WaterfallItem& item : part.items) {
      QStringList cells{to_qstring(sim::word(part.kind)),
                        QString::fromStdString(sim::csv_field(item.name))};
      for (const sim::Duration length : {item.time, item.measured, item.forecast})
        cells << QString::number(length.count());
      text += cells.join(',') + '\n';
    }
  return text;
}

}  // namespace ui
