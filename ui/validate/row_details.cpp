#include "ui/validate/row_details.hpp"

#include <QHBoxLayout>
#include <QVBoxLayout>

namespace ui {
namespace {

QString html(const std::string& text) {
  return QString::fromStdString(text).toHtmlEscaped();
}

QString list_of(const QString& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return {};
  QString text = "<p><b>" + title + "</b></p><ul style='margin-left:-24px'>";
  for (const std::string& line : lines)
    text += "<li>" + html(line) + "</li>";
  return text + "</ul>";
}

QString figures_of(const RowTable& table, std::size_t place) {
  const auto text = [&](RowTable::Column column) {
    return table.text(place, column).toHtmlEscaped();
  };
  QStringList parts;
  if (!text(RowTable::measured).isEmpty())
    parts << RowDetails::tr("measured <b>%1</b>").arg(text(RowTable::measured));
  if (!text(RowTable::predicted).isEmpty())
    parts << RowDetails::tr("forecast <b>%1</b>").arg(text(RowTable::predicted));
  if (!text(RowTable::error).isEmpty())
    parts << RowDetails::tr("error <b>%1</b>").arg(text(RowTable::error));
  if (!text(RowTable::note).isEmpty()) parts << text(RowTable::note);
  return "<p>" + parts.join(" · ") + "</p>";
}

}  // namespace

RowDetails::RowDetails(QWidget* parent) : QWidget{parent} {
  setAccessibleName(tr("The selected row"));
  auto* column = new QVBoxLayout{this};
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(4);
  auto* top = new QHBoxLayout;
  title_ = new QLabel;
  QFont bold = title_->font();
  bold.setBold(true);
  title_->setFont(bold);
  open_ = new QPushButton{tr("&Open as scenario")};
  open_->setAccessibleName(tr("Open the selected row as a scenario in What if"));
  open_->setToolTip(tr("Its forecast in What if, beside what was measured"));
  top->addWidget(title_, 1);
  top->addWidget(open_);
  column->addLayout(top);
  text_ = new QTextBrowser;
  text_->setAccessibleName(tr("What is known of the selected row"));
  text_->setOpenExternalLinks(true);
  text_->setFrameShape(QFrame::NoFrame);
  column->addWidget(text_, 1);
  connect(open_, &QPushButton::clicked, this, &RowDetails::open_asked);
  show_nothing();
}

void RowDetails::show_nothing() {
  title_->setText(tr("No row is selected"));
  text_->setHtml("<p>" +
                 tr("Click a point or a row of the table to see where its figure comes from; "
                    "Enter opens it as a scenario.") +
                 "</p>");
  open_->setEnabled(false);
}

void RowDetails::show_row(const RowTable& table, std::size_t place) {
  const sim::MeasuredRow& row = table.row(place);
  const sim::MeasuredSet& set = table.set_of(place);
  title_->setText(QString{"%1  ·  %2"}.arg(table.text(place, RowTable::id), use_text(row.use)));
  QString text = figures_of(table, place);
  text += "<p>" + html(set.title) + "<br>" + html(set.source) + "</p>";
  if (!row.evidence.empty()) text += "<p>" + tr("As printed: %1").arg(html(row.evidence)) + "</p>";
  if (row.cells && !(*row.cells)["notes"].empty())
    text += "<p>" + tr("Notes: %1").arg(html(std::string{(*row.cells)["notes"]})) + "</p>";
  text += list_of(tr("Stands for empty cells"), row.defaults);
  text += list_of(tr("Assumed of this row"), row.assumptions);
  text += list_of(tr("Assumed of the set"), set.assumptions);
  text_->setHtml(text);
  // A row that cannot be simulated is no scenario.
  const RowState state = state_of(table.result(place));
  open_->setEnabled(state == RowState::timed || state == RowState::memory_only);
}

}  // namespace ui
