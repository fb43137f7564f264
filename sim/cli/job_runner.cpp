#include "sim/cli/job_runner.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <semaphore.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <thread>

#include "sim/base/input_error.hpp"
#include "sim/cli/failure.hpp"
#include "sim/distribute/launcher.hpp"

namespace sim {
namespace {

std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free, "it is set in a signal handler");

sem_t asked;  // posted with stop_asked: a handler may call nothing that stop_source needs

extern "C" void ask_to_stop(int) {
  if (stop_asked.exchange(true)) _exit(static_cast<int>(ExitCode::interrupted));
  sem_post(&asked);
}

// Made once, and never destroyed: the thread that waits for a signal may outlive main().
std::stop_source& signalled() {
  static std::stop_source& source = []() -> std::stop_source& {
    auto* made = new std::stop_source;
    sem_init(&asked, 0, 0);
    std::thread{[made] {
      while (sem_wait(&asked) != 0) {
      }
      made->request_stop();
    }}.detach();
    return *made;
  }();
  return source;
}

// Cores that this process may use: a launcher may have bound it to some.
int allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

int threads_for(const WorkOptions& options, const Communicator* communicator) {
  if (options.threads > 0) return options.threads;
  if (!communicator) return allowed_cores();
  const int cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int share = std::max(1, cores / communicator->local_size());
  const int threads = std::min(share, allowed_cores());
  if (threads < share && communicator->rank() == 0)
    print_note(
        fmt::format("the launcher has bound each rank to {} of the {} cores that it could "
                    "have; mpirun --bind-to none frees them",
                    threads, share));
  return threads;
}

void refuse_copies(const Launch& launch, const std::string& why) {
  throw WrongUse{fmt::format(
      "{} has started {} copies of this program, {} give each its own part: --shard i/{}, then "
      "stepcast merge",
      launch.launcher, launch.size, why, launch.size)};
}

// The ranks that work together; null: this process works alone.
std::unique_ptr<Communicator> find_team(const WorkOptions& options, const Launch& launch) {
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
class CrewThreads {
 public:
  explicit CrewThreads(int threads) : threads_{threads}, limit_{threads} {}
  int count() const { return threads_; }

 private:
  int threads_;
  ThreadLimit limit_;
};

ExitCode lead_job(const WorkOptions& options, const Job& job, Communicator* communicator,
                  const JobKey& question, int threads) {
  ResultCache book;
  std::optional<RecordFile> file;
  if (!options.results.empty()) {
    std::error_code ignored;
    const RecordHeader header{question, options.shard,
                              std::filesystem::current_path(ignored).string()};
    file.emplace(shard_path(options.results, options.shard), header, options.resume,
                 job.read_answer, book);
    if (book.size() > 0) print_note(fmt::format("{}: {} answers known", file->path(), book.size()));
  }
  WorkerPool workers{job.work, threads, digest_of(question), communicator};
  if (communicator)
    print_note(fmt::format("{} ranks, {} threads", workers.ranks(), workers.threads()));
  const ExitCode code =
      job.lead({workers, book, file ? &*file : nullptr, stop_on_signals(communicator != nullptr)});
  workers.close();
  return code;
}

void tell_others(Communicator& communicator, const char* what) {
  for (int rank = 1; rank < communicator.size(); ++rank)
    communicator.send(rank, what);
}

// Rank 0. What goes wrong before the others were told to go ends them in peace; later, at once.
ExitCode lead_team(const WorkOptions& options, const Job& job, Communicator& communicator) {
  bool going = false;
  try {
    const CrewThreads threads{threads_for(options, &communicator)};
    const JobKey question = job.load(true);
    tell_others(communicator, "go");
    going = true;
    return lead_job(options, job, &communicator, question, threads.count());
  } catch (const std::exception&) {
    const Failure failure = current_failure();
    print_note(failure.text);
    if (going) communicator.abort(static_cast<int>(failure.code));
    tell_others(communicator, "end");
    return failure.code;
  }
}

ExitCode help_team(const WorkOptions& options, const Job& job, Communicator& communicator) {
  stop_on_signals(true);  // rank 0 decides what they mean
  const CrewThreads threads{threads_for(options, &communicator)};
  serve({.load = [&] { return digest_of(job.load(false)); },
         .work = job.work,
         .threads = threads.count(),
         .failure =
             [] {
               const Failure failure = current_failure();
               return std::pair{static_cast<int>(failure.code), failure.text};
             }},
        communicator);
  return ExitCode::done;
}

}  // namespace

Options work_options(WorkOptions& options) {
  const auto read_shard = [&options](const std::string& text) {
    options.shard = parse_shard(text);
    options.is_part = true;
  };
  return {{.name = "--threads",
           .into = &options.threads,
           .form = "N",
           .help = "threads to use (all cores)",
           .check = CountFrom{1, 4096}},
          {.name = "--results",
           .into = &options.results,
           .form = "FILE",
           .help = "keep what was computed, line by line"},
          {.name = "--resume",
           .into = &options.resume,
           .help = "go on with what --results has",
           .needs = {"--results"}},
          {.name = "--shard",
           .into = read_shard,
           .form = "i/n",
           .help = "do part i of n, counted from 0, without talking to the others; then stepcast "
                   "merge",
           .needs = {"--results"}}};
}

bool needs_crew(const WorkOptions& options) {
  const std::optional<Launch> launch = find_launch(process_variables());
  return !options.results.empty() || (launch && launch->size > 1);
}

Control stop_on_signals(bool also_terminate) {
  std::stop_source& source = signalled();
  std::signal(SIGINT, ask_to_stop);
  if (also_terminate) std::signal(SIGTERM, ask_to_stop);
  return {.stop = source.get_token()};
}

// Made in place: a copy of a control ends the limit when the original goes.
struct ThreadLimit::Limit {
  explicit Limit(std::size_t threads)
      : control{tbb::global_control::max_allowed_parallelism, threads} {}
  tbb::global_control control;
};

ThreadLimit::ThreadLimit(int threads) {
  if (threads > 0) limit_ = std::make_unique<Limit>(static_cast<std::size_t>(threads));
}
ThreadLimit::~ThreadLimit() = default;

ExitCode run_job(const WorkOptions& options, const Job& job) {
  const std::optional<Launch> launch = find_launch(process_variables());
  std::unique_ptr<Communicator> communicator;
  try {
    if (launch) communicator = find_team(options, *launch);
  } catch (const std::exception&) {
    const Failure failure = current_failure();
    if (launch->rank == 0) print_note(failure.text);  // one message, not one of each copy
    return failure.code;
  }
  if (!communicator) {
    const CrewThreads threads{threads_for(options, nullptr)};
    return lead_job(options, job, nullptr, job.load(true), threads.count());
  }
  return communicator->rank() == 0 ? lead_team(options, job, *communicator)
                                   : help_team(options, job, *communicator);
}

ExitCode run_job_from(ResultCache& book, const JobKey& recorded, int threads, const Job& job) {
  const CrewThreads used{threads > 0 ? threads : allowed_cores()};
  const std::optional<Launch> launch = find_launch(process_variables());
  if (launch && launch->size > 1 && launch->rank > 0) return ExitCode::usage;
  if (launch && launch->size > 1)
    throw WrongUse{fmt::format("{} has started {} copies of this program; one is enough to merge",
                               launch->launcher, launch->size)};
  const JobKey now = job.load(true);
  const std::string other = difference(recorded, now);
  if (!other.empty())
    throw InputError{SourcePosition{now.scenario.empty() ? "the records" : now.scenario, 0, 0},
                     fmt::format("the records answer another question: {}", other)};
  WorkerPool workers{job.work, used.count(), {}, nullptr};
  return job.lead({workers, book, nullptr, stop_on_signals(false)});
}

void note_part(const WorkOptions& options, const RecordFile& file, std::size_t evaluated,
               bool complete) {
  if (!complete) {
    print_note(
        fmt::format("stopped; what was computed is in {}: go on with --resume", file.path()));
    return;
  }
  print_note(fmt::format("part {} is done: {} computed, in {}; when all are: stepcast merge {}",
                         to_text(options.shard), evaluated, file.path(),
                         options.shard.whole()
                             ? file.path()
                             : fmt::format("{}.*-of-{}", options.results, options.shard.count)));
}

}  // namespace sim
