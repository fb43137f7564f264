// stepcast search: the best layouts for a model on a cluster. Its command line.
#include <memory>

#include "sim/cli/hand_over.hpp"
#include "sim/cli/many/search_request.hpp"

namespace sim {
namespace {

// The workload in words, instead of a scenario.
Options workload_options(Workload& workload) {
  Options options{{.name = "--model",
                   .into = &workload.model,
                   .form = "MODEL",
                   .help = "a model, by name or file"},
                  {.name = "--cluster",
                   .into = &workload.cluster,
                   .form = "CLUSTER",
                   .help = "a cluster, by name or file"},
                  {.name = "--gpus",
                   .into = &workload.gpus,
                   .form = "N",
                   .help = "how many of its GPUs",
                   .check = CountFrom{1, 1 << 20}},
                  {.name = "--batch",
                   .into = &workload.global_batch,
                   .form = "N",
                   .help = "sequences per step",
                   .check = Positive{}},
                  {.name = "--sequence",
                   .into = &workload.sequence_length,
                   .form = "N",
                   .help = "tokens per sequence",
                   .check = Positive{}}};
  for (Option& option : options)
    option.excludes = {"SCENARIO"};
  return options;
}

Option top_option(std::vector<std::string>& overrides) {
  Option option =
      key_option(overrides, {"--top", "search.top", "N", "how many layouts to show (10)"});
  option.check = CountFrom{1, 1000};  // as the key
  return option;
}

}  // namespace

Options emit_options(std::optional<Target>& emit, std::string& emit_to) {
  return {target_option("--emit", emit, "write the best layout as the file that starts the job"),
          {.name = "--emit-to",
           .into = &emit_to,
           .form = "FILE",
           .help = "where to; default: the standard output",
           .writes = Output::file,
           .needs = {"--emit"}}};
}

Command search_command_of(const std::shared_ptr<SearchRequest>& request) {
  Options emit = emit_options(request->emit, request->emit_to);
  emit.front().excludes = {"--shard"};
  return {
      .name = "search",
      .help = "the best layouts for a model on a cluster",
      .options = joined(
          {{{.name = "SCENARIO",
             .into = &request->scenario,
             .help = "scenario file (YAML); its section `search` says what may vary"},
            output_option(request->output)},
           workload_options(request->workload),
           {set_option(request->workload.overrides, ", e.g. --set search.tensor_parallel=8"),
            anchor_option(request->workload.overrides), top_option(request->workload.overrides)},
           work_options(request->work),
           emit,
           {{.name = "--within",
             .into = &request->within,
             .form = "TIME",
             .help = "how long to search, e.g. 30s; then the best so far, and how much better "
                     "what is left can be",
             .excludes = {"--shard", "--results"}},
            {.name = "--no-progress",
             .into = &request->no_progress,
             .help = "no line of progress on a terminal"}}}),
      .footer =
          "Example: stepcast search --model llama-3.1-70b --cluster dgx-h100 --gpus 512 "
          "--batch 512 --sequence 8192",
      .run = [request] { return run_search_request(*request); }};
}

Command search_command() {
  return search_command_of(std::make_shared<SearchRequest>());
}

}  // namespace sim
