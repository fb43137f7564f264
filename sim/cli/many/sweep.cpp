// stepcast sweep: the forecast at every point of a grid.
#include "sim/sweep/sweep.hpp"

#include <fmt/format.h>

#include <memory>

#include "sim/cli/many/sweep_request.hpp"
#include "sim/cli/unvalidated_note.hpp"
#include "sim/distribute/thread_limit.hpp"
#include "sim/sweep/distributed_sweep.hpp"

namespace sim {
namespace {

ExitCode show_sweep(const SweepRequest& request, const Sweep& sweep) {
  for (const std::string& note : notes_of_points(sweep))
    print_note(note);
  if (!request.plot.empty()) write_plot(request.plot, sweep_svg(sweep));
  note_unvalidated(request.scenario, request.overrides);
  print_result(
      in_format(request.output, sweep, sweep_table, sweep_json, sweep_csv, sweep_markdown));
  return ExitCode::done;
}

SweepQuestion question_of(const SweepRequest& request) {
  return {.scenario = request.scenario,
          .overrides = request.overrides,
          .over = request.over,
          .best = request.best};
}

ExitCode sweep_here(const SweepRequest& request) {
  const SweepSpecification specification = load_sweep(question_of(request));
  const ThreadLimit threads{request.work.threads};
  PointCounter counter{request.no_progress};
  return show_sweep(request, run_sweep(specification, counter.callback()));
}

ExitCode lead_sweep(const SweepRequest& request, const SweepSpecification& specification,
                    const Lead& leader) {
  std::size_t forecast = 0;
  PointCounter counter{request.no_progress};
  const std::function<void()> count = counter.callback();
  DistributedSweep workers{.specification = specification,
                           .workers = leader.workers,
                           .book = leader.book,
                           .file = leader.file,
                           .shard = request.work.shard,
                           .done = [&] {
                             ++forecast;
                             if (count) count();
                           }};
  const bool complete = workers.run(leader.control);
  if (complete && leader.file) leader.file->finish();
  if (leader.file && (request.work.is_part || !complete))
    print_note(part_text(request.work, *leader.file, forecast, complete));
  else if (!complete)
    print_note("stopped: a sweep shows all of its points, or none; --results keeps them");
  if (!complete) return ExitCode::interrupted;
  if (request.work.is_part) return ExitCode::done;
  print_note(fmt::format("{} points forecast now", forecast));
  return show_sweep(request, workers.result());
}

Job job_of(const SweepRequest& request, SweepJob& job) {
  return {.load = [&](bool /*leads*/) { return job.load(); },
          .work = [&](std::uint64_t unit) { return job.forecast(unit); },
          .read_answer = read_sweep_answer,
          .lead =
              [&](const Lead& leader) {
                return static_cast<int>(lead_sweep(request, job.specification(), leader));
              }};
}

}  // namespace

ExitCode run_sweep_request(const SweepRequest& request) {
  if (!is_distributed(request.work)) return sweep_here(request);
  SweepJob job{question_of(request)};
  return run_here(request.work, job_of(request, job));
}

ExitCode run_sweep_request(const SweepRequest& request, ResultCache& book, const JobKey& recorded) {
  SweepJob job{question_of(request)};
  return run_recorded(book, recorded, request.work.threads, job_of(request, job));
}

Command sweep_command_of(const std::shared_ptr<SweepRequest>& request) {
  return {.name = "sweep",
          .help = "forecasts over a grid of values",
          .options =
              joined({point_options(*request),
                      {{.name = "--over",
                        .into = &request->over,
                        .form = "KEY=VALUES",
                        .help = "a key of the scenario and its values: 1,2,4 or 8..64*2 or 1..9+2; "
                                "several: a grid, the last fastest",
                        .repeated = true},
                       {.name = "--best",
                        .into = &request->best,
                        .help = "search the best layout anew at every point"}},
                      work_options(request->work),
                      {{.name = "--plot",
                        .into = &request->plot,
                        .form = "FILE",
                        .help = "write a plot of step times (SVG)",
                        .writes = Output::file,
                        .excludes = {"--shard"}}}}),
          .footer =
              "Example: stepcast sweep scenarios/llama-3.1-70b-512-h100.yaml "
              "--over cluster.change.node.nics.bandwidth='100 Gbps..800 Gbps*2' --plot nics.svg",
          .run = [request] { return run_sweep_request(*request); }};
}

Command sweep_command() {
  return sweep_command_of(std::make_shared<SweepRequest>());
}

}  // namespace sim
