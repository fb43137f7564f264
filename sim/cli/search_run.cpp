// stepcast search: running it, showing what it found.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>

#include "sim/cli/hand_over.hpp"
#include "sim/cli/search_request.hpp"
#include "sim/report/numbers.hpp"
#include "sim/search/distributed_search.hpp"
#include "sim/search/result.hpp"

namespace sim {
namespace {

// One line, written over again: "12,345 of 67,890 left, 210 simulated, 1,234/s, best 5.634 s".
void show_progress(const SearchProgress& progress) {
  const SearchCounts& counts = progress.counts;
  const std::uint64_t decided = counts.legal - counts.open;
  const double rate = progress.seconds > 0 ? static_cast<double>(decided) / progress.seconds : 0;
  const double left = rate > 0 ? static_cast<double>(counts.open) / rate : 0;
  const std::string line = fmt::format(
      "\r{} of {} layouts decided, {} simulated, {}/s, at most {:.0f} s left, best {}",
      grouped(decided), grouped(counts.legal), grouped(counts.simulated), significant(rate), left,
      progress.best ? precise(progress.best->step_time) : "none yet");
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fwrite("\033[K", 1, 3, stderr);
}

using RunSearch =
    std::function<bool(Search& search, const std::function<void(const SearchProgress&)>& progress)>;

// Runs `run` with a line of progress where somebody sees it. False: stopped early.
bool run_shown(const SearchRequest& request, Search& search, const RunSearch& run) {
  const bool shows = !request.no_progress && isatty(STDERR_FILENO) == 1;
  const bool complete = run(search, shows ? show_progress : decltype(&show_progress){});
  if (shows) print_note("");
  return complete;
}

// At once, before anything is simulated again: mpirun gives ranks a second to end.
void note_best_so_far(const Search& search) {
  const std::optional<Evaluation> best = search.ranking().favourite();
  if (!best) return print_note("stopped before a layout was found");
  print_note(
      fmt::format("stopped; best so far: {}, {}", precise(best->step_time),
                  describe(layout_of(search.specification(), search.candidates(), best->index))));
}

void note_rate(const SearchCounts& counts, double seconds) {
  const std::uint64_t decided = counts.legal - counts.open;
  print_note(fmt::format("{} layouts in {:.1f} s: {} layouts/s", grouped(decided), seconds,
                         significant(static_cast<double>(decided) / seconds)));
}

ExitCode show_result(const SearchRequest& request, Search& search, bool complete, double seconds) {
  const SearchResult result = make_result(search, complete);
  // The standard output has one thing: the winner's file, if it goes there.
  const RankedLayout* favourite = result.favourite();
  const bool emits = request.emit && favourite;
  const std::string ranking =
      in_format(request.output, result, search_table, search_json, search_csv, search_markdown);
  if (emits && request.emit_to.empty())
    print_note(ranking);
  else
    print_result(ranking);
  note_rate(result.counts, seconds);
  if (emits)
    hand_over(take_scenario(std::move(search), favourite->evaluation.index), *request.emit,
              request.emit_to);
  if (!complete) return ExitCode::interrupted;
  if (favourite) return ExitCode::done;
  print_note(result.nothing_fits);
  return ExitCode::does_not_fit;
}

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

ExitCode search_here(const SearchRequest& request) {
  const ThreadLimit threads{request.work.threads};
  SearchSpecification specification = load_search(sources_of(request));
  const Control control = stop_on_signals(false);
  const Stopwatch watch;
  Search search{std::move(specification), {}, control};
  const bool complete = run_shown(request, search, [&](Search& one, const auto& progress) {
    return run_search(one, control, progress);
  });
  return show_result(request, search, complete, watch.seconds());
}

// The search as a job. What it reads lives as long as this does.
class SearchJob {
 public:
  explicit SearchJob(const SearchRequest& request) : request_{request} {}

  Job job() {
    return {.load = [this](bool leads) { return load(leads); },
            .work = [this](std::uint64_t unit) { return evaluate_(unit); },
            .read_answer = read_search_answer,
            .lead = [this](const Lead& lead) { return this->lead(lead); }};
  }

 private:
  JobKey load(bool leads) {
    JobKey question{.command = "search",
                    .version = STEPCAST_VERSION,
                    .scenario = request_.scenario,
                    .arguments = arguments_of(request_)};
    const InputLog log;
    SearchSpecification specification = load_search(sources_of(request_));
    question.files = log.files();
    if (leads) {
      search_ = std::make_unique<Search>(std::move(specification), request_.work.shard);
      evaluate_ = evaluate_units(search_->specification(), search_->candidates());
      question.units = search_->candidates().all.size();
    } else {
      specification_ = std::make_unique<SearchSpecification>(std::move(specification));
      candidates_ = list_candidates(*specification_);
      evaluate_ = evaluate_units(*specification_, candidates_);
      question.units = candidates_.all.size();
    }
    return question;
  }

  ExitCode lead(const Lead& lead) {
    const Stopwatch watch;
    DistributedSearch workers{*search_, lead.workers, lead.book, lead.file};
    const bool complete = run_shown(request_, *search_, [&](Search&, const auto& progress) {
      return workers.run(lead.control, progress);
    });
    const double seconds = watch.seconds();
    if (complete && lead.file) lead.file->finish();
    if (!complete) note_best_so_far(*search_);
    if (lead.file && (request_.work.is_part || !complete))
      note_part(request_.work, *lead.file, workers.evaluated(), complete);
    if (request_.work.is_part) return complete ? ExitCode::done : ExitCode::interrupted;
    print_note(fmt::format("{} layouts evaluated now", workers.evaluated()));
    return show_result(request_, *search_, complete, seconds);
  }

  const SearchRequest& request_;
  std::unique_ptr<Search> search_;                      // of who leads
  std::unique_ptr<SearchSpecification> specification_;  // of who helps
  Candidates candidates_;
  Task evaluate_;
};

}  // namespace

ExitCode run_search_request(const SearchRequest& request) {
  if (!needs_crew(request.work)) return search_here(request);
  SearchJob job{request};
  return run_job(request.work, job.job());
}

ExitCode run_search_request(const SearchRequest& request, ResultCache& book,
                            const JobKey& recorded) {
  SearchJob job{request};
  return run_job_from(book, recorded, request.work.threads, job.job());
}

}  // namespace sim
