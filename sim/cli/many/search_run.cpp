// stepcast search: running it, showing what it found.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include "sim/base/deadline.hpp"
#include "sim/base/quantity.hpp"
#include "sim/base/table_text.hpp"
#include "sim/cli/hand_over.hpp"
#include "sim/cli/many/search_request.hpp"
#include "sim/distribute/thread_limit.hpp"
#include "sim/page/search_page.hpp"
#include "sim/search/distributed_search.hpp"
#include "sim/search/progress_text.hpp"
#include "sim/search/result.hpp"
#include "sim/search/search_job.hpp"

namespace sim {
namespace {

// One line, written over again.
void show_progress(const SearchProgress& progress) {
  const std::string line = '\r' + progress_line(progress) + "\033[K";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

using ShowProgress = std::function<void(const SearchProgress&)>;

// Each layout that is better than those before, in a line of its own.
class Improvements {
 public:
  explicit Improvements(const Search& search) : search_{search} {}

  void show(const SearchProgress& progress) {
    const std::optional<Evaluation>& best = progress.best;
    if (!best || (known_ && best->step_time >= *known_)) return;
    known_ = best->step_time;
    const Layout layout = layout_of(search_.specification(), search_.candidates(), best->index);
    const std::string line = fmt::format("\r{:.1f} s: {}, {}\033[K\n", progress.seconds,
                                         precise(best->step_time), describe(layout));
    std::fwrite(line.data(), 1, line.size(), stderr);
  }

 private:
  const Search& search_;
  std::optional<Duration> known_;
};

// Runs `run` with improvements and a line of progress where somebody sees them. False: stopped
// early.
bool run_shown(const SearchRequest& request, const Search& search,
               const std::function<bool(const ShowProgress&)>& run) {
  const bool shows = !request.no_progress && isatty(STDERR_FILENO) == 1;
  if (!shows) return run({});
  Improvements improvements{search};
  const bool complete = run([&](const SearchProgress& progress) {
    improvements.show(progress);
    show_progress(progress);
  });
  print_note("");
  return complete;
}

// The time of --within; zero: none is given.
std::chrono::nanoseconds time_within(const std::string& time) {
  if (time.empty()) return {};
  const Parsed<Duration> parsed = parse_duration(time);
  if (const auto* wrong = std::get_if<QuantityError>(&parsed))
    throw InputError{SourcePosition{.file = "--within"}, wrong->problem};
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::get<Duration>(parsed));
}

ExitCode show_result(const SearchRequest& request, Search& search, bool complete, bool in_time,
                     double seconds) {
  const SearchResult result = make_result(search, complete);
  // The standard output has one thing: the winner's file, if it goes there.
  const RankedLayout* favourite = result.favourite();
  const bool emits = request.emit && favourite;
  const auto page = [](const SearchResult& shown) { return search_page(shown, command_text()); };
  const std::string ranking = in_format(request.output, result, search_table, search_json,
                                        search_csv, search_markdown, page);
  if (emits && request.emit_to.empty())
    print_note(ranking);
  else
    print_result(ranking);
  print_note(rate_line(result.counts, seconds));
  if (emits)
    hand_over(take_scenario(std::move(search), favourite->evaluation.index), *request.emit,
              request.emit_to);
  if (!complete && !(in_time && favourite)) return ExitCode::interrupted;
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

ExitCode search_within(const SearchRequest& request, const Deadline& within) {
  const Control control = within.control();
  const Stopwatch watch;
  Search search{load_search(search_sources(request.scenario, request.workload)), {}, control};
  const bool complete = run_shown(
      request, search, [&](const ShowProgress& show) { return run_search(search, control, show); });
  return show_result(request, search, complete, within.is_over(), watch.seconds());
}

ExitCode search_here(const SearchRequest& request) {
  const ThreadLimit threads{request.work.threads};
  const Deadline within{stop_on_signals(false).stop, time_within(request.within)};
  try {
    return search_within(request, within);
  } catch (const Stopped&) {
    if (!within.is_over()) throw;
    print_note(fmt::format("no layout was found within {}: they were still being bounded",
                           request.within));
    return ExitCode::interrupted;
  }
}

ExitCode lead_search(const SearchRequest& request, Search& search, const Lead& leader) {
  const Stopwatch watch;
  DistributedSearch workers{search, leader.workers, leader.book, leader.file};
  const bool complete = run_shown(
      request, search, [&](const ShowProgress& show) { return workers.run(leader.control, show); });
  const double seconds = watch.seconds();
  if (complete && leader.file) leader.file->finish();
  // At once, before anything is simulated again: mpirun gives ranks a second to end.
  if (!complete) print_note(stopped_line(search));
  if (leader.file && (request.work.is_part || !complete))
    print_note(part_text(request.work, *leader.file, workers.evaluated(), complete));
  if (request.work.is_part) return complete ? ExitCode::done : ExitCode::interrupted;
  print_note(fmt::format("{} layouts evaluated now", workers.evaluated()));
  return show_result(request, search, complete, false, seconds);
}

Job job_of(const SearchRequest& request, SearchJob& job) {
  return {.load = [&](bool leads) { return job.load(leads); },
          .work = [&](std::uint64_t unit) { return job.evaluate(unit); },
          .read_answer = read_search_answer,
          .lead =
              [&](const Lead& leader) {
                return static_cast<int>(lead_search(request, job.search(), leader));
              }};
}

// for_target() makes sure that what --emit writes can run: the space of the search is its
// framework's, unless the command line names one.
SearchRequest for_target(SearchRequest request) {
  constexpr std::string_view key = "search.framework=";
  std::vector<std::string>& overrides = request.workload.overrides;
  const bool named = std::ranges::any_of(
      overrides, [&](const std::string& text) { return text.starts_with(key); });
  if (!request.emit || *request.emit == Target::scenario || named) return request;
  const PresetName framework = *request.emit == Target::megatron     ? PresetName::megatron
                               : *request.emit == Target::torchtitan ? PresetName::torchtitan
                               : *request.emit == Target::nemo       ? PresetName::megatron_bridge
                                                               : PresetName::megatron_deepspeed;
  overrides.push_back(fmt::format("{}{}", key, word(framework)));
  return request;
}

}  // namespace

ExitCode run_search_request(const SearchRequest& asked) {
  const SearchRequest request = for_target(asked);
  if (!is_distributed(request.work)) return search_here(request);
  if (!request.within.empty())
    throw InputError{SourcePosition{.file = "--within"}, "is of a search in one process"};
  SearchJob job{request.scenario, request.workload, request.work.shard};
  return run_here(request.work, job_of(request, job));
}

ExitCode run_search_request(const SearchRequest& request, ResultCache& book,
                            const JobKey& recorded) {
  SearchJob job{request.scenario, request.workload, request.work.shard};
  return run_recorded(book, recorded, request.work.threads, job_of(request, job));
}

}  // namespace sim
