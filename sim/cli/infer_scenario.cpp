#include "sim/cli/infer_scenario.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace sim {

Options infer_options(InferRequest& request) {
  return {{.name = "--write-scenario",
           .into = &request.file,
           .form = "FILE",
           .help = "write the scenario of the job, as far as the traces tell it",
           .writes = Output::file},
          {.name = "--model",
           .into = &request.hints.model,
           .form = "MODEL",
           .help = "of --write-scenario: the model, as 'models list' has it",
           .needs = {"--write-scenario"}},
          {.name = "--cluster",
           .into = &request.hints.cluster,
           .form = "CLUSTER",
           .help = "of --write-scenario: cluster file, or name as 'topo list' has it",
           .needs = {"--write-scenario"}},
          {.name = "--seq-length",
           .into = &request.hints.sequence_length,
           .form = "N",
           .help = "of --write-scenario: tokens of a sequence",
           .check = CountFrom{1, std::int64_t{1} << 32},
           .needs = {"--write-scenario"}}};
}

void write_inferred(const TracedRun& run, const InferRequest& request) {
  const InferredJob job = infer_job(run, find_steps(run), request.hints);
  const std::string name = std::filesystem::path{request.file}.stem().string();
  write_text_file(request.file, inferred_scenario(job, name));
  print_note(inferred_table(job));
  print_note(
      fmt::format("wrote {0}: check what is assumed, then `stepcast simulate {0}`", request.file));
}

}  // namespace sim
