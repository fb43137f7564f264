// stepcast convergence: what schemes of synchronisation do to learning, by training with them.
#include <filesystem>
#include <memory>

#include "real/jobs/convergence_run.hpp"
#include "sim/cli/train/engine.hpp"
#include "sim/cli/train/job_host.hpp"
#include "sim/cli/train/run_end.hpp"
#include "sim/convergence/bounds.hpp"

namespace sim {
namespace {

namespace fs = std::filesystem;

struct ConvergenceRequest {
  std::string suite;
  std::string record;
  bool theory = false;
  real::DroppingNetwork network{.dropped = real::DroppedMessages::lost};
  OutputFormat output = OutputFormat::table;
};

ExitCode show_bounds(OutputFormat output) {
  print_result(in_format(
      output, 0, [](int) { return bounds_table(); }, [](int) { return bounds_json(); },
      [](int) { return bounds_csv(); }, [](int) { return bounds_markdown(); }));
  return ExitCode::done;
}

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder))
    throw InputError{SourcePosition{folder, 0, 0}, "cannot make this folder for the results"};
}

void record(const std::string& folder, const ConvergenceResult& result) {
  const std::string curves = (fs::path{folder} / "curves.csv").string();
  write_text_file(curves, convergence_csv(result));
  print_note("curves: " + curves);
  if (result.interrupted) return print_note("no factors are recorded: the suite was interrupted");
  const std::string factors = (fs::path{folder} / "factors.yaml").string();
  write_text_file(factors, factors_yaml(result.factors));
  print_note("factors: " + factors);
}

ExitCode train_suite(const ConvergenceRequest& request) {
  const ConvergenceSuite suite =
      load_convergence_suite(find_data_file("validation/convergence", request.suite));
  if (!request.record.empty()) make_folder(request.record);
  const ConvergenceResult result = real::run_convergence(
      suite, {.control = stop_on_signals(true), .network = request.network, .note = print_note});
  print_result(in_format(request.output, result, convergence_table, convergence_json,
                         convergence_csv, convergence_markdown));
  if (!request.record.empty()) record(request.record, result);
  return result.interrupted ? ExitCode::interrupted : ExitCode::done;
}

ExitCode run(const ConvergenceRequest& request) {
  if (request.theory) return show_bounds(request.output);
  if (request.suite.empty())
    throw WrongUse{"convergence: SUITE is missing: a suite file, or the name of a shipped one"};
  return train_suite(request);
}

}  // namespace

Command convergence_command() {
  const auto request = std::make_shared<ConvergenceRequest>();
  return {.name = "convergence",
          .help = "what schemes of synchronisation do to learning",
          .options = {{.name = "SUITE",
                       .into = &request->suite,
                       .help = "suite file, or the name of a shipped one"},
                      {.name = "--record",
                       .into = &request->record,
                       .form = "DIR",
                       .help = "write factors.yaml and curves.csv into this folder",
                       .writes = Output::folder},
                      {.name = "--theory",
                       .into = &request->theory,
                       .help = "what is proved of such schemes, instead of training"},
                      {.name = "--drop-rate",
                       .into = &request->network.rate,
                       .form = "SHARE",
                       .help = "of what ranks give to averages that gets lost, by the seed (0)",
                       .check = NumberFrom{0, 0.9}},
                      output_option(request->output)},
          .footer =
              "It trains on the CPU cores of this machine; CSV has the losses of every step.\n"
              "Example: stepcast convergence byte-llama --record here",
          .run = [request] {
            return run_among_ranks("convergence", {}, [&] { return run(*request); });
          }};
}

}  // namespace sim
