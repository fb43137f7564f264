#include "ui/explain/explain_pane.hpp"

#include <QVBoxLayout>
#include <algorithm>
#include <utility>

namespace ui {
namespace {

QLabel* make_text() {
  auto* label = new QLabel;
  label->setWordWrap(true);
  label->setTextFormat(Qt::PlainText);
  label->setAlignment(Qt::AlignLeft | Qt::AlignTop);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  return label;
}

QWidget* in_column(QWidget* above, QWidget* below) {
  auto* page = new QWidget;
  auto* column = new QVBoxLayout{page};
  column->setContentsMargins(4, 6, 4, 0);
  column->setSpacing(4);
  column->addWidget(above);
  column->addWidget(below, 1);
  return page;
}

}  // namespace

ExplainPane::ExplainPane(QWidget* parent) : QTabWidget{parent} {
  setAccessibleName(tr("What the run says"));
  setDocumentMode(true);
  addTab(make_waterfall(), tr("Why it is slower"));
  addTab(make_roofline(), tr("Roofline"));
  states_ = new StatesPane;
  addTab(states_, tr("Where the time goes"));
}

QWidget* ExplainPane::make_waterfall() {
  sentence_ = make_text();
  sentence_->setAccessibleName(tr("The cause"));
  tree_ = new WaterfallTree;
  connect(tree_, &WaterfallTree::selected_changed, this, [this] {
    place_.clear();
    show_sentence();
  });
  return in_column(sentence_, tree_);
}

QWidget* ExplainPane::make_roofline() {
  point_ = make_text();
  point_->setAccessibleName(tr("The kernel"));
  roofline_ = new RooflineChart;
  connect(roofline_, &RooflineChart::kernel_chosen, this, &ExplainPane::show_point);
  return in_column(point_, roofline_);
}

void ExplainPane::show_explanation(ExplanationPtr explanation, const QString& why_not) {
  explanation_ = std::move(explanation);
  why_not_ = why_not;
  place_.clear();
  tree_->show_waterfall(explanation_);
  roofline_->show_roofline(explanation_);
  states_->show_states(explanation_);
  show_sentence();
  show_point();
}

void ExplainPane::set_place(const QString& text) {
  place_ = text;
  show_sentence();
}

void ExplainPane::show_sentence() {
  const bool has_waterfall = explanation_ && explanation_->waterfall;
  tree_->setVisible(has_waterfall);
  if (!has_waterfall) return sentence_->setText(why_not_);
  const sim::Waterfall& waterfall = *explanation_->waterfall;
  const auto sentence = [&](std::size_t part) {
    return QString{"%1. %2"}.arg(QString::number(part + 1),
                                 QString::fromStdString(waterfall.parts[part].sentence));
  };
  QStringList lines;
  if (const std::optional<CauseAt> at = tree_->selected(); at) {
    lines << sentence(at->part);
    if (!place_.isEmpty()) lines << place_;
  } else {
    constexpr std::size_t most = 2;
    for (std::size_t i = 0; i < std::min(most, waterfall.parts.size()); ++i)
      if (waterfall.parts[i].time > sim::Duration{}) lines << sentence(i);
    if (!waterfall.late.empty()) lines << QString::fromStdString(waterfall.late);
    if (lines.isEmpty()) lines << tr("The run is as its forecast.");
  }
  sentence_->setText(lines.join('\n'));
}

void ExplainPane::show_point() {
  if (!explanation_) return point_->setText({});
  if (const sim::RooflinePoint* point = roofline_->point())
    return point_->setText(roofline_->text_of(*point));
  const sim::Roofline& of = explanation_->roofline;
  const QString lines =
      of.device.empty() ? tr("The device of the trace is not known: there are no lines.")
                        : tr("Lines: the data sheet of %1.").arg(QString::fromStdString(of.device));
  point_->setText(tr("%1 Points: kernels of known FLOPs; larger ones take more of the step. "
                     "Arrow keys walk.")
                      .arg(lines));
}

QString differences_text(const sim::Explanation& explanation) {
  constexpr std::size_t most = 4;
  if (!explanation.waterfall) return {};
  const std::vector<std::string>& differences = explanation.waterfall->differences;
  QStringList lines;
  for (std::size_t i = 0; i < std::min(most, differences.size()); ++i)
    lines << ExplainPane::tr("⚠ <b>Not the same job:</b> %1")
                 .arg(QString::fromStdString(differences[i]).toHtmlEscaped());
  if (differences.size() > most)
    lines << ExplainPane::tr("and %1 more").arg(differences.size() - most);
  return lines.join("<br>");
}

}  // namespace ui
