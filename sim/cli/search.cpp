// stepcast search: the best layouts for a model on a cluster.
#include "sim/search/search.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <memory>

#include "sim/base/input_error.hpp"
#include "sim/cli/command.hpp"
#include "sim/cli/hand_over.hpp"
#include "sim/report/numbers.hpp"
#include "sim/search/result.hpp"

namespace sim {
namespace {

struct Request {
  std::string scenario;
  OutputFormat output = OutputFormat::table;
  std::vector<std::string> overrides;
  std::string model, cluster;
  int gpus = 0;
  std::int64_t batch = 0, sequence = 0;
  int threads = 0;
  bool no_progress = false;
  std::optional<Target> emit;
  std::string emit_to;
};

std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free, "it is set in a signal handler");

// The second Ctrl-C ends the program at once.
extern "C" void ask_to_stop(int) {
  if (stop_asked.exchange(true)) _exit(static_cast<int>(ExitCode::interrupted));
}

ScenarioSources sources_of(const Request& request) {
  if (!request.scenario.empty()) return ScenarioSources{request.scenario, request.overrides};
  const auto missing = [](const char* option) {
    return InputError{SourcePosition{option, 0, 0},
                      "is needed without a scenario file: give --model, --cluster, --gpus and "
                      "--batch"};
  };
  if (request.model.empty()) throw missing("--model");
  if (request.cluster.empty()) throw missing("--cluster");
  if (request.gpus < 1) throw missing("--gpus");
  if (request.batch < 1) throw missing("--batch");
  const std::string cluster = find_data_file("topologies", request.cluster);
  const int per_node = Cluster::load(cluster).gpus_per_node();
  std::vector<std::string> assignments{
      "model=" + find_data_file("models", request.model), "cluster.path=" + cluster,
      fmt::format("cluster.nodes={}", (request.gpus + per_node - 1) / per_node),
      fmt::format("cluster.gpus={}", request.gpus),
      fmt::format("layout.global_batch={}", request.batch)};
  if (request.sequence > 0)
    assignments.push_back(fmt::format("layout.sequence_length={}", request.sequence));
  assignments.insert(assignments.end(), request.overrides.begin(), request.overrides.end());
  return ScenarioSources::of_options(assignments);
}

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

ExitCode search_layouts(const Request& request) {
  const SearchThreads threads{request.threads};
  SearchSpecification specification = load_search(sources_of(request));
  std::signal(SIGINT, ask_to_stop);
  const auto begin = std::chrono::steady_clock::now();
  Search search{std::move(specification)};
  const bool shows = !request.no_progress && isatty(STDERR_FILENO) == 1;
  const bool complete =
      run_search(search, stop_asked, shows ? show_progress : decltype(&show_progress){});
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  if (shows) print_note("");
  const SearchResult result = make_result(search, complete);
  // The standard output has one thing: the winner's file, if it goes there.
  const bool emits = request.emit && !result.best.empty();
  const std::string ranking =
      in_format(request.output, result, search_table, search_json, search_csv, search_markdown);
  if (emits && request.emit_to.empty())
    print_note(ranking);
  else
    print_result(ranking);
  print_note(fmt::format(
      "{} layouts in {:.1f} s: {} layouts/s", grouped(result.counts.legal - result.counts.open),
      passed.count(),
      significant(static_cast<double>(result.counts.legal - result.counts.open) / passed.count())));
  if (emits)
    hand_over(take_scenario(std::move(search), result.best.front().evaluation.index), *request.emit,
              request.emit_to);
  if (!complete) return ExitCode::interrupted;
  if (!result.best.empty()) return ExitCode::done;
  print_note(result.nothing_fits);
  return ExitCode::does_not_fit;
}

}  // namespace

void add_search(CLI::App& app, ChosenCommand& action) {
  const auto request = std::make_shared<Request>();
  CLI::App* command = app.add_subcommand("search", "the best layouts for a model on a cluster");
  CLI::Option* scenario =
      command->add_option("SCENARIO", request->scenario,
                          "scenario file (YAML); its section `search` says what may vary");
  add_output_option(*command, request->output);
  const auto instead = [&](CLI::Option* option, const char* text) {
    option->option_text(text)->excludes(scenario);
  };
  instead(command->add_option("--model", request->model, "a model, by name or file"), "MODEL");
  instead(command->add_option("--cluster", request->cluster, "a cluster, by name or file"),
          "CLUSTER");
  instead(command->add_option("--gpus", request->gpus, "how many of its GPUs")
              ->check(CLI::Range(1, 1 << 20)),
          "N");
  instead(command->add_option("--batch", request->batch, "sequences per step")
              ->check(CLI::PositiveNumber),
          "N");
  instead(command->add_option("--sequence", request->sequence, "tokens per sequence")
              ->check(CLI::PositiveNumber),
          "N");
  command
      ->add_option("--set", request->overrides,
                   "set a key of the scenario, e.g. --set search.tensor_parallel=8")
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false);
  // After --set, which begins the list anew.
  command
      ->add_option_function<int>(
          "--top",
          [request](const int& value) {
            request->overrides.push_back(fmt::format("search.top={}", value));
          },
          "how many layouts to show (10)")
      ->option_text("N");
  command->add_option("--threads", request->threads, "threads to use (all cores)")
      ->option_text("N")
      ->check(CLI::Range(1, 4096));
  add_target_option(*command, "--emit", request->emit,
                    "write the best layout as the file that starts the job");
  command->add_option("--emit-to", request->emit_to, "where to; default: the standard output")
      ->option_text("FILE")
      ->needs("--emit");
  command->add_flag("--no-progress", request->no_progress, "no line of progress on a terminal");
  command->footer(
      "Example: stepcast search --model llama-3.1-70b --cluster dgx-h100 --gpus 512 --batch 512 "
      "--sequence 8192");
  command->callback(
      [request, &action] { action = [request] { return search_layouts(*request); }; });
}

}  // namespace sim
