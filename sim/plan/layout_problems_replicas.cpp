// Replicas with micro-batches of their own number (Layout::replica_batches).
#include <numeric>

#include "sim/plan/layout_problem_list.hpp"

namespace sim {
namespace {

constexpr const char* replica_key = "replica_batches";

// What makes replicas meet in every micro-batch, so that all need as many.
void check_meetings(const Layout& layout, LayoutProblemList& list) {
  const auto refuse = [&](bool set, const char* key, const char* why, const char* allowed) {
    if (set)
      list.problem(key, "replicas have micro-batches of their own number, but {}; allowed: {}", why,
                   allowed);
  };
  refuse(layout.zero_stage > 1, "zero_stage",
         "under zero_stage 2 and 3 they exchange gradients or parameters in every micro-batch",
         "0, 1, or replica_batches: even");
  refuse(layout.expert_parallel > 1, "expert_parallel",
         "they exchange the tokens of experts in every micro-batch", "1, or replica_batches: even");
  refuse(layout.pipeline_runs > 1, "pipeline_runs", "a step has several runs of the pipeline",
         "1, or replica_batches: even");
  refuse(layout.trains_apart(), "local_steps.every", "they take local steps",
         "1, or replica_batches: even");
  refuse(layout.has_servers(), "servers", "a server waits for each", "none, or even");
  refuse(layout.has_lengths(), "packing.lengths", "the lengths of sequences are drawn for each",
         "none, or replica_batches: even");
}

}  // namespace

std::vector<LayoutProblem> replica_problems(const Layout& layout) {
  LayoutProblemList list;
  const std::vector<int>& batches = layout.replica_batches;
  if (static_cast<int>(batches.size()) != layout.data_parallel)
    list.problem(replica_key, "replica_batches has {} entries; data_parallel is {}", batches.size(),
                 layout.data_parallel);
  const std::int64_t sum = std::accumulate(batches.begin(), batches.end(), std::int64_t{0});
  for (std::size_t i = 0; i < batches.size(); ++i)
    if (batches[i] < 1)
      list.problem(replica_key, "entry {} of replica_batches is {}; allowed: 1 or more", i,
                   batches[i]);
  if (list.problems.empty() && sum * layout.micro_batch != layout.global_batch)
    list.problem(
        "global_batch",
        "global_batch is {}, but replica_batches sums to {} micro-batches of {} sequences; "
        "allowed: {}",
        layout.global_batch, sum, layout.micro_batch, sum * layout.micro_batch);
  check_meetings(layout, list);
  return std::move(list.problems);
}

}  // namespace sim
