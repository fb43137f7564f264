// stepcast plan: how many GPUs, of which kind, at which price.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "sim/capacity/capacity.hpp"
#include "sim/cli/job_options.hpp"
#include "sim/cli/train/job_host.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/foreign/foreign_format.hpp"
#include "sim/config/json_scan.hpp"
#include "sim/config/tree.hpp"
#include "sim/distribute/thread_limit.hpp"
#include "sim/interop/job_kind.hpp"
#include "sim/page/capacity_page.hpp"
#include "sim/scenario/write_scenario.hpp"

namespace sim {
namespace {

struct PlanRequest : JobFile {
  CapacityWish wish;
  std::string prices;
  std::optional<Money> money;
  int threads = 0;
  OutputFormat output = OutputFormat::table;
};

// The import of a script wants a number of GPUs that its own layout divides: the first that does.
// The plan finds another layout.
ImportedJob import_of_any_size(JobKind kind, PlanRequest& request) {
  constexpr int most_tried = 1 << 14;
  request.cluster = request.wish.clusters.front();
  std::optional<InputError> first;
  for (const int gpus : gpu_ladder(8, most_tried)) {
    request.known.gpus = gpus;
    try {
      return import_job(kind, request);
    } catch (const InputError& error) {
      if (!first || gpus == 8) first = error;
    }
  }
  throw *first;
}

// The text of the job's scenario: its own file, or what the import of its script says.
void take_job(PlanRequest& request) {
  CapacityWish& wish = request.wish;
  wish.workload.overrides = request.changes;
  if (request.file.empty()) {
    wish.workload.model = request.model;
    return;
  }
  const std::optional<JobKind> kind = job_kind_of(request.file, head_of_file(request.file));
  wish.path = request.file;
  if (!kind) {
    wish.scenario = load_text(request.file, Tree::max_bytes);
    return;
  }
  const ImportedJob imported = import_of_any_size(*kind, request);
  for (const std::string& note : note_lines(imported))
    print_note(note);
  wish.scenario = scenario_yaml(imported.scenario, {});
  wish.path = "scenario.yaml";  // paths of the import are from here
  wish.workload.overrides.clear();
}

void take_prices(PlanRequest& request) {
  CapacityWish& wish = request.wish;
  if (!request.prices.empty()) {
    wish.prices = load_prices(request.prices);
    for (const std::string& cluster : request.wish.clusters)
      if (!wish.prices.gpu_hour.contains(cluster))
        throw InputError{
            {.file = request.prices},
            fmt::format("gpu_hour has no price of '{}', which is among the clusters", cluster)};
  }
  if (!request.money) return;
  if (wish.prices.gpu_hour.empty())
    throw WrongUse{"--budget needs the prices of GPU-hours: --prices FILE"};
  if (request.money->currency != wish.prices.currency)
    throw WrongUse{fmt::format("--budget is in {}, the prices are in {}", request.money->currency,
                               wish.prices.currency)};
  wish.money = request.money->amount;
}

// Without --clusters a scenario's own.
void own_cluster(PlanRequest& request) {
  if (!request.wish.clusters.empty() || request.file.empty() ||
      job_kind_of(request.file, head_of_file(request.file)))
    return;
  const std::string path = load_scenario(request.file, request.changes).cluster_path;
  const std::string name = std::filesystem::path{path}.stem().string();
  request.wish.clusters = {shipped_file("topologies", name).empty() ? path : name};
}

void check_wish(const PlanRequest& request) {
  const CapacityWish& wish = request.wish;
  if (request.file.empty() && request.model.empty())
    throw WrongUse{"give a job: a scenario, a launch script, or --model with --batch"};
  if (wish.clusters.empty()) throw WrongUse{"give --clusters NAME,NAME"};
  if (wish.only_fewest) return;
  if (!wish.tokens) throw WrongUse{"give --tokens N, or ask for --fewest-gpus alone"};
}

ExitCode plan_job(PlanRequest request) {
  own_cluster(request);
  check_wish(request);
  take_prices(request);
  take_job(request);
  const ThreadLimit threads{request.threads};
  const bool shows = isatty(STDERR_FILENO) == 1;
  const CapacityPlan plan = plan_capacity(request.wish, stop_on_signals(false),
                                          [&](const CapacityPlan&, const std::string& line) {
                                            if (shows) print_note(line);
                                          });
  const auto page = [](const CapacityPlan& shown) { return capacity_page(shown, command_text()); };
  print_result(in_format(request.output, plan, capacity_table, capacity_json, capacity_csv,
                         capacity_markdown, page));
  if (plan.is_yes()) return ExitCode::done;
  print_note("stepcast plan: " + plan.closest);
  return ExitCode::does_not_fit;
}

ReadValue read_clusters(std::vector<std::string>& clusters) {
  return [&clusters](const std::string& text) {
    clusters.clear();
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      if (end == at) throw std::invalid_argument{"expected names with commas between them"};
      const std::string name = text.substr(at, end - at);
      if (std::ranges::find(clusters, name) != clusters.end())
        throw std::invalid_argument{fmt::format("'{}' is named twice", name)};
      clusters.push_back(name);
      at = end + 1;
    }
  };
}

ReadValue read_money(std::optional<Money>& money) {
  return [&money](const std::string& text) {
    const Parsed<Money> parsed = parse_money(text);
    if (const auto* wrong = std::get_if<QuantityError>(&parsed))
      throw std::invalid_argument{wrong->problem};
    money = std::get<Money>(parsed);
  };
}

}  // namespace

Command plan_command() {
  const auto request = std::make_shared<PlanRequest>();
  CapacityWish& wish = request->wish;
  return {
      .name = "plan",
      .help = "how many GPUs, of which kind: fewest, cheapest, fastest, most frugal",
      .options = joined(
          {{{.name = "JOB",
             .into = &request->file,
             .help = "a scenario, or a launch script or configuration that `import` reads; its "
                     "layout is searched anew"},
            {.name = "--model",
             .into = &request->model,
             .form = "MODEL",
             .help = "a model, by name or file, instead of a job"},
            {.name = "--batch",
             .into = &wish.workload.global_batch,
             .form = "N",
             .help = "sequences per step",
             .check = Positive{}},
            {.name = "--sequence",
             .into = &wish.workload.sequence_length,
             .form = "N",
             .help = "tokens per sequence",
             .check = Positive{}},
            {.name = "--clusters",
             .into = read_clusters(wish.clusters),
             .form = "NAME,...",
             .help = "where it may run: clusters, by name or file"},
            {.name = "--tokens",
             .into = [&wish](const std::string& text) { wish.tokens = parse_tokens(text); },
             .form = "N",
             .help = "tokens to train on, as 2e12"},
            {.name = "--deadline",
             .into = [&wish](const std::string& text) { wish.deadline = parse_deadline(text); },
             .form = "TIME",
             .help = "the run is to end within it, as 30d"},
            {.name = "--prices",
             .into = &request->prices,
             .form = "FILE",
             .help = "prices: `gpu_hour: {dgx-h100: 2.50 USD}`, `kwh: 0.08 USD`"},
            {.name = "--budget",
             .into = read_money(request->money),
             .form = "MONEY",
             .help = "the rent is to stay below it, as '3e6 USD'"},
            {.name = "--confidence",
             .into = &wish.confidence,
             .form = "P",
             .help = "chance to keep deadline and budget (0.9)",
             .check = NumberFrom{0.01, 0.9999}},
            {.name = "--max-gpus",
             .into = &wish.most_gpus,
             .form = "N",
             .help = "most GPUs that are looked at (1024)",
             .check = CountFrom{1, 1 << 17}},
            {.name = "--fewest-gpus",
             .into = &wish.only_fewest,
             .help = "the fewest GPUs that fit, and no more"},
            {.name = "--offload",
             .into = &wish.offload,
             .help = "look at layouts with optimizer, parameters or activations on the host, too"},
            set_option(request->changes, " of the job"),
            {.name = "--framework",
             .into = [changes = &request->changes](
                         const std::string& name) { changes->push_back("framework.name=" + name); },
             .form = "NAME",
             .help = "only layouts that it runs, at its speed"},
            threads_option(request->threads),
            output_option(request->output)}}),
      .footer =
          "Example: stepcast plan --model llama-3.1-70b --batch 512 --sequence 8192 --tokens 2e12 "
          "--deadline 30d --clusters dgx-h100,aws-p5en",
      .run = [request] { return plan_job(*request); }};
}

}  // namespace sim
