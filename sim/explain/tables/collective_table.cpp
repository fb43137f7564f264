#include "sim/explain/tables/collective_table.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/collective/collective_cost.hpp"
#include "sim/explain/activity_class.hpp"

namespace sim {
namespace {

struct CallSum {
  CollectiveRow row;
  std::optional<CollectiveKind> kind{};
  std::vector<Duration> transfers{};
};

using CallKey = std::tuple<std::string, std::string, std::int64_t>;

int ranks_of(const TracedRun& run, std::int32_t group) {
  if (group < 0) return 0;
  const TracedGroup& of = run.groups[static_cast<std::size_t>(group)];
  return of.size > 0 ? of.size : static_cast<int>(of.ranks.size());
}

void add_call(const TracedRun& run, const RunRank& rank, const DeviceActivity& activity,
              TimePoint ready, std::map<CallKey, CallSum>& sums) {
  const CollectiveCall call = call_of(rank, activity);
  const std::string kind =
      activity.call >= 0 ? std::string{name_of_call(call)} : kernel_words(run.names[activity.name]);
  const std::string group = label_of_group(run, call.group);
  CallSum& sum = sums[{kind, group, call.bytes.count()}];
  sum.row.kind = kind;
  sum.row.group = group;
  sum.row.ranks = ranks_of(run, call.group);
  sum.row.bytes = call.bytes;
  sum.kind = call.kind;
  sum.row.count += 1;
  sum.row.seconds += to_seconds(activity.time());
  sum.row.waiting_seconds += to_seconds(ready - activity.begin);
  sum.transfers.push_back(activity.end - ready);
}

void finish(CallSum& sum, double steps) {
  const auto middle = sum.transfers.begin() + static_cast<std::ptrdiff_t>(sum.transfers.size() / 2);
  std::nth_element(sum.transfers.begin(), middle, sum.transfers.end());
  sum.row.median = *middle;
  sum.row.count /= steps;
  sum.row.seconds /= steps;
  sum.row.waiting_seconds /= steps;
  const double seconds = to_seconds(sum.row.median);
  if (sum.kind && sum.row.ranks > 1 && seconds > 0)
    sum.row.bus =
        Bandwidth::bytes_per_second(static_cast<double>(sum.row.bytes.count()) / seconds) *
        bus_factor(*sum.kind, sum.row.ranks);
}

}  // namespace

std::vector<CollectiveRow> collective_table(const TracedRun& run, const RunSteps& steps,
                                            const CountedSteps& counted, const Arrivals& arrivals) {
  std::map<CallKey, CallSum> sums;
  std::size_t looked_at = 0;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    const RunRank& rank = run.ranks[r];
    looked_at += static_cast<std::size_t>(std::count(counted[r].begin(), counted[r].end(), true));
    for (std::size_t i = 0; i < rank.device.size(); ++i) {
      const std::int32_t step = steps.ranks[r].step_of[i];
      if (step == not_told || !counted[r][static_cast<std::size_t>(step)]) continue;
      if (class_of_activity(rank.device[i]) == ActivityClass::communication)
        add_call(run, rank, rank.device[i], arrivals.ready[r][i], sums);
    }
  }
  std::vector<CollectiveRow> rows;
  for (auto& [key, sum] : sums) {
    finish(sum, static_cast<double>(std::max<std::size_t>(1, looked_at)));
    rows.push_back(std::move(sum.row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const CollectiveRow& a, const CollectiveRow& b) {
    return a.seconds > b.seconds;
  });
  return rows;
}

}  // namespace sim
