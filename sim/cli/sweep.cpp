// stepcast sweep: the forecast at every point of a grid.
#include "sim/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>

#include "sim/cli/sweep_request.hpp"
#include "sim/cli/unvalidated_note.hpp"
#include "sim/search/search.hpp"
#include "sim/sweep/distributed_sweep.hpp"

namespace sim {
namespace {

// What followed the values of the points, each line once.
void print_notes_of_points(const Sweep& sweep) {
  std::set<std::string> told;
  for (std::size_t i = 0; i < sweep.points.size(); ++i)
    for (const std::string& note : sweep.points[i].notes)
      if (told.insert(note).second)
        print_note(
            fmt::format("{}: {}", fmt::join(assignments(sweep.specification.axes, i), ", "), note));
}

ExitCode show_sweep(const SweepRequest& request, const Sweep& sweep) {
  print_notes_of_points(sweep);
  if (!request.plot.empty()) write_plot(request.plot, sweep_svg(sweep));
  note_unvalidated(request.scenario, request.overrides);
  print_result(
      in_format(request.output, sweep, sweep_table, sweep_json, sweep_csv, sweep_markdown));
  return ExitCode::done;
}

SweepSpecification specification_of(const SweepRequest& request) {
  return load_sweep(request.scenario, request.overrides, request.over, request.best);
}

ExitCode sweep_here(const SweepRequest& request) {
  const SweepSpecification specification = specification_of(request);
  const ThreadLimit threads{request.work.threads};
  PointCounter counter{request.no_progress};
  return show_sweep(request, run_sweep(specification, counter.callback()));
}

// The sweep as a job. What it reads lives as long as this does.
class SweepJob {
 public:
  explicit SweepJob(const SweepRequest& request) : request_{request} {}

  Job job() {
    return {.load = [this](bool /*leads*/) { return load(); },
            .work = [this](std::uint64_t unit) { return forecast_(unit); },
            .read_answer = read_sweep_answer,
            .lead = [this](const Lead& lead) { return this->lead(lead); }};
  }

 private:
  JobKey load() {
    JobKey question{.command = "sweep",
                    .version = STEPCAST_VERSION,
                    .scenario = request_.scenario,
                    .arguments = arguments()};
    specification_ = specification_of(request_);
    forecast_ = forecast_units(specification_);
    question.files = files_of(specification_);
    question.units = point_count(specification_.axes);
    return question;
  }

  std::vector<std::string> arguments() const {
    std::vector<std::string> arguments;
    for (const std::string& text : request_.overrides)
      arguments.insert(arguments.end(), {"--set", text});
    for (const std::string& text : request_.over)
      arguments.insert(arguments.end(), {"--over", text});
    if (request_.best) arguments.emplace_back("--best");
    return arguments;
  }

  ExitCode lead(const Lead& lead) {
    std::size_t forecast = 0;
    PointCounter counter{request_.no_progress};
    const std::function<void()> count = counter.callback();
    DistributedSweep workers{.specification = specification_,
                             .workers = lead.workers,
                             .book = lead.book,
                             .file = lead.file,
                             .shard = request_.work.shard,
                             .done = [&] {
                               ++forecast;
                               if (count) count();
                             }};
    const bool complete = workers.run(lead.control);
    if (complete && lead.file) lead.file->finish();
    if (lead.file && (request_.work.is_part || !complete))
      note_part(request_.work, *lead.file, forecast, complete);
    else if (!complete)
      print_note("stopped: a sweep shows all of its points, or none; --results keeps them");
    if (!complete) return ExitCode::interrupted;
    if (request_.work.is_part) return ExitCode::done;
    print_note(fmt::format("{} points forecast now", forecast));
    return show_sweep(request_, workers.result());
  }

  const SweepRequest& request_;
  SweepSpecification specification_;
  Task forecast_;
};

}  // namespace

Options point_options(PointRequest& request) {
  return {scenario_option(request.scenario),
          output_option(request.output),
          set_option(request.overrides, " at every point"),
          {.name = "--no-progress",
           .into = &request.no_progress,
           .help = "no counter on the terminal"}};
}

void write_plot(const std::string& path, const std::string& svg) {
  write_text_file(path, svg);
  print_note(fmt::format("plot: {}", path));
}

ExitCode run_sweep_request(const SweepRequest& request) {
  if (!needs_crew(request.work)) return sweep_here(request);
  SweepJob job{request};
  return run_job(request.work, job.job());
}

ExitCode run_sweep_request(const SweepRequest& request, ResultCache& book, const JobKey& recorded) {
  SweepJob job{request};
  return run_job_from(book, recorded, request.work.threads, job.job());
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
