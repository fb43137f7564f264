// stepcast validate real: the scenarios of a suite, run for real and forecast, side by side.
#include <unistd.h>

#include <memory>

#include "real/jobs/record_folder.hpp"
#include "real/jobs/suite_run.hpp"
#include "sim/cli/train/engine.hpp"
#include "sim/cli/train/run_end.hpp"
#include "sim/scores/real/real_tables.hpp"

namespace sim {
namespace {

struct ValidateRealRequest {
  std::string suite;
  std::string cluster;  // instead of the suite's
  std::string results;
  std::string records;
  std::vector<std::string> only;
  OutputFormat output = OutputFormat::table;
  bool no_run = false;
  // A rank that is a process of its own: it runs from this scenario on, and reports nothing.
  int member_from = -1;
};

real::SuiteRunOptions options_of(const ValidateRealRequest& request, const RealSuite& suite,
                                 const std::string& folder) {
  const auto arguments = [request, cluster = suite.cluster, folder](std::size_t first) {
    std::vector<std::string> words{"validate",  "real",          request.suite,
                                   "--cluster", cluster,         "--records",
                                   folder,      "--member-from", std::to_string(first)};
    for (const std::string& name : request.only)
      words.insert(words.end(), {"--only", name});
    return words;
  };
  return {.folder = folder, .announce = isatty(STDERR_FILENO) == 1, .arguments = arguments};
}

ExitCode verdict(const RealScore& score, const SuiteBounds& bounds) {
  if (!exceeded(score, bounds).empty()) return ExitCode::bound_exceeded;
  return too_noisy(score, bounds).empty() ? ExitCode::done : ExitCode::failed;
}

ExitCode validate_suite(const ValidateRealRequest& request) {
  const RealSuite suite = real::choose_scenarios(load_real_suite(find_suite(request.suite)),
                                                 request.only, request.cluster);
  std::vector<real::SuiteForecast> forecasts = real::forecast_suite(suite);
  if (request.member_from >= 0)
    return report_end(real::run_from(suite, forecasts,
                                     static_cast<std::size_t>(request.member_from),
                                     options_of(request, suite, request.records)));
  const real::RecordFolder folder{request.records};
  const bool interrupted =
      !request.no_run &&
      real::run_scenarios(suite, forecasts, options_of(request, suite, folder.path())) ==
          real::RunEnd::interrupted;
  const RealResult result = real::score_suite(suite, std::move(forecasts), folder.path());
  if (!request.results.empty()) write_text_file(request.results, real_csv(result));
  print_result(in_format(request.output, result, real_table, real_json, real_csv, real_markdown));
  return interrupted ? ExitCode::interrupted : verdict(result.score, suite.bounds);
}

Options options_into(ValidateRealRequest& request) {
  return {{.name = "SUITE",
           .into = &request.suite,
           .help = "suite file, or the name of a shipped one",
           .required = true},
          {.name = "--cluster",
           .into = &request.cluster,
           .form = "FILE",
           .help = "the calibrated cluster file, instead of the suite's"},
          {.name = "--results",
           .into = &request.results,
           .form = "FILE",
           .help = "write the raw results as CSV",
           .writes = Output::file},
          {.name = "--records",
           .into = &request.records,
           .form = "FOLDER",
           .help = "keep a record of each scenario in a folder",
           .writes = Output::folder},
          {.name = "--only",
           .into = &request.only,
           .form = "NAME",
           .help = "only this scenario (may be repeated)",
           .repeated = true},
          {.name = "--no-run",
           .into = &request.no_run,
           .help = "score the records that are there",
           .needs = {"--records"}},
          {.name = "--member-from", .into = &request.member_from, .hidden = true},
          output_option(request.output)};
}

}  // namespace

Command validate_real_command() {
  const auto request = std::make_shared<ValidateRealRequest>();
  return {.name = "real",
          .help = "run a suite of scenarios for real, beside its forecasts",
          .options = options_into(*request),
          .footer =
              "Exit code 5: a bound of the suite is exceeded. 1: the machine is too noisy for a "
              "verdict.\n"
              "Example: stepcast validate real host-2 --cluster here/cluster.yaml --results "
              "results.csv",
          .run = [request] {
            return run_among_ranks("validate real", {}, [&] { return validate_suite(*request); });
          }};
}

}  // namespace sim
