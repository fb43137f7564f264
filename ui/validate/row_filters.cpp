#include "ui/validate/row_filters.hpp"

#include <QHBoxLayout>
#include <QLabel>
#include <QSignalBlocker>
#include <QToolButton>
#include <set>

namespace ui {
namespace {

QComboBox* add_box(QHBoxLayout& row, const QString& title) {
  auto* label = new QLabel{title};
  auto* box = new QComboBox;
  box->setAccessibleName(RowFilters::tr("Filter: %1").arg(title));
  box->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  label->setBuddy(box);
  row.addWidget(label);
  row.addWidget(box);
  row.addSpacing(6);
  return box;
}

}  // namespace

RowFilters::RowFilters(QWidget* parent) : QWidget{parent} {
  setAccessibleName(tr("Filters of the rows"));
  auto* row = new QHBoxLayout{this};
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(6);
  choices_ = {{{RowTable::set, &RowFilter::set, add_box(*row, tr("set"))},
               {RowTable::gpu, &RowFilter::gpu, add_box(*row, tr("GPU"))},
               {RowTable::framework, &RowFilter::framework, add_box(*row, tr("framework"))},
               {RowTable::use, &RowFilter::use, add_box(*row, tr("use"))}}};
  for (const Choice& choice : choices_) {
    choice.box->addItem(tr("all"));
    connect(choice.box, &QComboBox::currentIndexChanged, this, &RowFilters::changed);
  }
  state_ = add_box(*row, tr("rows"));
  state_->addItem(tr("all"));
  state_->addItem(tr("with a measured time"), static_cast<int>(RowState::timed));
  state_->addItem(tr("memory alone, or out of memory"), static_cast<int>(RowState::memory_only));
  state_->addItem(tr("skipped and unreadable"), static_cast<int>(RowState::skipped));
  connect(state_, &QComboBox::currentIndexChanged, this, &RowFilters::changed);
  auto* all = new QToolButton;
  all->setText(tr("show all"));
  all->setAccessibleName(tr("Remove all filters"));
  connect(all, &QToolButton::clicked, this, &RowFilters::reset);
  row->addWidget(all);
  row->addStretch();
}

void RowFilters::offer(const RowTable& table) {
  for (const Choice& choice : choices_) {
    std::set<QString> values;
    for (std::size_t place = 0; place < table.size(); ++place)
      values.insert(table.text(place, choice.column));
    values.erase(QString{});
    QStringList offered;
    for (int i = 1; i < choice.box->count(); ++i)
      offered << choice.box->itemText(i);
    if (offered == QStringList{values.begin(), values.end()}) continue;
    const QSignalBlocker quiet{choice.box};
    const QString chosen = choice.box->currentIndex() > 0 ? choice.box->currentText() : QString{};
    choice.box->clear();
    choice.box->addItem(tr("all"));
    for (const QString& value : values)
      choice.box->addItem(value);
    choice.box->setCurrentIndex(chosen.isEmpty() ? 0 : std::max(0, choice.box->findText(chosen)));
  }
}

RowFilter RowFilters::filter() const {
  RowFilter filter;
  for (const Choice& choice : choices_)
    if (choice.box->currentIndex() > 0) filter.*choice.field = choice.box->currentText();
  if (state_->currentIndex() > 0)
    filter.state = static_cast<RowState>(state_->currentData().toInt());
  return filter;
}

void RowFilters::reset() {
  for (const Choice& choice : choices_) {
    const QSignalBlocker quiet{choice.box};
    choice.box->setCurrentIndex(0);
  }
  {
    const QSignalBlocker quiet{state_};
    state_->setCurrentIndex(0);
  }
  Q_EMIT changed();
}

}  // namespace ui
