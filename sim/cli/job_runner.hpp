// Where the work of a search or a sweep is done: this process, the ranks of mpirun, one task of an
// array; and what is kept of it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "sim/base/control.hpp"
#include "sim/cli/command.hpp"
#include "sim/distribute/record_file.hpp"
#include "sim/distribute/worker_pool.hpp"

namespace sim {

struct WorkOptions {
  std::string results;  // empty: nothing is kept
  bool resume = false;
  bool is_part = false;  // --shard was given
  Shard shard{};
  int threads = 0;  // 0: all cores, or this rank's part of them
};

// --results, --resume, --shard and --threads.
Options work_options(WorkOptions& options);

// Whether it takes more than the threads of this process and its memory.
bool needs_crew(const WorkOptions& options);

// Who leads the work, with all that it takes.
struct Lead {
  WorkerPool& workers;
  ResultCache& book;
  RecordFile* file;  // may be null
  Control control;   // Ctrl-C asks for an end
};

struct Job {
  // Reads the input, in each process once. The one that leads also prepares what `lead` needs.
  std::function<JobKey(bool leads)> load;
  Task work;
  ReadAnswer read_answer;
  std::function<ExitCode(const Lead& lead)> lead;
};

// Runs a job with this process as the leader, or as a helper of another rank that leads. Refuses to
// run as one of several copies that would all do the same.
ExitCode run_job(const WorkOptions& options, const Job& job);

// The same from records alone, alone. REQUIRES: question_is() holds for them.
ExitCode run_job_from(ResultCache& book, const JobKey& recorded, int threads, const Job& job);

// Stopped by Ctrl-C; by SIGTERM too where that is all that mpirun lets ranks hear of Ctrl-C. The
// second one ends the program.
Control stop_on_signals(bool also_terminate);

// The threads that this program uses while it lives; 0: all cores.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();

 private:
  struct Limit;
  std::unique_ptr<Limit> limit_;
};

// What a part that is done, or stopped, has to say.
void note_part(const WorkOptions& options, const RecordFile& file, std::size_t evaluated,
               bool complete);

}  // namespace sim
