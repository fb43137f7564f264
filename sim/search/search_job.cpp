#include "sim/search/search_job.hpp"

#include "sim/config/input_log.hpp"
#include "sim/search/distributed_search.hpp"

namespace sim {

SearchJob::SearchJob(std::string scenario, Workload workload, Shard shard)
    : scenario_{std::move(scenario)}, workload_{std::move(workload)}, shard_{shard} {}

JobKey SearchJob::load(bool leads) {
  JobKey key{.command = "search",
             .version = STEPCAST_VERSION,
             .scenario = scenario_,
             .arguments = arguments_of(workload_)};
  const InputLog log;
  SearchSpecification specification = load_search(search_sources(scenario_, workload_));
  key.files = log.files();
  if (leads) {
    search_.emplace(std::move(specification), shard_);
    evaluate_ = evaluate_units(search_->specification(), search_->candidates());
    key.units = search_->candidates().all.size();
  } else {
    specification_.emplace(std::move(specification));
    candidates_ = list_candidates(*specification_);
    evaluate_ = evaluate_units(*specification_, candidates_);
    key.units = candidates_.all.size();
  }
  return key;
}

}  // namespace sim
