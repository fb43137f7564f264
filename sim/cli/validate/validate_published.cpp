// stepcast validate published|ablation|ranking|memory-error|peers: the shipped sets.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "sim/cli/validate/validate.hpp"
#include "sim/scores/ablation.hpp"
#include "sim/scores/errors/anchored.hpp"
#include "sim/scores/errors/chances.hpp"
#include "sim/scores/errors/error_rows.hpp"
#include "sim/scores/errors/memory_error_rows.hpp"
#include "sim/scores/errors/time_error_fit.hpp"
#include "sim/scores/measured_jobs.hpp"
#include "sim/scores/other_simulators.hpp"
#include "sim/scores/published.hpp"
#include "sim/scores/scatter.hpp"
#include "sim/scores/tables.hpp"

namespace sim {
namespace {

std::string shipped_folder() {
  return data_folder() + "/validation";
}

std::vector<SetResult> forecast_sets(const PublishedRequest& request,
                                     const PredictOptions& options = {}) {
  const auto tell = [](const std::string& set) {
    if (isatty(STDERR_FILENO) == 1) print_note("simulating " + set);
  };
  return validate_sets(load_sets(shipped_folder(), request.sets), tell, options);
}

ExitCode verdict(const std::vector<std::string>& beyond) {
  for (const std::string& problem : beyond)
    print_note("stepcast validate: bound exceeded: " + problem);
  return beyond.empty() ? ExitCode::done : ExitCode::bound_exceeded;
}

Command command_of(const char* name, const char* help,
                   Options (*options)(PublishedRequest& request),
                   ExitCode (*run)(const PublishedRequest& request)) {
  const auto request = std::make_shared<PublishedRequest>();
  return {.name = name, .help = help, .options = options(*request), .run = [request, run] {
            return run(*request);
          }};
}

Options no_options(PublishedRequest& /*request*/) {
  return {};
}
Options format_options(PublishedRequest& request) {
  return {output_option(request.output)};
}
Options anchored_options(PublishedRequest& request) {
  return {
      {.name = "--runs",
       .into = &request.anchor_runs,
       .form = "N",
       .help = "anchor each job on its runs on so many numbers of GPUs, the smallest",
       .check = CountFrom{1, 8}},
      {.name = "--unnamed", .into = &request.unnamed, .help = "as if no run named its framework"},
      output_option(request.output)};
}
Options unnamed_options(PublishedRequest& request) {
  return {
      {.name = "--unnamed", .into = &request.unnamed, .help = "as if no run named its framework"}};
}
Options set_options(PublishedRequest& request) {
  return {{.name = "--set",
           .into = &request.sets,
           .form = "NAME",
           .help = "only this set (may be repeated)",
           .repeated = true},
          output_option(request.output)};
}

Options error_row_options(PublishedRequest& request) {
  return joined({set_options(request), unnamed_options(request)});
}

}  // namespace

Options published_options(PublishedRequest& request) {
  return joined({set_options(request),
                 {{.name = "--picture",
                   .into = &request.picture,
                   .form = "FILE.svg",
                   .help = "write predicted against measured as a picture (SVG)",
                   .writes = Output::file}}});
}

void print_validation(OutputFormat format, const std::vector<SetResult>& results,
                      const std::string& picture) {
  const auto page = [](const std::vector<SetResult>& shown) {
    return page_of(validation_table(shown), validation_markdown(shown), validation_json(shown),
                   scatter_svg(shown));
  };
  print_result(in_format(format, results, validation_table, validation_json, validation_csv,
                         validation_markdown, page));
  if (picture.empty()) return;
  write_text_file(picture, scatter_svg(results));
  print_note(fmt::format("picture: {}", picture));
}

bool up_to_date(const char* file, const char* command, bool is) {
  if (!is)
    print_note(
        fmt::format("stepcast validate: validation/{}.yaml is not what these rows say: make "
                    "it anew with `stepcast validate {}`",
                    file, command));
  return is;
}

ExitCode show_published(const PublishedRequest& request) {
  const std::string folder = shipped_folder();
  const bool all = request.sets.empty();
  const std::vector<SetResult> results = forecast_sets(request, {.traits = all});
  print_validation(request.output, results, request.picture);
  std::vector<std::string> beyond = beyond_bounds(results, folder);
  if (!all) return verdict(beyond);
  const TimeErrorFit fit = time_error_of(results);
  const std::vector<std::string> of_intervals = beyond_bounds(fit.coverage, folder);
  beyond.insert(beyond.end(), of_intervals.begin(), of_intervals.end());
  const ExitCode code = verdict(beyond);
  const bool memory =
      up_to_date("memory-error", "memory-error", has_memory_error_of(folder, results));
  const bool time = up_to_date("time-error", "time-error", has_time_error_of(folder, fit));
  return memory && time ? code : ExitCode::bound_exceeded;
}

ExitCode show_memory_error(const PublishedRequest& request) {
  print_result(memory_error_yaml(memory_excesses(forecast_sets(request))));
  return ExitCode::done;
}

std::vector<SetResult> forecast_unnamed(const PublishedRequest& request) {
  return forecast_sets(request, {.without = Mechanism::framework, .traits = true});
}

ExitCode show_error_rows(const PublishedRequest& request) {
  if (request.unnamed) {
    UnnamedRows rows = unnamed_rows(forecast_unnamed(request));
    rows.left_out.insert(rows.left_out.end(), rows.held_out.begin(), rows.held_out.end());
    print_result(error_rows_csv(rows.left_out));
    return ExitCode::done;
  }
  print_result(error_rows_csv(error_rows(forecast_sets(request, {.traits = true}))));
  return ExitCode::done;
}

TimeErrorFit fitted_time_error(const PublishedRequest& request) {
  return time_error_of(forecast_sets(request, {.traits = true}));
}

UnnamedErrorFit fitted_unnamed_error() {
  const std::vector<SetResult> results = forecast_sets({}, {.traits = true});
  return fit_unnamed_error(unnamed_rows(forecast_unnamed({})), error_rows(results),
                           time_error_of(results));
}

ExitCode show_time_error(const PublishedRequest& request) {
  print_result(request.unnamed ? unnamed_error_file(fitted_unnamed_error())
                               : time_error_file(fitted_time_error(request)));
  return ExitCode::done;
}

ExitCode show_unnamed_coverage() {
  const UnnamedErrorFit fit = fitted_unnamed_error();
  print_result(unnamed_coverage_table(fit));
  const ExitCode code = verdict(beyond_bounds(fit, shipped_folder()));
  const bool current = up_to_date("unnamed-error", "time-error --unnamed",
                                  has_unnamed_error_of(shipped_folder(), fit));
  return current ? code : ExitCode::bound_exceeded;
}

ExitCode show_coverage(const PublishedRequest& request) {
  if (request.unnamed) return show_unnamed_coverage();
  const std::vector<Coverage> coverage = fitted_time_error(request).coverage;
  print_result(coverage_table(coverage));
  return verdict(beyond_bounds(coverage, shipped_folder()));
}

ExitCode show_anchored(const PublishedRequest& request) {
  std::vector<SetResult> results = forecast_sets({}, {.traits = true});
  const TimeErrorFit fit = time_error_of(results);
  AnchoredStudy study{.runs = request.anchor_runs};
  if (request.unnamed) {
    study.without = Mechanism::framework;
    results = forecast_sets({}, {.without = study.without, .traits = true});
  }
  const std::vector<AnchoredGroup> groups = anchored_groups(results, fit, study);
  print_result(in_format(request.output, std::span<const AnchoredGroup>{groups},
                         anchored_groups_table, anchored_groups_json, anchored_groups_csv,
                         anchored_groups_markdown));
  const bool bounded = study.runs == 1 && !request.unnamed;
  return bounded ? verdict(beyond_bounds(groups, shipped_folder())) : ExitCode::done;
}

ExitCode show_chances(const PublishedRequest& request) {
  const std::vector<SetResult> results = forecast_sets({}, {.traits = true});
  const TimeErrorFit fit = time_error_of(results);
  const std::optional<MemoryErrors> memory = shipped_memory_errors();
  const std::vector<ChanceTest> tests = test_chances(results, fit, memory ? &*memory : nullptr);
  print_result(in_format(request.output, std::span<const ChanceTest>{tests}, chances_table,
                         chances_json, chances_csv, chances_markdown));
  return ExitCode::done;
}

ExitCode show_jobs(const PublishedRequest& /*request*/) {
  const std::string folder = shipped_folder() + "/jobs";
  const std::vector<JobResult> results = forecast_jobs(load_jobs(folder));
  print_result(jobs_table(results));
  return verdict(beyond_bounds(scores_of(results), folder));
}

ExitCode show_ablation(const PublishedRequest& request) {
  const Ablation ablation = ablate(load_sets(shipped_folder(), request.sets));
  print_result(in_format(request.output, ablation, ablation_table, ablation_json, ablation_csv,
                         ablation_markdown));
  return ExitCode::done;
}

ExitCode show_peers(const PublishedRequest& request) {
  const std::vector<PeerResult> beside = compare_with_peers(shipped_folder());
  print_result(in_format(request.output, beside, peer_table, peer_json, peer_csv, peer_markdown));
  return ExitCode::done;
}

ExitCode show_ranking(const PublishedRequest& request) {
  const std::string folder = shipped_folder();
  const std::optional<MemoryErrors> errors = shipped_memory_errors();
  std::vector<GroupRank> ranks;
  for (const MeasuredSet& set : load_sets(folder, request.sets)) {
    const std::vector<GroupRank> found = rank_groups(set, errors);
    ranks.insert(ranks.end(), found.begin(), found.end());
  }
  print_result(in_format(request.output, ranks, favourites_table, favourites_json, favourites_csv,
                         favourites_markdown));
  return verdict(beyond_bounds(ranks, folder, !request.sets.empty()));
}

std::vector<Command> published_commands() {
  return {
      command_of("published", "the published runs that are shipped, set by set", published_options,
                 show_published),
      command_of("anchored", "jobs that were measured at several scales, anchored on the smallest",
                 anchored_options, show_anchored),
      command_of("chances",
                 "how often the first of two layouts was faster, and layouts fit, by the chance "
                 "that was told",
                 format_options, show_chances),
      command_of("ablation", "the errors with each mechanism of the forecast left out", set_options,
                 show_ablation),
      command_of("ranking",
                 "studies of many layouts: how high the forecast ranks the truly fastest",
                 set_options, show_ranking),
      command_of("peers", "other simulators beside this one, on the same rows", format_options,
                 show_peers),
      command_of("jobs", "peak memory of jobs of Megatron-LM, imported from their arguments",
                 no_options, show_jobs),
      command_of("memory-error",
                 "the error of the memory forecast, as validation/memory-error.yaml has it",
                 no_options, show_memory_error),
      command_of("error-rows",
                 "the errors of the time forecast row by row, with what they may depend on (CSV)",
                 error_row_options, show_error_rows),
      command_of("time-error",
                 "the error of the time forecast, as validation/time-error.yaml has it",
                 unnamed_options, show_time_error),
      command_of("coverage", "how many rows of each set the intervals of the others hold",
                 unnamed_options, show_coverage)};
}

}  // namespace sim
