// stepcast validate real: the scenarios of a suite, run for real and forecast, side by side.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "real/calibrate/run_suite.hpp"
#include "sim/base/input_error.hpp"
#include "sim/cli/engine.hpp"
#include "sim/cli/real_forecast.hpp"
#include "sim/cli/run_end.hpp"
#include "sim/cli/training_run.hpp"
#include "sim/timeline/complete_file.hpp"
#include "sim/validation/real_tables.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

struct Request {
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

// A folder that is gone when the command is through, unless the user named it.
class RecordFolder {
 public:
  explicit RecordFolder(const std::string& named) : path_{named}, temporary_{named.empty()} {
    if (temporary_) {
      std::string pattern = (fs::temp_directory_path() / "stepcast-records-XXXXXX").string();
      if (mkdtemp(pattern.data()) == nullptr)
        throw std::runtime_error(fmt::format("cannot make a folder like {}", pattern));
      path_ = pattern;
    } else {
      fs::create_directories(path_);
    }
  }
  RecordFolder(const RecordFolder&) = delete;
  RecordFolder& operator=(const RecordFolder&) = delete;
  ~RecordFolder() {
    std::error_code ignored;
    if (temporary_) fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool temporary_;
};

RealSuite chosen_suite(const Request& request) {
  RealSuite suite = load_real_suite(find_suite(request.suite));
  if (!request.cluster.empty()) suite.cluster = request.cluster;
  if (!fs::is_regular_file(suite.cluster))
    throw InputError{SourcePosition{suite.cluster, 0, 0},
                     "there is no such cluster file; `stepcast calibrate` writes it"};
  if (request.only.empty()) return suite;
  std::vector<SuiteScenario> chosen;
  for (const std::string& name : request.only) {
    const auto found =
        std::find_if(suite.scenarios.begin(), suite.scenarios.end(),
                     [&](const SuiteScenario& scenario) { return scenario.name == name; });
    if (found == suite.scenarios.end())
      throw InputError{SourcePosition{suite.path, 0, 0},
                       fmt::format("there is no scenario '{}'", name)};
    chosen.push_back(*found);
  }
  suite.scenarios = std::move(chosen);
  suite.bounds.scored = std::min(suite.bounds.scored, static_cast<int>(suite.scenarios.size()));
  return suite;
}

// The shipped text where the scenario names none, as `stepcast run` does.
Training with_corpus(Training training) {
  if (training.data.empty()) training.data = data_folder() + "/data/corpus/tales.txt";
  return training;
}

real::SuiteRequest to_run(const Request& request, const RealSuite& suite,
                          const std::vector<RealForecast>& forecasts, std::size_t first,
                          const std::string& folder) {
  real::SuiteRequest run;
  run.backend = suite.backend == RealBackend::host ? real::MeasuredBackend::host
                                                   : real::MeasuredBackend::cuda;
  run.ranks = suite.ranks;
  run.ranks_per_gpu = suite.ranks_per_gpu;
  run.warm_up_steps = suite.warm_up_steps;
  run.recorded_steps = suite.recorded_steps;
  run.measured_steps = suite.measured_steps;
  run.folder = folder;
  run.announce = isatty(STDERR_FILENO) == 1;
  for (std::size_t i = first; i < forecasts.size(); ++i)
    run.runs.push_back({.name = forecasts[i].row.name,
                        .what = {.plan = &forecasts[i].plan,
                                 .model = &forecasts[i].scenario.model,
                                 .source = forecasts[i].scenario.path},
                        .training = with_corpus(forecasts[i].scenario.training),
                        .algorithms = algorithms_of(forecasts[i].scenario)});
  run.arguments = {"validate",  "real", request.suite,   "--cluster",          suite.cluster,
                   "--records", folder, "--member-from", std::to_string(first)};
  for (const std::string& name : request.only) {
    run.arguments.emplace_back("--only");
    run.arguments.push_back(name);
  }
  return run;
}

// Runs all scenarios; after one that fails, the rest.
ExitCode run_all(const Request& request, const RealSuite& suite,
                 std::vector<RealForecast>& forecasts, const std::string& folder) {
  for (const RealForecast& forecast : forecasts)
    fs::remove(real::record_path(folder, forecast.row.name));
  for (std::size_t first = 0; first < forecasts.size();) {
    const real::RunResult result =
        real::run_suite(to_run(request, suite, forecasts, first, folder));
    const auto done = [&](const RealForecast& forecast) {
      return fs::exists(real::record_path(folder, forecast.row.name));
    };
    const auto failed = std::find_if_not(forecasts.begin() + static_cast<std::ptrdiff_t>(first),
                                         forecasts.end(), done);
    if (failed == forecasts.end()) break;
    if (result.end == real::RunEnd::interrupted) {
      for (auto left = failed; left != forecasts.end(); ++left)
        left->row.failed = "interrupted";
      return ExitCode::interrupted;
    }
    failed->row.failed =
        result.message.empty() ? "the run ended without a record of it" : result.message;
    first = static_cast<std::size_t>(failed - forecasts.begin()) + 1;
  }
  return ExitCode::done;
}

// A rank of a run that another process supervises.
ExitCode run_as_member(const Request& request, const RealSuite& suite,
                       const std::vector<RealForecast>& forecasts) {
  const real::RunResult result = real::run_suite(to_run(
      request, suite, forecasts, static_cast<std::size_t>(request.member_from), request.records));
  return report_end(result);
}

ExitCode validate_suite(const Request& request) {
  const RealSuite suite = chosen_suite(request);
  std::vector<RealForecast> forecasts;
  for (const SuiteScenario& scenario : suite.scenarios)
    forecasts.push_back(forecast(suite, scenario));
  if (request.member_from >= 0) return run_as_member(request, suite, forecasts);
  const RecordFolder folder{request.records};
  const ExitCode ended =
      request.no_run ? ExitCode::done : run_all(request, suite, forecasts, folder.path());
  RealResult result;
  result.suite = suite;
  result.calibration = calibration_lines(forecasts);
  const std::optional<ReferenceTimes> reference = load_reference(suite.cluster);
  for (RealForecast& one : forecasts)
    add_measurement(real::record_path(folder.path(), one.row.name), reference, one, result);
  result.score = score_real(result.rows);
  if (!request.results.empty())
    write_complete_file(request.results, [&](std::ostream& out) { out << real_csv(result); });
  print_result(in_format(request.output, result, real_table, real_json, real_csv, real_markdown));
  if (ended != ExitCode::done) return ended;
  if (!exceeded(result.score, suite.bounds).empty()) return ExitCode::bound_exceeded;
  return too_noisy(result.score, suite.bounds).empty() ? ExitCode::done : ExitCode::failed;
}

}  // namespace

Command validate_real_command() {
  const auto request = std::make_shared<Request>();
  return {.name = "real",
          .help = "run a suite of scenarios for real, beside its forecasts",
          .options = {{.name = "SUITE",
                       .into = &request->suite,
                       .help = "suite file, or the name of a shipped one",
                       .required = true},
                      {.name = "--cluster",
                       .into = &request->cluster,
                       .form = "FILE",
                       .help = "the calibrated cluster file, instead of the suite's"},
                      {.name = "--results",
                       .into = &request->results,
                       .form = "FILE",
                       .help = "write the raw results as CSV"},
                      {.name = "--records",
                       .into = &request->records,
                       .form = "FOLDER",
                       .help = "keep a record of each scenario in a folder"},
                      {.name = "--only",
                       .into = &request->only,
                       .form = "NAME",
                       .help = "only this scenario (may be repeated)",
                       .repeated = true},
                      {.name = "--no-run",
                       .into = &request->no_run,
                       .help = "score the records that are there",
                       .needs = {"--records"}},
                      {.name = "--member-from", .into = &request->member_from, .hidden = true},
                      output_option(request->output)},
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
