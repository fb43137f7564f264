// The state of the search on its page: idle, listing, running, ended, wrong.
#include "sim/report/numbers.hpp"
#include "ui/choose/choose_pane.hpp"
#include "ui/choose/open_layout.hpp"
#include "ui/core/words.hpp"

namespace ui {
void ChoosePane::refresh_state() {
  const bool running = search_.running();
  const bool has_scenario = session_.result() != nullptr;
  start_->setEnabled(has_scenario);
  start_->setText(running ? tr("Re&start") : tr("&Start search"));
  start_->setShortcut(QKeySequence{"Ctrl+Return"});
  stop_->setEnabled(running);
  bar_->setVisible(search_.state() != SearchState::idle);
  const SearchedPtr& searched = search_.searched();
  const bool shows_search = search_.state() == SearchState::running || ended();
  stale_->setVisible(shows_search && searched && !is_of(searched->asked, session_));
  if (search_.state() == SearchState::listing) show_listing();
  if (search_.state() == SearchState::idle) show_idle(has_scenario);
  if (ended()) show_end();
}

bool ChoosePane::ended() const {
  return search_.state() == SearchState::done || search_.state() == SearchState::stopped;
}

void ChoosePane::show_listing() {
  bar_->setRange(0, 0);
  progress_->show();
  progress_->setText(tr("listing the layouts of the space …"));
  pareto_->clear(tr("Listing the layouts of the space …"));
  points_.clear();
  result_.reset();
  refresh_rows();
}

void ChoosePane::show_idle(bool has_scenario) {
  pareto_->clear(has_scenario
                     ? tr("Every legal layout of the scenario's job is looked at; a lower bound "
                          "rules most of them out, the rest is simulated.\nPress Start search.")
                     : tr("Open a scenario first (Ctrl+O): the search finds the fastest layout "
                          "for its model, cluster and batch."));
  layout_->clear(has_scenario ? tr("A layout that you click is taken apart here.") : QString{});
}

void ChoosePane::show_end() {
  if (result_) refresh_progress();
  if (points_.empty()) {
    const QString said =
        search_.state() == SearchState::stopped
            ? tr("Stopped before a layout was simulated.\nStart the search again, and give it "
                 "longer.")
            : tr("No layout of this space can fit, or none is legal.\nOpen a dimension on the "
                 "left.");
    pareto_->clear(said);
    if (!result_) progress_->setText(tr("stopped"));
    bar_->setRange(0, 1000);
    layout_->clear({});
  } else if (!chosen_ && result_ && result_->favourite()) {
    choose(result_->favourite()->evaluation);
  }
  if (result_ && !result_->nothing_fits.empty()) {
    problem_->setText(to_qstring(result_->nothing_fits));
    problem_->show();
  }
  Q_EMIT settled_changed();
}

void ChoosePane::refresh_progress() {
  const sim::SearchProgress& progress = newest_;
  const sim::SearchCounts& counts = progress.counts;
  const std::uint64_t decided = counts.legal - counts.open;
  const double rate = progress.seconds > 0 ? static_cast<double>(decided) / progress.seconds : 0;
  QStringList lines;
  lines << tr("%1 of %2 layouts decided")
               .arg(to_qstring(sim::grouped(decided)), to_qstring(sim::grouped(counts.legal)));
  lines << tr("%1 simulated, %2 do not fit")
               .arg(to_qstring(sim::grouped(counts.simulated)),
                    to_qstring(sim::grouped(counts.too_large + counts.too_large_by_bound)));
  if (search_.running() && rate > 0)
    lines << tr("%1 s so far, %2 layouts/s")
                 .arg(progress.seconds, 0, 'f', 1)
                 .arg(to_qstring(sim::significant(rate)));
  else if (rate > 0)
    lines << tr("%1 after %2 s, %3 layouts/s")
                 .arg(result_ && result_->complete ? tr("done") : tr("stopped"))
                 .arg(progress.seconds, 0, 'f', 1)
                 .arg(to_qstring(sim::significant(rate)));
  lines << (progress.best ? tr("best %1").arg(to_qstring(sim::precise(progress.best->step_time)))
                          : tr("best: none yet"));
  progress_->setText(lines.join('\n'));
  progress_->show();
  bar_->setRange(0, 1000);
  bar_->setValue(counts.legal == 0 ? 1000
                                   : static_cast<int>(1000 * static_cast<double>(decided) /
                                                      static_cast<double>(counts.legal)));
}

void ChoosePane::show_problems(const std::vector<sim::Problem>& problems) {
  problem_->setVisible(!problems.empty());
  if (problems.empty()) return;
  problem_->setText("⚠ " + all_of(problems).replace("\n", "\n⚠ "));
  problem_->setForegroundRole(QPalette::BrightText);  // the theme's colour of what is wrong
  progress_->hide();
  Q_EMIT settled_changed();
}

}  // namespace ui
