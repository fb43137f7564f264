#include "ui/validate/row_job.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "sim/base/parallel.hpp"

namespace ui {

std::vector<sim::MeasuredSet> load_sets(const std::string& folder) {
  std::vector<sim::MeasuredSet> sets;
  for (const std::string& name : sim::measured_sets(folder))
    sets.push_back(sim::load_measured_set(folder + '/' + name + "/measured.yaml"));
  return sets;
}

std::vector<RowAt> rows_of(const std::vector<sim::MeasuredSet>& sets) {
  std::vector<RowAt> rows;
  for (std::size_t set = 0; set < sets.size(); ++set)
    for (std::size_t row = 0; row < sets[set].rows.size(); ++row)
      rows.push_back({set, row});
  return rows;
}

RowJob::RowJob(QObject* parent) : QObject{parent} {}

RowJob::~RowJob() {
  thread_.request_stop();
}

void RowJob::start(const std::string& folder) {
  run([this, folder](const std::stop_token& stop) {
    const auto sets = std::make_shared<const std::vector<sim::MeasuredSet>>(load_sets(folder));
    Q_EMIT loaded(sets);
    std::vector<std::size_t> all(rows_of(*sets).size());
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = i;
    predict_all(sets, all, stop);
  });
}

void RowJob::start(SetsPtr sets, std::vector<std::size_t> left) {
  run([this, sets = std::move(sets), left = std::move(left)](const std::stop_token& stop) {
    predict_all(sets, left, stop);
  });
}

void RowJob::stop() {
  thread_.request_stop();
}

void RowJob::run(std::function<void(const std::stop_token&)> work) {
  thread_ = {};  // stops and joins what ran
  running_ = true;
  const int number = ++runs_;
  thread_ = std::jthread{[this, number, work = std::move(work)](const std::stop_token& stop) {
    try {
      work(stop);
    } catch (const sim::Stopped&) {
    } catch (const std::exception& error) {
      Q_EMIT failed(error.what());
    }
    QMetaObject::invokeMethod(
        this, [this, number] { finish(number); }, Qt::QueuedConnection);
  }};
}

void RowJob::predict_all(const SetsPtr& sets, const std::vector<std::size_t>& left,
                         const std::stop_token& stop) {
  const std::vector<RowAt> rows = rows_of(*sets);
  // The window needs a core, too.
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) - 1);
  sim::for_each_piece(left.size(), {.threads = threads}, [&](std::size_t i) {
    const auto& [set, row] = rows[left[i]];
    const sim::MeasuredSet& of = (*sets)[set];
    Q_EMIT predicted(left[i], std::make_shared<const sim::RowResult>(sim::predict(
                                  of, of.rows[row], sim::Mechanism::none, {.stop = stop})));
  });
}

void RowJob::finish(int run) {
  if (run != runs_) return;
  running_ = false;
  Q_EMIT ended();
}

}  // namespace ui
