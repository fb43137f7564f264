// The language models of a round of MLPerf Training, as submitters leave them in a folder:
// SUBMITTER/{benchmarks,results,systems}. Nothing of a log is read here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace sim {

// RoundSubmission: a system on a benchmark, and the job that its files describe.
struct RoundSubmission {
  std::string submitter, system, benchmark;
  int gpus = 0;         // of the system's description
  std::string config;   // that was read, below the round's folder
  std::string cluster;  // the name of a shipped machine
  std::string digest;   // of the files that the job was read from
  std::optional<Scenario> job{};
  std::string refused{};  // why there is no job

  std::string name() const { return submitter + "/" + system + "/" + benchmark; }
};

// submissions_of() lists what was submitted, in the order of the names: what the folder of results
// names, or, where a submitter has none, each system with each language model. Empty `submitters`:
// all. Throws InputError where the folder is no round.
std::vector<RoundSubmission> submissions_of(const std::string& folder,
                                            const std::vector<std::string>& submitters);

// The logs of a submission, in the order of their names. None: there are none (yet).
std::vector<std::string> logs_of(const std::string& folder, const std::string& submitter,
                                 const std::string& system, const std::string& benchmark);

}  // namespace sim
