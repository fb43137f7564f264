#include "ui/topology/view.hpp"

#include <QHBoxLayout>
#include <QScrollArea>
#include <QVBoxLayout>
#include <utility>

namespace ui {
namespace {

constexpr int pause_ms = 300;  // after the last change: a slider in motion is not slowed
constexpr int facts_width = 310;

}  // namespace

TopologyView::TopologyView(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  setAccessibleName(tr("Topology"));
  chart_ = new TierChart;
  facts_ = new FactsTable{tr("The selected link")};
  facts_->setFrameShape(QFrame::NoFrame);
  facts_->setTabKeyNavigation(false);
  facts_->setFixedWidth(facts_width);
  diagram_ = new FabricDiagram;
  auto* both = new QWidget;
  auto* column = new QVBoxLayout{both};
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(diagram_);
  column->addWidget(chart_, 1);
  auto* scroll = new QScrollArea;
  scroll->setWidget(both);
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
  connect(diagram_, &FabricDiagram::clicked, this, [this](std::size_t tier) {
    chart_->select(LinkAt{tier, loads_->tiers()[tier].busiest()});
    chart_->setFocus();
  });
  chart_->set_empty_text(
      tr("Open a scenario to see what each link of its cluster carries: File, Open (Ctrl+O)."));
  show_facts();
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
  job_.run([this, result = asked_](const sim::Control& control) -> BackgroundJob::Answer {
    const auto loads = std::make_shared<const ClusterLoads>(result, control);
    return [this, loads] { take(loads); };
  });
}

void TopologyView::take(LoadsPtr loads) {
  loads_ = std::move(loads);
  chart_->set_loads(loads_);
  diagram_->show_loads(loads_, chart_->scale_end());
  if (!chart_->selected()) chart_->select_busiest();
}

QString TopologyView::csv() const {
  return loads_ ? QString::fromStdString(loads_csv(*loads_)) : QString{};
}

void TopologyView::show_facts() {
  const std::optional<LinkAt>& at = chart_->selected();
  diagram_->set_selected(at ? std::optional{at->tier} : std::nullopt);
  if (!at || !loads_) {
    facts_->set_facts({{tr("click"), tr("a link: bytes, busy time, groups")},
                       {"↑ ↓", tr("tiers, at their busiest link")},
                       {"← →", tr("next link that carries something else")}});
    return;
  }
  std::vector<std::pair<QString, QString>> facts;
  for (const auto& [name, value] : loads_->facts(*at))
    facts.emplace_back(QString::fromStdString(name), QString::fromStdString(value));
  facts_->set_facts(facts);
}

}  // namespace ui
