#include "ui/panes/sources.hpp"

#include "sim/scenario/followed.hpp"
#include "ui/core/figures.hpp"

namespace ui {
namespace {

QString list(const QString& title, const QStringList& lines) {
  if (lines.empty()) return {};
  QString html = "<h4>" + title + "</h4><ul>";
  for (const QString& line : lines)
    html += "<li>" + line.toHtmlEscaped() + "</li>";
  return html + "</ul>";
}

QString text(const std::string& from) {
  return QString::fromStdString(from);
}

}  // namespace

SourcesPane::SourcesPane(Session& session, QWidget* parent)
    : QTextBrowser{parent}, session_{session} {
  setAccessibleName(tr("Sources and notes"));
  setPlaceholderText(tr("What a forecast rests on appears with the first one."));
  connect(&session_, &Session::result_changed, this, &SourcesPane::refresh);
  refresh();
}

void SourcesPane::refresh() {
  if (!session_.result()) return;
  const sim::Report& report = session_.result()->forecast.report;
  QStringList open, follows, notes, sources, definitions;
  for (const sim::Unvalidated& part : report.not_validated)
    open << text(part.what + " " + part.name + " rests on " + part.rests_on);
  for (const sim::Followed& followed : session_.result()->scenario.followed)
    follows << text(sim::text_of(followed));
  for (const std::string& note : sim::note_lines(report))
    notes << text(note);
  for (const std::string& source : sim::provenance_lines(report))
    sources << text(source);
  for (const Figure& figure : headline_of(report))
    definitions << figure.title + ": " + figure.definition;
  setHtml(list(tr("Software that is forecast"), software_of(report)) +
          list(tr("Not validated by measurements of training"), open) +
          list(tr("What followed the knobs"), follows) + list(tr("Notes"), notes) +
          list(tr("Parameters and their sources"), sources) + list(tr("Definitions"), definitions));
}

}  // namespace ui
