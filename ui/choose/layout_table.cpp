#include "ui/choose/layout_table.hpp"

#include <QHeaderView>
#include <QKeyEvent>
#include <algorithm>

#include "sim/report/numbers.hpp"

namespace ui {
namespace {

constexpr int least_layout_px = 300, most_layout_px = 420;  // unless there is room

struct Head {
  const char* title;
  const char* help;
};
constexpr std::array heads{
    Head{"#", "Place in the ranking, by step time."},
    Head{"layout",
         "In one line: tp, cp, ep, pp stages, v chunks each, dp replicas, mb micro-batch."},
    Head{"GPUs", "GPUs of the job."},
    Head{
        "step time",
        "Time of one training step. Of a layout that does not fit: at least that (a lower bound)."},
    Head{"slower", "How much longer a step takes than that of the best layout."},
    Head{"memory", "Of the fullest GPU, with what the device keeps for itself."},
    Head{"verdict",
         "Whether the layout leaves the memory margin, fits without it, or does not fit."},
    Head{"MFU",
         "Model FLOP/s utilisation: FLOPs of the model, without recomputation, over the peak."},
    Head{"tokens/s/GPU", "Tokens (samples of layer lists) of a step, by its time and the GPUs."},
    Head{"headroom", "What is left of the device."},
    Head{"cost/step", "GPUs x step time x price of a GPU-hour."}};

QString verdict_of(const SearchPoint& point) {
  if (!point.evaluation.fits) return LayoutModel::tr("does not fit");
  return point.leaves_margin ? LayoutModel::tr("fits") : LayoutModel::tr("within margin");
}

QString percent(double share) {
  return QString{"%1 %"}.arg(100 * share, 0, 'f', 2).replace('-', "−");
}

}  // namespace

void LayoutModel::set_rows(SearchedPtr searched, std::vector<LayoutRow> rows) {
  beginResetModel();
  if (searched != searched_) known_.clear();
  searched_ = std::move(searched);
  rows_ = std::move(rows);
  shown_.clear();
  best_ = {};
  for (const LayoutRow& row : rows_)
    if (row.point.leaves_margin && (best_ == sim::Duration{} || row.point.step_time < best_))
      best_ = row.point.step_time;
  for (const LayoutRow& row : rows_) {
    const auto [known, fresh] = known_.try_emplace(row.point.evaluation.index);
    if (fresh) known->second = describe_row(row.point.evaluation);
    shown_.push_back(&known->second);
  }
  endResetModel();
}

LayoutModel::Shown LayoutModel::describe_row(const sim::Evaluation& evaluation) const {
  const sim::SearchSpecification& specification = searched_->search.specification();
  const sim::RankedLayout one = sim::outline(searched_->search, evaluation);
  Shown shown{
      QString::fromStdString(sim::describe(one, specification.workload.cluster.node_gpus())),
      one.layout.world_size(), 0, 0, 0};
  if (!evaluation.fits) return shown;
  shown.tokens = one.tokens_per_second_per_gpu;
  shown.mfu = one.mfu;
  shown.cost = one.layout.world_size() * sim::to_seconds(evaluation.step_time) / 3600 *
               specification.price_per_gpu_hour.value_or(0);
  return shown;
}

int LayoutModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(rows_.size());
}

int LayoutModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : columns;
}

double LayoutModel::number(int row, int column) const {
  const LayoutRow& one = rows_[static_cast<std::size_t>(row)];
  const Shown& shown = *shown_[static_cast<std::size_t>(row)];
  const sim::Bytes capacity = searched_->search.specification().workload.cluster.device().memory;
  switch (column) {
    case rank:
      return one.rank > 0 ? one.rank : 1e9;
    case gpus:
      return shown.gpus;
    case step:
    case slower:
      return sim::in_seconds(one.point.step_time);
    case memory:
      return one.point.evaluation.memory.gib();
    case headroom:
      return (capacity - one.point.evaluation.memory).gib();
    case tokens:
      return shown.tokens;
    case mfu:
      return shown.mfu;
    case cost:
      return shown.cost;
    case verdict:
      return one.point.leaves_margin ? 0 : one.point.evaluation.fits ? 1 : 2;
    default:
      return 0;
  }
}

QString LayoutModel::text(int row, int column) const {
  const LayoutRow& one = rows_[static_cast<std::size_t>(row)];
  const Shown& shown = *shown_[static_cast<std::size_t>(row)];
  const bool fits = one.point.evaluation.fits;
  const double value = number(row, column);
  switch (column) {
    case rank:
      return one.rank > 0 ? QString::number(one.rank) : QString{};
    case layout:
      return shown.layout;
    case gpus:
      return QString::fromStdString(sim::grouped(shown.gpus));
    case step:
      return (fits ? "" : "≥ ") + QString::fromStdString(sim::precise(one.point.step_time));
    case slower:
      return !fits || best_ == sim::Duration{} ? QString{}
                                               : percent(value / sim::in_seconds(best_) - 1);
    case memory:
      return (one.point.leaves_margin ? "" : "⚠ ") + QString{"%1 GiB"}.arg(value, 0, 'f', 1);
    case headroom:
      return QString{"%1 GiB"}.arg(value, 0, 'f', 1);
    case tokens:
      return fits ? QString::fromStdString(sim::significant(value)) : QString{};
    case mfu:
      return fits ? QString{"%1 %"}.arg(100 * value, 0, 'f', 1) : QString{};
    case cost:
      return fits ? QString::number(value, 'g', 4) : QString{};
    case verdict:
      return verdict_of(one.point);
    default:
      return {};
  }
}

QVariant LayoutModel::data(const QModelIndex& at, int role) const {
  if (!at.isValid()) return {};
  const bool words = at.column() == layout || at.column() == verdict;
  switch (role) {
    case Qt::DisplayRole:
      return text(at.row(), at.column());
    case Qt::UserRole:  // that sorting goes by
      if (at.column() == layout) return text(at.row(), layout);
      return number(at.row(), at.column());
    case Qt::TextAlignmentRole:
      return static_cast<int>((words ? Qt::AlignLeft : Qt::AlignRight) | Qt::AlignVCenter);
    case Qt::ToolTipRole:
      if (at.column() == memory || at.column() == verdict)
        return verdict_of(rows_[static_cast<std::size_t>(at.row())].point);
      return shown_[static_cast<std::size_t>(at.row())]->layout;
    default:
      return {};
  }
}

QVariant LayoutModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section >= columns) return {};
  if (role == Qt::DisplayRole) return tr(heads[static_cast<std::size_t>(section)].title);
  if (role == Qt::ToolTipRole) return tr(heads[static_cast<std::size_t>(section)].help);
  return {};
}

LayoutTable::LayoutTable(QWidget* parent) : QTableView{parent} {
  setAccessibleName(tr("Layouts"));
  sorted_.setSourceModel(&model_);
  sorted_.setSortRole(Qt::UserRole);
  setModel(&sorted_);
  setSortingEnabled(true);
  sortByColumn(LayoutModel::rank, Qt::AscendingOrder);
  setSelectionBehavior(SelectRows);
  setSelectionMode(SingleSelection);
  setAlternatingRowColors(true);
  setShowGrid(false);
  setWordWrap(false);
  setTabKeyNavigation(false);
  verticalHeader()->hide();
  verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 6);
  horizontalHeader()->setHighlightSections(false);
  horizontalHeader()->setStretchLastSection(false);
  connect(this, &QTableView::doubleClicked, this, [this](const QModelIndex& at) {
    if (const LayoutRow* row = row_at(at)) Q_EMIT activated_layout(row->point.evaluation);
  });
}

void LayoutTable::set_rows(SearchedPtr searched, std::vector<LayoutRow> rows) {
  const LayoutRow* current = row_at(currentIndex());
  const std::optional<std::uint32_t> kept =
      current ? std::optional{current->point.evaluation.index} : std::nullopt;
  const bool was_empty = model_.rows().empty();
  quiet_ = true;
  model_.set_rows(std::move(searched), std::move(rows));
  quiet_ = false;
  if (kept) select(*kept);
  const sim::Search* search = model_.searched() ? &model_.searched()->search : nullptr;
  setColumnHidden(LayoutModel::cost,
                  !search || !search->specification().price_per_gpu_hour.has_value());
  setColumnHidden(LayoutModel::gpus, !search || search->specification().space.gpus.size() < 2);
  if (was_empty) resizeColumnsToContents();
  widen_layouts();
}

// The column of the layouts takes the room that the others leave: names differ at their ends.
void LayoutTable::widen_layouts() {
  int others = 0;
  for (int column = 0; column < LayoutModel::columns; ++column)
    if (column != LayoutModel::layout && !isColumnHidden(column)) others += columnWidth(column);
  const int least =
      std::clamp(sizeHintForColumn(LayoutModel::layout), least_layout_px, most_layout_px);
  const int room = viewport()->width() - others;
  setColumnWidth(LayoutModel::layout, std::max(room, least));
}

void LayoutTable::resizeEvent(QResizeEvent* event) {
  QTableView::resizeEvent(event);
  if (!model_.rows().empty()) widen_layouts();
}

const LayoutRow* LayoutTable::row_at(const QModelIndex& shown) const {
  const QModelIndex at = sorted_.mapToSource(shown);
  return at.isValid() ? &model_.rows()[static_cast<std::size_t>(at.row())] : nullptr;
}

void LayoutTable::select(std::uint32_t index) {
  quiet_ = true;
  clearSelection();
  for (std::size_t row = 0; row < model_.rows().size(); ++row)
    if (model_.rows()[row].point.evaluation.index == index)
      setCurrentIndex(sorted_.mapFromSource(model_.index(static_cast<int>(row), 0)));
  quiet_ = false;
}

void LayoutTable::currentChanged(const QModelIndex& now, const QModelIndex& before) {
  QTableView::currentChanged(now, before);
  const LayoutRow* row = row_at(now);
  if (row && !quiet_) Q_EMIT chosen(row->point.evaluation);
}

void LayoutTable::keyPressEvent(QKeyEvent* event) {
  const LayoutRow* row = row_at(currentIndex());
  if (row && (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter)) {
    Q_EMIT activated_layout(row->point.evaluation);
    return;
  }
  QTableView::keyPressEvent(event);
}

}  // namespace ui
