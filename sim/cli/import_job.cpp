// stepcast import megatron|torchtitan|deepspeed|accelerate|nemo|automodel|mlperf|primus: the file
// of a training job as a scenario.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "sim/cli/command.hpp"
#include "sim/cli/job_options.hpp"
#include "sim/interop/try_recipes.hpp"

namespace sim {
namespace {

struct ImportJobRequest : JobFile {
  std::string output;  // file; empty: the standard output
};

ExitCode import_into_scenario(JobKind kind, const ImportJobRequest& request) {
  const ImportedJob imported = import_job(kind, request);
  const std::string folder = request.output.empty()
                                 ? ""
                                 : std::filesystem::absolute(request.output).parent_path().string();
  const std::string text = imported_yaml(imported, request, folder);
  for (const std::string& line : note_lines(imported))
    print_note(line);
  if (request.output.empty())
    print_result(text);
  else
    write_text_file(request.output, text);
  return ExitCode::done;
}

// Programs whose files are read as another one's.
std::vector<std::string> aliases_of(JobKind kind) {
  if (kind == JobKind::nemo) return {"bridge", "megatron-bridge"};
  if (kind == JobKind::accelerate) return {"axolotl", "trl", "llama-factory"};
  return {};
}

Command job_command(JobKind kind, const char* help) {
  const auto request = std::make_shared<ImportJobRequest>();
  const std::string name{word(kind)};
  return {
      .name = name,
      .help = help,
      .options = joined({job_options(*request),
                         options_of_kind(kind, *request),
                         {{.name = "-o,--output",
                           .into = &request->output,
                           .form = "FILE",
                           .help = "where to; default: the standard output",
                           .writes = Output::file}}}),
      .footer = fmt::format("Example: stepcast import {} FILE --cluster dgx-h100 --gpus 64", name),
      .run = [request, kind] { return import_into_scenario(kind, *request); },
      .aliases = aliases_of(kind)};
}

struct TryRequest : Fallback {
  std::string folder;
  int most = 20;
  bool list = false;
};

Command try_command() {
  const auto request = std::make_shared<TryRequest>();
  return {
      .name = "try",
      .help =
          "try every recipe of a folder, and say how many are read without a remark, with which "
          "remarks, and what the others are refused for",
      .options =
          {{.name = "FOLDER", .into = &request->folder, .help = "the folder", .required = true},
           {.name = "--cluster",
            .into = &request->cluster,
            .form = "CLUSTER",
            .help = "where they run; default: dgx-h100"},
           {.name = "--model",
            .into = &request->model,
            .form = "MODEL",
            .help = "of files that have none; default: llama-3.1-8b"},
           {.name = "--seq-length",
            .into = &request->sequence_length,
            .form = "N",
            .help = "of files that do not say it; default: 4096",
            .check = CountFrom{1, std::int64_t{1} << 32}},
           {.name = "--reasons",
            .into = &request->most,
            .form = "N",
            .help = "how many to print; default: 20",
            .check = CountFrom{1, 100'000}},
           {.name = "--list", .into = &request->list, .help = "every recipe with its reasons"}},
      .footer = "Example: stepcast import try Megatron-Bridge/src",
      .run = [request] {
        const auto most = static_cast<std::size_t>(request->most);
        print_result(tried_text(try_recipes(request->folder, *request), most, request->list));
        return ExitCode::done;
      }};
}

}  // namespace

std::vector<Command> job_imports() {
  return {
      try_command(),
      job_command(JobKind::megatron,
                  "a scenario from Megatron-LM's arguments, as a file or a pasted bash array"),
      job_command(JobKind::torchtitan,
                  "a scenario from torchtitan's TOML, or from a config_registry.py"),
      job_command(JobKind::deepspeed,
                  "a scenario from DeepSpeed's JSON; the model comes with --model"),
      job_command(JobKind::accelerate,
                  "a scenario from the YAML of Hugging Face Accelerate, TRL, axolotl or "
                  "LLaMA-Factory, or from the script that starts them"),
      job_command(JobKind::nemo,
                  "a scenario from the YAML of Megatron-Bridge or NeMo 1.x, from a recipe in "
                  "Python, or from the script that starts one"),
      job_command(JobKind::automodel, "a scenario from the YAML of a recipe of NeMo Automodel"),
      job_command(JobKind::mlperf,
                  "a scenario from a config_*.sh of NVIDIA's language models in MLPerf Training; "
                  "scripts that it sources are read beside it"),
      job_command(JobKind::primus,
                  "a scenario from an experiment of AMD's Primus, for Megatron-LM or torchtitan")};
}

}  // namespace sim
