#include "ui/panes/details.hpp"

#include <QLabel>
#include <QVBoxLayout>

#include "sim/report/numbers.hpp"
#include "ui/core/operator_text.hpp"
#include "ui/lanes/area_sums.hpp"
#include "ui/panes/colour_legend.hpp"

namespace ui {
namespace {

constexpr std::size_t most_names = 200;

QString time(std::int64_t ps) {
  return QString::fromStdString(sim::precise(sim::Duration{ps}));
}

}  // namespace

Details::Details(Session& session, QWidget* parent) : QWidget{parent}, session_{session} {
  auto* column = new QVBoxLayout{this};
  column->setContentsMargins(6, 6, 6, 6);
  table_ = new FactsTable{tr("Details of the selection"), this};
  table_->setWordWrap(true);
  hint_ = new QLabel{
      tr("<p><b>Click</b> an operator in the timeline to see its shape, its rate and what it "
         "waited for.</p><p><b>Drag</b> over the timeline to sum an area by name.</p>"
         "<p><b>W S A D</b> zoom and pan, <b>[ ]</b> walk the critical path, <b>/</b> searches "
         "operators, <b>L</b> filters lanes, <b>P</b> pins a stage, <b>?</b> shows all keys.</p>"),
      this};
  hint_->setWordWrap(true);
  hint_->setAlignment(Qt::AlignTop);
  hint_->setMargin(6);
  cause_ = new QPushButton{this};
  cause_->setAccessibleName(tr("Go to what it waited for"));
  column->addWidget(table_, 1);
  column->addWidget(hint_, 1);
  column->addWidget(cause_);
  column->addWidget(new ColourLegend{session_});
  connect(cause_, &QPushButton::clicked, this, [this] {
    if (!cause_at_) return;
    Selection selection = session_.selection();
    selection.op = cause_at_;
    session_.select(selection);
  });
  connect(&session_, &Session::selection_changed, this, &Details::refresh);
  connect(&session_, &Session::result_changed, this, &Details::refresh);
  refresh();
}

void Details::refresh() {
  cause_->hide();
  cause_at_.reset();
  const Selection& selection = session_.selection();
  if (!session_.result()) return show_empty();
  if (selection.op) return show_operator(*selection.op);
  if (selection.area) return show_area(*selection.area);
  show_empty();
}

void Details::set_rows(const std::vector<std::pair<QString, QString>>& facts) {
  hint_->hide();
  table_->show();
  table_->set_facts(facts);
}

void Details::show_operator(const OperatorAt& at) {
  set_rows(operator_facts(*session_.result(), at));
  if (const std::optional<CauseOf> cause = cause_of(*session_.result(), at)) {
    cause_at_ = cause->at;
    cause_->setText(cause_->fontMetrics().elidedText("← " + cause->text, Qt::ElideRight,
                                                     std::max(120, width() - 30)));
    cause_->setToolTip(tr("It could not begin earlier because of: %1").arg(cause->text));
    cause_->show();
  }
}

void Details::show_area(const TimeArea& area) {
  const AreaSums sums =
      area_sums(*session_.result()->forecast.plan, session_.result()->lanes, area.begin, area.end);
  std::vector<std::pair<QString, QString>> facts;
  facts.emplace_back(tr("area"), time(area.end - area.begin));
  facts.emplace_back(tr("ranks shown"), QString::number(session_.result()->lanes.groups.size()));
  facts.emplace_back(tr("bubbles"),
                     QString{"%1  (%2×)"}.arg(time(sums.bubbles)).arg(sums.bubble_count));
  for (const NameSum& sum : sums.names) {
    if (facts.size() > most_names) break;
    facts.emplace_back(QString{"%1 %2"}.arg(QString::fromStdString(sum.name),
                                            QString::fromStdString(sum.pass).replace('_', ' ')),
                       QString{"%1  (%2×)"}.arg(time(sum.time)).arg(sum.count));
  }
  set_rows(facts);
}

void Details::show_empty() {
  table_->hide();
  hint_->show();
}

}  // namespace ui
