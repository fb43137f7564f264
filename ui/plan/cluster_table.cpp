#include "ui/plan/cluster_table.hpp"

#include <QHeaderView>
#include <QKeyEvent>

#include "sim/config/data_files.hpp"
#include "ui/core/words.hpp"

namespace ui {

ClusterTable::ClusterTable(QWidget* parent) : QTreeWidget{parent} {
  setAccessibleName(tr("Clusters"));
  setHeaderLabels({tr("cluster"), tr("per GPU-hour")});
  headerItem()->setToolTip(price,
                           tr("As 2.50 USD. Double click, F2, or type. Of all ticked, or none."));
  setRootIsDecorated(false);
  setUniformRowHeights(true);
  setAlternatingRowColors(true);
  setEditTriggers(NoEditTriggers);
  setTabKeyNavigation(false);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  header()->setStretchLastSection(true);
  header()->setSectionsMovable(false);
  for (const std::string& name : sim::data_files("topologies"))
    add(to_qstring(name));
  connect(this, &QTreeWidget::itemDoubleClicked, this,
          [this](QTreeWidgetItem* item) { editItem(item, price); });
}

QTreeWidgetItem* ClusterTable::add(const QString& name) {
  auto* item = new QTreeWidgetItem{this, {name, QString{}}};
  item->setFlags(item->flags() | Qt::ItemIsUserCheckable | Qt::ItemIsEditable);
  item->setCheckState(cluster, Qt::Unchecked);
  item->setToolTip(cluster, name);
  return item;
}

std::vector<ClusterAsked> ClusterTable::ticked() const {
  std::vector<ClusterAsked> asked;
  for (int row = 0; row < topLevelItemCount(); ++row) {
    const QTreeWidgetItem& item = *topLevelItem(row);
    if (item.checkState(cluster) == Qt::Checked)
      asked.push_back({item.text(cluster).toStdString(), item.text(price).trimmed().toStdString()});
  }
  return asked;
}

void ClusterTable::tick(const std::string& name, const QString& price_text) {
  const QList<QTreeWidgetItem*> found =
      findItems(to_qstring(name), Qt::MatchExactly | Qt::MatchCaseSensitive, cluster);
  QTreeWidgetItem* item = found.isEmpty() ? add(to_qstring(name)) : found.front();
  item->setCheckState(cluster, Qt::Checked);
  if (!price_text.isEmpty()) item->setText(price, price_text);
  setCurrentItem(item);
  scrollToItem(item, PositionAtCenter);
}

void ClusterTable::tick_none() {
  for (int row = 0; row < topLevelItemCount(); ++row)
    topLevelItem(row)->setCheckState(cluster, Qt::Unchecked);
}

QSize ClusterTable::sizeHint() const {
  constexpr int rows = 9;
  return {240, rows * (fontMetrics().height() + 6)};
}

// A digit begins the price, as in a table of figures.
void ClusterTable::keyPressEvent(QKeyEvent* event) {
  QTreeWidgetItem* item = currentItem();
  if (item && (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter)) return submitted();
  const bool digit = !event->text().isEmpty() && event->text().front().isDigit();
  if (item && (event->key() == Qt::Key_F2 || digit)) {
    if (digit) item->setText(price, event->text());
    editItem(item, price);
    return;
  }
  QTreeWidget::keyPressEvent(event);
}

void ClusterTable::resizeEvent(QResizeEvent* event) {
  QTreeWidget::resizeEvent(event);
  constexpr double share = 0.56;  // of the names
  setColumnWidth(cluster, static_cast<int>(share * viewport()->width()));
}

}  // namespace ui
