// The result of a search, ready to be shown. A function of the specification and of the
// evaluations.
#pragma once

#include <string>
#include <vector>

#include "sim/search/search.hpp"
#include "sim/timeline/breakdown.hpp"
#include "sim/topology/unvalidated.hpp"
#include "sim/uncertainty/job_traits.hpp"
#include "sim/uncertainty/time_interval.hpp"

namespace sim {

struct RankedLayout {
  Evaluation evaluation;
  Layout layout;
  int gpus_per_node = 0;  // that it uses
  double tokens_per_second_per_gpu = 0;
  double mfu = 0;
  Breakdown breakdown;  // mean over the ranks
  // The following are set for layouts that are shown with their parts, where error figures are
  // shipped.
  std::optional<TimeInterval> interval{};  // of the step time
  std::optional<JobTraits> traits{};
  std::optional<double> chance_behind{};  // that the first of its list is faster, [0, 1]
  // regret: the mean cost of choosing this layout instead of the truly fastest of the list, as a
  // share of the fastest one's time.
  std::optional<double> regret{};
  Duration exposed() const { return breakdown.exposed(); }
};

struct FrontLayout {
  Evaluation evaluation;
  Layout layout;
  int gpus_per_node = 0;
  bool leaves_margin = true;
  double gpu_hours_per_step = 0;
};

struct SearchResult {
  std::string title, path, model, cluster, device;
  std::vector<Unvalidated> not_validated{};
  bool complete = true;  // false: stopped early
  // Then: the part of the best one's step time by which what is left could be faster, at most.
  std::optional<double> could_be_faster{};
  SearchCounts counts;
  Bytes capacity{};
  int node_gpus = 0;  // of a node of the cluster
  std::uint64_t seed = 0;
  std::optional<double> price_per_gpu_hour;
  std::string margin;  // what a layout must leave of the device, in words; empty: nothing
  std::vector<RankedLayout> best;
  // Faster than these, but within the margin; if none leaves it, all that fit.
  std::vector<RankedLayout> within_margin;
  const RankedLayout* favourite() const;  // null: nothing fits
  std::string comparison;                 // of the first with the second; empty without
  std::vector<FrontLayout> memory_front, gpus_front, cost_front;
  std::string nothing_fits;  // what is closest, what would help; empty: something fits
};

// Simulates the layouts that are shown once more, for their parts.
SearchResult make_result(const Search& search, bool complete);
// The same at once: without the parts of ranked layouts, all zero, and without the comparison.
SearchResult outline_result(const Search& search, bool complete);
// One layout with its parts. REQUIRES: it fits. Thread-safe, also while the search runs. Throws
// Stopped.
RankedLayout ranked(const Search& search, const Evaluation& evaluation,
                    const Control& control = {});
// Orders one list of layouts by what they take on the average, which is the forecast times the mean
// of its error: of two that are as fast, the one that is less sure comes behind. Fills in
// chance_behind and regret. Does nothing where layouts lack their parts.
void weigh_errors(const TimeErrors* errors, std::vector<RankedLayout>& layouts);
// outline() is a layout without its parts, and so without a simulation.
RankedLayout outline(const Search& search, const Evaluation& evaluation);

std::string search_table(const SearchResult& result);
std::string search_json(const SearchResult& result);
std::string search_csv(const SearchResult& result);
std::string search_markdown(const SearchResult& result);

// The layout in one line, with the GPUs that it uses of each node where some are idle.
template <class Shown>
std::string describe(const Shown& shown, int node_gpus) {
  std::string text = describe(shown.layout);
  if (shown.gpus_per_node < node_gpus && shown.layout.world_size() > shown.gpus_per_node) {
    text += ' ';
    text += std::to_string(shown.gpus_per_node);
    text += "/node";
  }
  return text;
}

// differences() are the keys of the scenario that differ, as "pipeline_parallel 8 -> 16".
std::vector<std::string> differences(const Layout& from, const Layout& to);

}  // namespace sim
