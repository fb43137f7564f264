// A search whose candidates are evaluated by a worker pool: threads, ranks of MPI, or nobody, where
// records of shards or of an earlier run have the answers already.
//
// The search is the one of search.hpp, wave by wave; where an evaluation comes from makes no
// difference to it. So its result and all its counts are the same, byte for byte, on any workers.
// Idle workers evaluate what the next wave will probably have.
#pragma once

#include <set>

#include "sim/distribute/record_file.hpp"
#include "sim/distribute/worker_pool.hpp"
#include "sim/search/search.hpp"

namespace sim {

// evaluate_units() is for WorkerPool and Service; read_search_answer() for parse_records().
Task evaluate_units(const SearchSpecification& specification, const Candidates& candidates);
std::string read_search_answer(const ObjectReader& answer);

class DistributedSearch {
 public:
  // `file` may be null: then answers are not kept.
  DistributedSearch(Search& search, WorkerPool& workers, ResultCache& book, RecordFile* file)
      : search_{search}, workers_{workers}, book_{book}, file_{file} {}

  // As run_search().
  bool run(const Control& control, const std::function<void(const SearchProgress&)>& progress = {});
  std::size_t evaluated() const { return evaluated_; }  // of which there was no record

 private:
  void complete(const std::vector<std::uint32_t>& wave, const Control& control);
  void hand_out(const std::vector<std::uint32_t>& wave, std::size_t& next,
                std::vector<std::uint32_t>& likely);
  bool is_open(std::uint32_t unit) const;
  void submit(std::uint32_t unit);
  void take_answer();
  std::vector<Evaluation> known_of(const std::vector<std::uint32_t>& wave) const;

  Search& search_;
  WorkerPool& workers_;
  ResultCache& book_;
  RecordFile* file_;
  std::set<std::uint64_t> under_way_;
  std::size_t evaluated_ = 0;
};

}  // namespace sim
