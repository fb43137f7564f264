#include "ui/validate/row_job.hpp"

#include <algorithm>
#include <numeric>
#include <thread>
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

RowJob::RowJob(QObject* parent) : QObject{parent} {
  connect(&job_, &BackgroundJob::failed, this, &RowJob::failed);
  connect(&job_, &BackgroundJob::busy_changed, this, [this] {
    if (!job_.busy()) Q_EMIT ended();
  });
}

void RowJob::start(const std::string& folder) {
  job_.run([this, folder](const sim::Control& control) {
    const auto sets = std::make_shared<const std::vector<sim::MeasuredSet>>(load_sets(folder));
    Q_EMIT loaded(sets);
    std::vector<std::size_t> all(rows_of(*sets).size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    predict_all(sets, all, control);
    return BackgroundJob::Answer{};
  });
}

void RowJob::start(SetsPtr sets, std::vector<std::size_t> left) {
  job_.run([this, sets = std::move(sets), left = std::move(left)](const sim::Control& control) {
    predict_all(sets, left, control);
    return BackgroundJob::Answer{};
  });
}

void RowJob::stop() {
  job_.cancel();
}

void RowJob::predict_all(const SetsPtr& sets, const std::vector<std::size_t>& left,
                         const sim::Control& control) {
  const std::vector<RowAt> rows = rows_of(*sets);
  // The window needs a core, too.
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) - 1);
  sim::for_each_piece(left.size(), {.threads = threads}, [&](std::size_t i) {
    const auto& [set, row] = rows[left[i]];
    const sim::MeasuredSet& of = (*sets)[set];
    Q_EMIT predicted(left[i], std::make_shared<const sim::RowResult>(
                                  sim::predict(of, of.rows[row], {}, {.stop = control.stop})));
  });
}

}  // namespace ui
