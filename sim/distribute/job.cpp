#include "sim/distribute/job.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "sim/base/input_error.hpp"
#include "sim/distribute/launcher.hpp"
#include "sim/distribute/thread_limit.hpp"

namespace sim {
namespace {

// Cores that this process may use: a launcher may have bound it to some.
int allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

int threads_for(const WorkOptions& options, const Communicator* communicator, const JobHost& host) {
  if (options.threads > 0) return options.threads;
  if (!communicator) return allowed_cores();
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int share = std::max(1, cores / communicator->local_size());
  const int threads = std::min(share, allowed_cores());
  if (threads < share && communicator->rank() == 0)
    host.note(
        fmt::format("the launcher has bound each rank to {} of the {} cores that it could "
                    "have; mpirun --bind-to none frees them",
                    threads, share));
  return threads;
}

void refuse_copies(const Launch& launch, const std::string& why) {
  throw WrongLaunch{fmt::format(
      "{} has started {} copies of this program, {} give each its own part: --shard i/{}, then "
      "stepcast merge",
      launch.launcher, launch.size, why, launch.size)};
}

// The ranks that work together; null: this process works alone.
std::unique_ptr<Communicator> join_ranks(const WorkOptions& options, const Launch& launch) {
  if (options.is_part || launch.size == 1) return nullptr;
  if (!launch.speaks_mpi) refuse_copies(launch, "and it cannot join them;");
  if (!mpi_library()) refuse_copies(launch, "but this build has no MPI to join them;");
  std::unique_ptr<Communicator> communicator = join_mpi();
  if (communicator->size() != launch.size || communicator->rank() != launch.rank)
    refuse_copies(launch,
                  fmt::format("but {} does not see them as one job: start them with its own "
                              "mpirun, under Slurm with srun --mpi=pmix; or",
                              *mpi_library()));
  return communicator;
}

// The worker pool's, and as many for work that is parallel in itself.
class PoolThreads {
 public:
  explicit PoolThreads(int threads) : threads_{threads}, limit_{threads} {}
  int count() const { return threads_; }

 private:
  int threads_;
  ThreadLimit limit_;
};

int lead_job(const WorkOptions& options, const Job& job, const JobHost& host,
             Communicator* communicator, const JobKey& question, int threads) {
  ResultCache book;
  std::optional<RecordFile> file;
  if (!options.results.empty()) {
    std::error_code ignored;
    const RecordHeader header{question, options.shard,
                              std::filesystem::current_path(ignored).string()};
    file.emplace(shard_path(options.results, options.shard), header, options.resume,
                 job.read_answer, book);
    if (book.size() > 0) host.note(fmt::format("{}: {} answers known", file->path(), book.size()));
  }
  WorkerPool workers{job.work, threads, digest_of(question), communicator};
  if (communicator)
    host.note(fmt::format("{} ranks, {} threads", workers.ranks(), workers.threads()));
  const int code =
      job.lead({workers, book, file ? &*file : nullptr, host.control(communicator != nullptr)});
  workers.close();
  return code;
}

void tell_others(Communicator& communicator, const char* what) {
  for (int rank = 1; rank < communicator.size(); ++rank)
    communicator.send(rank, what);
}

// report_failure() is for the exception that is being handled. `speaks`: this process says it for
// all.
int report_failure(const JobHost& host, bool speaks) {
  const auto [code, text] = host.failure();
  if (speaks) host.note(text);
  return code;
}

// Rank 0. What goes wrong before the others were told to go ends them in peace; later, at once.
int lead_ranks(const WorkOptions& options, const Job& job, const JobHost& host,
               Communicator& communicator) {
  bool going = false;
  try {
    const PoolThreads threads{threads_for(options, &communicator, host)};
    const JobKey question = job.load(true);
    tell_others(communicator, "go");
    going = true;
    return lead_job(options, job, host, &communicator, question, threads.count());
  } catch (const std::exception&) {
    const int code = report_failure(host, true);
    if (going) communicator.abort(code);
    tell_others(communicator, "end");
    return code;
  }
}

int help_ranks(const WorkOptions& options, const Job& job, const JobHost& host,
               Communicator& communicator) {
  host.control(true);  // rank 0 decides what an end means
  const PoolThreads threads{threads_for(options, &communicator, host)};
  serve({.load = [&] { return digest_of(job.load(false)); },
         .work = job.work,
         .threads = threads.count(),
         .failure = host.failure},
        communicator);
  return 0;
}

}  // namespace

bool is_distributed(const WorkOptions& options) {
  const std::optional<Launch> launch = find_launch(process_variables());
  return !options.results.empty() || (launch && launch->size > 1);
}

int run_job(const WorkOptions& options, const Job& job, const JobHost& host) {
  const std::optional<Launch> launch = find_launch(process_variables());
  std::unique_ptr<Communicator> communicator;
  try {
    if (launch) communicator = join_ranks(options, *launch);
  } catch (const std::exception&) {
    return report_failure(host, launch->rank == 0);
  }
  if (!communicator) {
    const PoolThreads threads{threads_for(options, nullptr, host)};
    return lead_job(options, job, host, nullptr, job.load(true), threads.count());
  }
  return communicator->rank() == 0 ? lead_ranks(options, job, host, *communicator)
                                   : help_ranks(options, job, host, *communicator);
}

int run_job_from(ResultCache& book, const JobKey& recorded, int threads, const Job& job,
                 const JobHost& host) {
  const PoolThreads used{threads > 0 ? threads : allowed_cores()};
  const std::optional<Launch> launch = find_launch(process_variables());
  if (launch && launch->size > 1)
    throw WrongLaunch{launch->rank > 0
                          ? ""
                          : fmt::format("{} has started {} copies of this program; one is enough "
                                        "to merge",
                                        launch->launcher, launch->size)};
  const JobKey now = job.load(true);
  const std::string other = difference(recorded, now);
  if (!other.empty())
    throw InputError{SourcePosition{now.scenario.empty() ? "the records" : now.scenario, 0, 0},
                     fmt::format("the records answer another question: {}", other)};
  WorkerPool workers{job.work, used.count(), {}, nullptr};
  return job.lead({workers, book, nullptr, host.control(false)});
}

std::string part_text(const WorkOptions& options, const RecordFile& file, std::size_t evaluated,
                      bool complete) {
  if (!complete)
    return fmt::format("stopped; what was computed is in {}: go on with --resume", file.path());
  return fmt::format("part {} is done: {} computed, in {}; when all are: stepcast merge {}",
                     to_text(options.shard), evaluated, file.path(),
                     options.shard.whole()
                         ? file.path()
                         : fmt::format("{}.*-of-{}", options.results, options.shard.count));
}

}  // namespace sim
