#include "ui/choose/search_job.hpp"

#include <tbb/task_arena.h>

#include <chrono>

#include "ui/choose/space_table.hpp"

namespace ui {
namespace {

constexpr std::chrono::milliseconds news_every{100};
constexpr std::chrono::milliseconds outline_every{250};

using Clock = std::chrono::steady_clock;

SearchPoint point_of(const sim::Search& search, const sim::Evaluation& evaluation) {
  return {evaluation,
          evaluation.fits ? evaluation.step_time : search.bound_of(evaluation.index).step_time,
          search.ranking().leaves_margin(evaluation)};
}

sim::Problem problem_of(const SearchAsked& asked, const std::exception& error) {
  return {{asked.path, 0, 0}, error.what(), {}};
}

}  // namespace

sim::SearchSpecification specification_of(const SearchAsked& asked) {
  sim::SearchSpecification specification =
      sim::load_search(sim::ScenarioSources::of_text(asked.yaml, asked.path, asked.overrides));
  for (const std::string& key : asked.unset)
    unset(specification, key);
  return specification;
}

Searched::Searched(SearchAsked question, const sim::Control& control)
    : asked{std::move(question)},
      search{specification_of(asked), {}, control},
      values{values_of(search.specification(), search.candidates())} {}

SearchJob::SearchJob(QObject* parent) : QObject{parent} {
  connect(&timer_, &QTimer::timeout, this, &SearchJob::collect);
  thread_ = std::jthread{[this](const std::stop_token& stop) { work(stop); }};
}

SearchJob::~SearchJob() {
  thread_.request_stop();
  const std::lock_guard lock{mutex_};
  current_.request_stop();
}

void SearchJob::start(SearchAsked asked) {
  {
    const std::lock_guard lock{mutex_};
    asked.serial = ++serial_;
    mail_ = {};
    mail_.serial = asked.serial;
    any_point_ = false;
    waiting_ = std::move(asked);
    current_.request_stop();
    asked_.notify_one();
  }
  result_.reset();
  timer_.start(news_every);
  set_state(SearchState::listing);
}

void SearchJob::stop() {
  const std::lock_guard lock{mutex_};
  current_.request_stop();
  if (!waiting_) return;
  waiting_.reset();  // it has not even begun
  mail_.ended = false;
}

void SearchJob::work(const std::stop_token& stop) {
  while (true) {
    SearchAsked asked;
    std::stop_token told;
    {
      std::unique_lock lock{mutex_};
      if (!asked_.wait(lock, stop, [this] { return waiting_.has_value(); })) return;
      asked = *std::exchange(waiting_, std::nullopt);
      current_ = std::stop_source{};
      told = current_.get_token();
    }
    const std::stop_callback close{stop, [this] {
                                     const std::lock_guard lock{mutex_};
                                     current_.request_stop();
                                   }};
    try {
      search(asked, {.stop = told});
    } catch (const sim::Stopped&) {
      post(asked.serial, [](Mail& mail) { mail.ended = false; });
    } catch (const sim::InputError& error) {
      post(asked.serial, [&](Mail& mail) { mail.problems = error.problems(); });
    } catch (const std::exception& error) {
      const sim::Problem problem = problem_of(asked, error);
      post(asked.serial, [&](Mail& mail) { mail.problems = {problem}; });
    }
  }
}

void SearchJob::search(const SearchAsked& asked, const sim::Control& control) {
  tbb::task_arena arena{asked.threads > 0 ? asked.threads : tbb::task_arena::automatic};
  arena.execute([&] {
    const auto searched = std::make_shared<Searched>(asked, control);
    post(asked.serial, [&](Mail& mail) {
      mail.searched = searched;
      mail.news.progress.counts = searched->search.counts();
    });
    run(*searched, control);
  });
}

void SearchJob::run(Searched& searched, const sim::Control& control) {
  sim::Search& search = searched.search;
  const std::uint64_t serial = searched.asked.serial;
  const Clock::time_point begin = Clock::now();
  Clock::time_point outlined = begin;
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  sim::Control bounding = control;
  bounding.progress = [&](const sim::Progress&) {
    post(serial, [&](Mail& mail) {
      mail.news.progress.counts = search.counts();
      mail.news.progress.seconds = seconds();
    });
  };
  const auto after_wave = [&](const sim::SearchProgress& progress) {
    SearchResultPtr result;
    if (Clock::now() - outlined > outline_every) {
      result = std::make_shared<const sim::SearchResult>(sim::outline_result(search, false));
      outlined = Clock::now();
    }
    post(serial, [&](Mail& mail) {
      mail.news.progress = progress;
      if (result) mail.news.result = result;
    });
  };
  const auto evaluated = [&](const sim::Judged& judged) {
    if (judged.verdict == sim::Verdict::too_slow || judged.verdict == sim::Verdict::outranked)
      return;
    const SearchPoint point = point_of(search, judged.evaluation);
    post(serial, [&](Mail& mail) { mail.news.points.push_back(point); });
  };
  const bool complete = sim::run_search(search, bounding, after_wave, evaluated);
  // With the parts of the layouts that are listed: their intervals decide the order.
  const auto result = std::make_shared<const sim::SearchResult>(sim::make_result(search, complete));
  post(serial, [&](Mail& mail) {
    mail.news.progress = {search.counts(), seconds(), search.ranking().favourite()};
    mail.news.result = result;
    mail.ended = complete;
  });
}

void SearchJob::post(std::uint64_t serial, const std::function<void(Mail&)>& write) {
  const std::lock_guard lock{mutex_};
  if (mail_.serial != serial) return;  // of an older search
  write(mail_);
  const bool first = !mail_.news.points.empty() && !std::exchange(any_point_, true);
  if (first || mail_.ended || !mail_.problems.empty())
    QMetaObject::invokeMethod(this, &SearchJob::collect, Qt::QueuedConnection);
}

void SearchJob::collect() {
  if (!running()) return;
  Mail mail;
  {
    const std::lock_guard lock{mutex_};
    mail.searched = std::exchange(mail_.searched, nullptr);
    mail.ended = mail_.ended;
    mail.problems = std::exchange(mail_.problems, {});
    mail.news.points = std::exchange(mail_.news.points, {});
    mail.news.result = std::exchange(mail_.news.result, nullptr);
    mail.news.progress = mail_.news.progress;
  }
  if (mail.searched) {
    searched_ = mail.searched;
    since_listed_.start();
    set_state(SearchState::running);
    Q_EMIT listed();
  }
  if (mail.news.result) result_ = mail.news.result;
  if (!mail.problems.empty()) {
    timer_.stop();
    set_state(SearchState::idle);
    Q_EMIT failed(mail.problems);
    return;
  }
  if (!mail.ended && since_listed_.isValid())
    mail.news.progress.seconds = static_cast<double>(since_listed_.elapsed()) / 1000;
  if (state_ == SearchState::running) Q_EMIT progressed(mail.news);
  if (!mail.ended) return;
  timer_.stop();
  set_state(*mail.ended ? SearchState::done : SearchState::stopped);
}

void SearchJob::set_state(SearchState state) {
  if (state_ == state) return;
  state_ = state;
  Q_EMIT state_changed();
}

}  // namespace ui
