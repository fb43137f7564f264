#include "ui/topology/view.hpp"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QScrollArea>
#include <utility>

namespace ui {
namespace {

constexpr int pause_ms = 300;  // after the last change: a slider in motion is not slowed
constexpr int facts_width = 310;

QTableWidget* make_facts() {
  auto* facts = new QTableWidget{0, 2};
  facts->setAccessibleName(TopologyView::tr("The selected link"));
  facts->horizontalHeader()->hide();
  facts->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
  facts->horizontalHeader()->setStretchLastSection(true);
  facts->verticalHeader()->hide();
  facts->verticalHeader()->setDefaultSectionSize(facts->fontMetrics().height() + 6);
  facts->setEditTriggers(QAbstractItemView::NoEditTriggers);
  facts->setShowGrid(false);
  facts->setFrameShape(QFrame::NoFrame);
  facts->setTabKeyNavigation(false);
  facts->setFixedWidth(facts_width);
  return facts;
}

}  // namespace

TopologyView::TopologyView(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  setAccessibleName(tr("Topology"));
  chart_ = new TierChart;
  facts_ = make_facts();
  auto* scroll = new QScrollArea;
  scroll->setWidget(chart_);
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setFocusPolicy(Qt::NoFocus);
  scroll->setAccessibleName(tr("Tiers of the cluster"));
  auto* row = new QHBoxLayout{this};
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(0);
  row->addWidget(scroll, 1);
  row->addWidget(facts_);
  soon_.setSingleShot(true);
  soon_.setInterval(pause_ms);
  connect(&soon_, &QTimer::timeout, this, &TopologyView::work_out);
  connect(&session_, &Session::result_changed, this, &TopologyView::ask);
  connect(chart_, &TierChart::selection_changed, this, &TopologyView::show_facts);
  chart_->set_empty_text(
      tr("Open a scenario to see what each link of its cluster carries: File, Open (Ctrl+O)."));
  show_facts();
}

TopologyView::~TopologyView() {
  thread_ = {};  // before what it uses
}

void TopologyView::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  ask();
}

void TopologyView::ask() {
  if (!isVisible() || !session_.result() || asked_ == session_.result()) return;
  if (!loads_) chart_->set_empty_text(tr("Adding up the links …"));
  soon_.start();
}

void TopologyView::work_out() {
  asked_ = session_.result();
  working_ = true;
  thread_ = {};  // stops what is under way
  thread_ = std::jthread{[this, result = asked_, number = ++number_](const std::stop_token& stop) {
    LoadsPtr loads;
    try {
      loads = std::make_shared<const ClusterLoads>(result, sim::Control{.stop = stop});
    } catch (const sim::Stopped&) {
      return;
    }
    QMetaObject::invokeMethod(
        this, [this, loads, number] { take(loads, number); }, Qt::QueuedConnection);
  }};
}

void TopologyView::take(LoadsPtr loads, int number) {
  if (number != number_) return;
  working_ = false;
  loads_ = std::move(loads);
  chart_->set_loads(loads_);
  if (!chart_->selected()) chart_->select_busiest();
}

QString TopologyView::csv() const {
  return loads_ ? QString::fromStdString(loads_csv(*loads_)) : QString{};
}

void TopologyView::show_facts() {
  using Facts = std::vector<std::pair<std::string, std::string>>;
  const std::optional<LinkAt>& at = chart_->selected();
  const Facts facts = at && loads_ ? loads_->facts(*at)
                                   : Facts{{"click", "a link: bytes, busy time, groups"},
                                           {"↑ ↓", "tiers, at their busiest link"},
                                           {"← →", "next link that carries something else"}};
  facts_->setRowCount(static_cast<int>(facts.size()));
  for (int row = 0; row < facts_->rowCount(); ++row) {
    const auto& [name, value] = facts[static_cast<std::size_t>(row)];
    auto* left = new QTableWidgetItem{QString::fromStdString(name)};
    left->setForeground(facts_->palette().brush(QPalette::PlaceholderText));
    auto* right = new QTableWidgetItem{QString::fromStdString(value)};
    right->setToolTip(right->text());
    facts_->setItem(row, 0, left);
    facts_->setItem(row, 1, right);
  }
}

}  // namespace ui
