// A search as a job of sim/distribute: what its ranks read, and the key of its records.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sim/distribute/job_key.hpp"
#include "sim/distribute/worker_pool.hpp"
#include "sim/search/search.hpp"
#include "sim/search/workload.hpp"

namespace sim {

class SearchJob {
 public:
  // `scenario`: a file; empty: the workload says it all. `shard`: whose candidates are looked at.
  SearchJob(std::string scenario, Workload workload, Shard shard);

  // Reads the input, once. Only who leads gets a search. Throws as load_search() does.
  JobKey load(bool leads);
  // One candidate. REQUIRES: load(). Thread-safe.
  std::string evaluate(std::uint64_t unit) const { return evaluate_(unit); }
  Search& search() { return *search_; }  // REQUIRES: load(true)

 private:
  std::string scenario_;
  Workload workload_;
  Shard shard_;
  std::optional<Search> search_;                      // of who leads
  std::optional<SearchSpecification> specification_;  // of who helps
  Candidates candidates_;
  Task evaluate_;
};

}  // namespace sim
