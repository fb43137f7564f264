#include "sim/cli/train/job_host.hpp"

#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "sim/cli/failure.hpp"

namespace sim {
namespace {

std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free, "it is set in a signal handler");

sem_t stop_posted;  // posted with stop_asked: a handler may call nothing that stop_source needs

extern "C" void ask_to_stop(int) {
  if (stop_asked.exchange(true)) _exit(static_cast<int>(ExitCode::interrupted));
  sem_post(&stop_posted);
}

// Made once, and never destroyed: the thread that waits for a signal may outlive main().
std::stop_source& signalled() {
  static std::stop_source& source = []() -> std::stop_source& {
    auto* made = new std::stop_source;
    sem_init(&stop_posted, 0, 0);
    std::thread{[made] {
      while (sem_wait(&stop_posted) != 0) {
      }
      made->request_stop();
    }}.detach();
    return *made;
  }();
  return source;
}

}  // namespace

Control stop_on_signals(bool also_terminate) {
  std::stop_source& source = signalled();
  std::signal(SIGINT, ask_to_stop);
  if (also_terminate) std::signal(SIGTERM, ask_to_stop);
  return {.stop = source.get_token()};
}

namespace {

JobHost job_host() {
  return {.note = print_note,
          .failure =
              [] {
                const Failure failure = current_failure();
                return std::pair{static_cast<int>(failure.code), failure.text};
              },
          .control = stop_on_signals};
}

}  // namespace

ExitCode run_here(const WorkOptions& options, const Job& job) {
  return static_cast<ExitCode>(run_job(options, job, job_host()));
}

ExitCode run_recorded(ResultCache& book, const JobKey& recorded, int threads, const Job& job) {
  return static_cast<ExitCode>(run_job_from(book, recorded, threads, job, job_host()));
}

Options work_options(WorkOptions& options) {
  const auto read_shard = [&options](const std::string& text) {
    options.shard = parse_shard(text);
    options.is_part = true;
  };
  return {threads_option(options.threads),
          {.name = "--results",
           .into = &options.results,
           .form = "FILE",
           .help = "keep what was computed, line by line",
           .writes = Output::file},
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

}  // namespace sim
