// The job "choose a layout": the space of a search, its points and ranking while it runs, and the
// layout that is looked at.
#pragma once

#include <QComboBox>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QWidget>
#include <map>

#include "ui/choose/layout_job.hpp"
#include "ui/choose/layout_pane.hpp"
#include "ui/choose/layout_table.hpp"
#include "ui/choose/pareto.hpp"
#include "ui/choose/search_job.hpp"
#include "ui/choose/space_pane.hpp"
#include "ui/core/session.hpp"

namespace ui {

class ChoosePane : public QWidget {
  Q_OBJECT

 public:
  explicit ChoosePane(Session& session, QWidget* parent = nullptr);

  void start();
  void stop();
  void choose(const sim::Evaluation& evaluation);
  void pin();               // the chosen layout, or takes the pin away
  void open_as_scenario();  // the chosen layout
  void export_for(sim::Target target);
  // The search has ended, and what is chosen is shown with its parts.
  bool settled() const;

  const SearchJob& search() const { return search_; }
  SpacePane& space() { return *space_; }
  Pareto& pareto() { return *pareto_; }
  LayoutTable& table() { return *table_; }
  LayoutPane& layout_pane() { return *layout_; }
  const std::optional<sim::Evaluation>& chosen() const { return chosen_; }

 Q_SIGNALS:
  void opened_layout();  // in the session
  void settled_changed();

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  static QString all_of(const std::vector<sim::Problem>& problems);
  enum class Rows : int { ranked, front, all };
  QWidget* make_left();
  QWidget* make_middle();
  void adopt_scenario();
  void adopt_search();  // another has begun
  void adopt_news(const SearchNews& news);
  void adopt_facts(const LayoutFactsPtr& facts);
  bool ended() const;
  void refresh_state();
  void show_listing();
  void show_idle(bool has_scenario);
  void show_end();
  void refresh_progress();
  void refresh_rows();
  void refresh_layout();
  void show_problems(const std::vector<sim::Problem>& problems);
  void save_csv();
  std::vector<LayoutRow> rows_of(Rows which) const;
  // reference() is what the chosen layout is compared with.
  std::optional<sim::Evaluation> reference() const;
  QString reference_name(const sim::Evaluation& reference) const;
  LayoutFactsPtr known(const std::optional<sim::Evaluation>& evaluation) const;

  Session& session_;
  SearchJob search_;
  LayoutJob layouts_;

  SpacePane* space_ = nullptr;
  QPushButton* start_ = nullptr;
  QPushButton* stop_ = nullptr;
  QProgressBar* bar_ = nullptr;
  QLabel* progress_ = nullptr;
  QLabel* problem_ = nullptr;
  QLabel* stale_ = nullptr;
  Pareto* pareto_ = nullptr;
  QComboBox* which_ = nullptr;
  QLabel* count_ = nullptr;
  QPushButton* csv_ = nullptr;
  LayoutTable* table_ = nullptr;
  LayoutPane* layout_ = nullptr;

  std::vector<SearchPoint> points_;
  sim::SearchProgress newest_;
  SearchResultPtr result_;
  std::map<std::uint32_t, LayoutFactsPtr> facts_;  // by candidate, of the newest search
  std::optional<sim::Evaluation> chosen_, pinned_;
  SearchAsked shown_;  // whose space is shown: path, yaml, overrides
};

}  // namespace ui
