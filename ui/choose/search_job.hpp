// Searches on a thread of its own: the newest wins, and one that is stopped leaves what it has.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QTimer>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sim/base/input_error.hpp"
#include "sim/search/result.hpp"

namespace ui {

struct SearchAsked {
  std::uint64_t serial = 0;            // given by the job
  std::string path, yaml;              // of the scenario
  std::vector<std::string> overrides;  // "section.key=value", those of the section `search` too
  std::vector<std::string> unset;      // keys of `search` that are as if the file had them not
  int threads = 0;                     // 0: one per core
};

// specification_of() is that of the workload that is asked for. Throws InputError.
sim::SearchSpecification specification_of(const SearchAsked& asked);

// Candidates and specification may be read while it runs, and what sim/search says is safe then;
// ranking and counts only once it has ended.
struct Searched {
  Searched(SearchAsked question, const sim::Control& control);
  SearchAsked asked;
  sim::Search search;
  std::vector<std::vector<std::string>> values;  // of space_rows(): what "open" means
};
using SearchedPtr = std::shared_ptr<const Searched>;

struct SearchPoint {
  sim::Evaluation evaluation;
  sim::Duration step_time;  // of a layout that does not fit: a lower bound
  bool leaves_margin = false;
};

using SearchResultPtr = std::shared_ptr<const sim::SearchResult>;

// SearchNews is what has happened since the last news.
struct SearchNews {
  std::vector<SearchPoint> points;
  sim::SearchProgress progress;  // the newest
  SearchResultPtr result;        // outline so far; null: as before
};

enum class SearchState { idle, listing, running, stopped, done };

class SearchJob : public QObject {
  Q_OBJECT

 public:
  explicit SearchJob(QObject* parent = nullptr);
  ~SearchJob() override;

  // In place of the one that is running, if any.
  void start(SearchAsked asked);
  void stop();
  SearchState state() const { return state_; }
  bool running() const { return state_ == SearchState::listing || state_ == SearchState::running; }
  // The newest; null before the layouts of the first are listed.
  const SearchedPtr& searched() const { return searched_; }
  const SearchResultPtr& result() const { return result_; }

 Q_SIGNALS:
  // All on the thread that the job was made on, about ten times a second, and with the first point.
  void state_changed();
  void listed();                           // searched() is another
  void progressed(const ui::SearchNews&);  // also while nothing is decided
  void failed(const std::vector<sim::Problem>&);

 private:
  struct Mail {  // from the thread
    std::uint64_t serial = 0;
    SearchedPtr searched;
    SearchNews news;
    std::optional<bool> ended;  // complete
    std::vector<sim::Problem> problems;
  };
  void work(const std::stop_token& stop);
  void search(const SearchAsked& asked, const sim::Control& control);
  void run(Searched& searched, const sim::Control& control);
  void post(std::uint64_t serial, const std::function<void(Mail&)>& write);
  void collect();
  void set_state(SearchState state);

  std::mutex mutex_;  // of what both threads use, to current_
  std::condition_variable_any asked_;
  std::optional<SearchAsked> waiting_;
  Mail mail_;
  bool any_point_ = false;  // of the newest search
  std::stop_source current_;

  std::uint64_t serial_ = 0;
  SearchState state_ = SearchState::idle;
  SearchedPtr searched_;
  SearchResultPtr result_;
  QTimer timer_;
  QElapsedTimer since_listed_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace ui
