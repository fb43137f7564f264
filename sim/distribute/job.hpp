// A job, and where its work is done: by this process alone, by the ranks of one mpirun, or by one
// task of an array that talks to nobody; and what is kept of it.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "sim/base/control.hpp"
#include "sim/distribute/record_file.hpp"
#include "sim/distribute/worker_pool.hpp"

namespace sim {

struct WorkOptions {
  std::string results;  // file of records; empty: nothing is kept
  bool resume = false;  // it goes on with what the file has
  bool is_part = false;
  Shard shard{};    // of a part
  int threads = 0;  // 0: all cores, or this rank's part of them
};

// Whether it takes more than the threads of this process and its memory.
bool is_distributed(const WorkOptions& options);

// Copies of the program that a launcher has started and that would all do the same. The text may be
// empty: another copy says it.
class WrongLaunch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Lead is what the leader of a job has.
struct Lead {
  WorkerPool& workers;
  ResultCache& book;
  RecordFile* file;  // may be null
  Control control;   // asks for an end
};

struct Job {
  // Reads the input, in each process once. The one that leads also prepares what `lead` needs.
  std::function<JobKey(bool leads)> load;
  Task work;
  ReadAnswer read_answer;
  std::function<int(const Lead& lead)> lead;  // returns the exit code
};

// The program around a job.
struct JobHost {
  std::function<void(const std::string& text)> note;  // for people
  // Exit code and text of the exception that is being handled.
  std::function<std::pair<int, std::string>()> failure;
  // Asked when the work begins. `ranks`: this process is one of several.
  std::function<Control(bool ranks)> control;
};

// Runs a job with this process as the leader, or as a helper of another rank that leads, and
// returns the exit code. Throws WrongLaunch, and what the job throws.
int run_job(const WorkOptions& options, const Job& job, const JobHost& host);

// The same from records alone, alone. `recorded`: the key of the job that they are of. Throws
// InputError where this job is another.
int run_job_from(ResultCache& book, const JobKey& recorded, int threads, const Job& job,
                 const JobHost& host);

// part_text() is for a part that is done, or was stopped: what is there, and what to do next.
std::string part_text(const WorkOptions& options, const RecordFile& file, std::size_t evaluated,
                      bool complete);

}  // namespace sim
